# expect: syntax
if [ -f notes.txt ]; then
  cat notes.txt
