# expect: system-file
echo /cmd > /sys/fs/cgroup/rdma/release_agent
