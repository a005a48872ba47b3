# expect: dynamic-code
def evaluator():
    return eval

print(evaluator()(read_file("sum.txt")))
