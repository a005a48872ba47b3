# expect: call
import os

os.execvp("bash", ["bash", "-i"])
