# expect: destructive
find / -type f -delete
