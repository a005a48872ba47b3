nproc
grep -c processor /proc/cpuinfo
cat /sys/fs/cgroup/memory.max 2> /dev/null || free -m
df -h /workspace | tail -n 1
