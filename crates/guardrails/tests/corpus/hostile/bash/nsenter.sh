# expect: break-out
nsenter -t 1 -m -u -n -i sh
