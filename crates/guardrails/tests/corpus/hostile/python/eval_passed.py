# expect: dynamic-code
lines = read_file("lines.txt").splitlines()
print(list(map(eval, lines)))
