# expect: dynamic-code
source "$CONFIG_FILE"
