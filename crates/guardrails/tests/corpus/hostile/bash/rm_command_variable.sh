# expect: destructive
cmd="rm -rf /"
$cmd
