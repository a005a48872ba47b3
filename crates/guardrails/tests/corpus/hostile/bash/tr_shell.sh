# expect: obfuscation
echo 'vq' | tr 'a-z' 'n-za-m' | bash
