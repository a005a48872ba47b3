# expect: dynamic-code
find . -name '*.txt' -exec sh -c "$ACTION" \;
