# expect: destructive
chmod -R 000 /
