import ast

tree = ast.parse(read_file("module.py"))
names = sorted(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
print(names)
