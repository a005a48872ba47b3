# expect: dynamic-code
tools = [eval, len]
print(tools[0](read_file("sum.txt")))
