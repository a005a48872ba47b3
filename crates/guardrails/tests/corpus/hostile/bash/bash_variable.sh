# expect: dynamic-code
bash -c "$COMMAND"
