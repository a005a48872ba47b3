# expect: destructive
rm -r --force ~
