quietly() {
  "$@" > /dev/null 2>&1
}
if quietly grep -q boat notes.txt; then echo found; fi
