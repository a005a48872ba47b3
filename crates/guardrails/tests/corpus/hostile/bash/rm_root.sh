# expect: destructive
rm -rf /
