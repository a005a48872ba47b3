# expect: import
import _posixsubprocess
import os

read, write = os.pipe()
_posixsubprocess.fork_exec([b"/bin/sh"], [b"/bin/sh"], True, (), None, None, -1, -1, -1, -1, -1, -1, read, write, False, False, 0, None, None, None, -1, None)
