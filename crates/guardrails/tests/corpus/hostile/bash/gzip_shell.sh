# expect: obfuscation
gunzip -c job.gz | bash
