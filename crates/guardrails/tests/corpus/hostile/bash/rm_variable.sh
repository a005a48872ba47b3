# expect: destructive
target=/
rm -rf "$target"
