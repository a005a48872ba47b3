# expect: system-file
echo '|/tmp/x' > /proc/sys/kernel/core_pattern
