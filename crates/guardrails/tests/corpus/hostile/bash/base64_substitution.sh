# expect: obfuscation
bash -c "$(base64 -d <<< cm0gLXJmIC8=)"
