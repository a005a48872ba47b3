# expect: system-file
dd if=/proc/self/mem of=dump bs=1 skip=4194304 count=64
