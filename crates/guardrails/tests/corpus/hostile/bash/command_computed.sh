# expect: dynamic-code
$(cat command.txt) --now
