# expect: dynamic-code
code = ""
for line in read_file("job.txt").splitlines():
    code += line + "\n"
exec(code)
