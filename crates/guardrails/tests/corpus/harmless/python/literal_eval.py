import ast

for line in read_file("tuples.txt").splitlines():
    print(ast.literal_eval(line))
