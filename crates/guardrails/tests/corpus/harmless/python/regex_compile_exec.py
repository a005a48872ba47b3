import re

exec_line = re.compile(r"^\s*exec\s*\(")
for number, line in enumerate(open("script.py"), 1):
    if exec_line.match(line):
        print(number, line.strip())
