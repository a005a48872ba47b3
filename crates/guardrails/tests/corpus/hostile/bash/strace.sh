# expect: break-out
strace -f -p 1
