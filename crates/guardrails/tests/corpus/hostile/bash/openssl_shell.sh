# expect: obfuscation
openssl enc -d -aes-256-cbc -in job.enc -k x | sh
