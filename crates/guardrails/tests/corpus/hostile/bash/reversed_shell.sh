# expect: obfuscation
echo 'fr- mr' | rev | sh
