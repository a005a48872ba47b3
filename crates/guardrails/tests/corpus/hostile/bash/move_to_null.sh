# expect: destructive
mv /etc /dev/null
