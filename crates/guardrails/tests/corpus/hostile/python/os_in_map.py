# expect: call
import os

list(map(os.system, ["id", "uname -a"]))
