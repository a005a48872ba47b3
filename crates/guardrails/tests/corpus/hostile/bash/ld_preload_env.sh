# expect: break-out
env LD_PRELOAD=./hook.so cat notes.txt
