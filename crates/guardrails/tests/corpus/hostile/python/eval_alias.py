# expect: dynamic-code
calculate = eval
print(calculate(read_file("sum.txt")))
