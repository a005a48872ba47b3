# expect: dynamic-code
bash <<< "$COMMANDS"
