# expect: call
import os

actions = {"list": os.listdir, "shell": os.system}
actions["shell"]("id")
