# expect: dynamic-code
cat commands.txt | xargs -I{} bash -c
