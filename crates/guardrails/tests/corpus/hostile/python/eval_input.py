# expect: dynamic-code
expression = open("/workspace/expression.txt").read()
print(eval(expression))
