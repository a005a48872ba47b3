# expect: obfuscation
source <(base64 -d job.b64)
