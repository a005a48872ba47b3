from string import Template
from textwrap import dedent

template = Template("Dear $name,\n\nyou have $count new messages.\n")
rows = [("Ann", 3), ("Bo", 0)]
for name, count in rows:
    print(template.substitute(name=name, count=count))
print(dedent("""
    Regards
"""))
