# expect: destructive
echo 'rm -rf /' | sh
