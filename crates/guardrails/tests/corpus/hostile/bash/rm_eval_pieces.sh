# expect: destructive
a="rm -r"; b="f /"
eval "$a$b"
