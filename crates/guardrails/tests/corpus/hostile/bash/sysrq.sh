# expect: system-file
echo b > /proc/sysrq-trigger
