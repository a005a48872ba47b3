# expect: system-file
ls -la /proc/1/root/etc
