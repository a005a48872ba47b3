# expect: destructive
trap 'rm -rf /' EXIT
echo done
