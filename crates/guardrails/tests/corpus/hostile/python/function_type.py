# expect: dynamic-code
import types

def f():
    return 1

types.FunctionType(compile(read_file("job.py"), "x", "exec"), globals())()
