import operator

operations = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}

def calculate(expression):
    left, sign, right = expression.split()
    return operations[sign](float(left), float(right))

result = [calculate(line) for line in ("1 + 2", "3 * 4")]
