# expect: dynamic-code
def apply(code):
    exec(code)

apply(read_file("plugin.py"))
