# expect: destructive
eval "rm -rf /"
