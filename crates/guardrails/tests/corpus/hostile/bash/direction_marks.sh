# expect: obfuscation
level=user
if [ "$level" != "user‮ ⁦# check⁩ ⁦" ]; then
  echo admin
fi
