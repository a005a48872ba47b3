# expect: obfuscation
echo 6964 | xxd -r -p | sh
