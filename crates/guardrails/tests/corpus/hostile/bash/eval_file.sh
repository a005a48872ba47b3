# expect: dynamic-code
eval "$(cat commands.txt)"
