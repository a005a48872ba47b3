# expect: dynamic-code
read -r line
eval "$line"
