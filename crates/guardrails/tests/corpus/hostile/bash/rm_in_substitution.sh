# expect: destructive
files=$(rm -rf /opt && ls)
echo "$files"
