# expect: dynamic-code
run() { eval "$*"; }
run "$@"
