# expect: obfuscation
$(echo aWQ= | base64 -d)
