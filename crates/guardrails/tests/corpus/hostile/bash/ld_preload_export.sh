# expect: break-out
export LD_PRELOAD=/workspace/hook.so
ls
