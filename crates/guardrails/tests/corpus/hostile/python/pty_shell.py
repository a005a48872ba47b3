# expect: import
import pty

pty.spawn("/bin/bash")
