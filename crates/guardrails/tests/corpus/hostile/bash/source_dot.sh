# expect: dynamic-code
. "$1"
