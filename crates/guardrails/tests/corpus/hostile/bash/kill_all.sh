# expect: destructive
kill -9 -1
