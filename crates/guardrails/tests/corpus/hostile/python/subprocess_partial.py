# expect: call
import functools
import subprocess

shell = functools.partial(subprocess.call, shell=True)
shell("id")
