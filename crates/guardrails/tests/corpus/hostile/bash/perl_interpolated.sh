# expect: dynamic-code
perl -e "$CODE"
