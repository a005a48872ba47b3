# expect: syntax
echo "one
echo two
