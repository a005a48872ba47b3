# expect: dynamic-code
import code

code.InteractiveInterpreter().runsource(read_file("job.py"))
