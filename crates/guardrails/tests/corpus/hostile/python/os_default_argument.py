# expect: call
import os

def report(command, run=os.system):
    return run(command)

report("id")
