# Starts children until one is refused, and reports their number.
import os
import signal

children = []
try:
    while len(children) < 64:
        pid = os.fork()
        if pid == 0:
            signal.pause()
            os._exit(0)
        children.append(pid)
except OSError:
    pass
finally:
    for pid in children:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
len(children)
