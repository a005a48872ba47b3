# expect: dynamic-code
run = eval if len(list_files()) else len
print(run(read_file("sum.txt")))
