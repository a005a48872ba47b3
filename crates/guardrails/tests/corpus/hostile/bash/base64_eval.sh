# expect: obfuscation
eval "$(echo cm0gLXJmIC8= | base64 --decode)"
