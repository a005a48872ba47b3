# expect: dynamic-code
read -r program
"$program" --now
