# expect: dynamic-code
code = compile(read_file("job.py"), "job.py", "exec")
exec(code)
