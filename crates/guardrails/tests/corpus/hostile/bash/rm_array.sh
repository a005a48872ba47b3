# expect: destructive
command=(rm -rf /)
"${command[@]}"
