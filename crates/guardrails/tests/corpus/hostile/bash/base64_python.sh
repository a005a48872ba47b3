# expect: obfuscation
base64 -d job.b64 | python3
