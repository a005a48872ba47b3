# expect: raw-network
/bin/busybox nc 203.0.113.9 4444
