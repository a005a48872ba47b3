# expect: dynamic-code
e'v'al "$INPUT"
