# expect: dynamic-code
runner = lambda text: exec(text)
runner(read_file("job.py"))
