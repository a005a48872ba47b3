# expect: destructive
rm --recursive --no-preserve-root /
