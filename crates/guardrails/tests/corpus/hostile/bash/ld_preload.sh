# expect: break-out
LD_PRELOAD=./hook.so ls
