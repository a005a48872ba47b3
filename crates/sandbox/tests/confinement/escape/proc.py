"""What `/proc` reveals about the host and others. HOST_PID is a process of the same user outside the sandbox."""

CLOSED = ("ENOENT", "EACCES")


def read(path):
    with open(path, "rb") as file:
        file.read(64)


def write(path):
    os.close(os.open(path, os.O_WRONLY))


for name in (
    "stat", "loadavg", "uptime", "meminfo", "cpuinfo", "interrupts", "softirqs", "vmstat", "diskstats", "partitions",
    "modules", "mounts", "version", "cmdline", "locks", "net/dev", "sys/kernel/random/boot_id", "sys/kernel/hostname",
    "sys/kernel/core_pattern", "self/mountinfo", "self/mounts", "self/cgroup", "self/status", "self/maps",
    "self/smaps", "self/environ", "self/cmdline", "self/stat", "self/auxv", "self/limits", "self/sched",
    "self/schedstat",
):
    control = "done" if os.path.exists(f"/proc/{name}") else None
    probe(f"read /proc/{name}", lambda: read(f"/proc/{name}"), CLOSED, control)
for name in (
    "schedstat", "pressure/cpu", "pressure/memory", "pressure/io", "timer_list", "sched_debug", "keys", "key-users",
    "slabinfo",
):
    probe(f"read /proc/{name}", lambda: read(f"/proc/{name}"), CLOSED)
for name in ("kcore", "kmsg", "kallsyms", "kpagecount", "1/environ", "1/maps", "1/mem", "1/root/etc/shadow"):
    control = "done" if os.path.exists(f"/proc/{name}") else None
    probe(
        f"open /proc/{name}",
        lambda: os.close(os.open(f"/proc/{name}", os.O_RDONLY | os.O_NONBLOCK)),
        CLOSED,
        root=control,
        absent=FIRST_HAS_MORE,
    )
for name in (
    "sysrq-trigger", "sys/kernel/core_pattern", "sys/kernel/modprobe", "sys/vm/drop_caches", "sys/kernel/hostname",
):
    probe(
        f"open /proc/{name} for writing", lambda: write(f"/proc/{name}"), CLOSED, root="done", absent=NO_SUCH_FILE
    )
for name in (
    "mem", "uid_map", "setgroups", "oom_score_adj", "coredump_filter", "clear_refs", "comm", "attr/current",
    "timerslack_ns",
):
    control = "done" if name in ("mem", "oom_score_adj", "coredump_filter", "clear_refs", "comm") else None
    probe(f"open /proc/self/{name} for writing", lambda: write(f"/proc/self/{name}"), CLOSED + ("EROFS",), control)

probe("read /proc of a host process", lambda: read(f"/proc/{HOST_PID}/environ"), CLOSED, "done")
probe("list /proc of a host process", lambda: os.listdir(f"/proc/{HOST_PID}"), "ENOENT", "done")
if INSIDE:
    pids = sorted(int(name) for name in os.listdir("/proc") if name.isdigit())
    check("only own processes are in /proc", pids == [1], pids)
    check(
        "nothing but processes is in /proc",
        not {"sys", "stat", "meminfo", "kcore"} & set(os.listdir("/proc")),
        os.listdir("/proc"),
    )
    for name in ("cwd", "root", "exe"):
        target = os.readlink(f"/proc/self/{name}")
        check(
            f"/proc/self/{name} tells no host path", target == "/" or target.startswith(("/workspace", "/usr")), target
        )
else:
    check("the host process is in /proc", str(HOST_PID) in os.listdir("/proc"))

# Signals and other ways to access a process by its PID.
queued = (ctypes.c_int32 * 32)(0, 0, -1)
for name, act, allowed in (
    ("kill a host process", lambda: os.kill(HOST_PID, 0), "done"),
    ("kill the group of a host process", lambda: os.killpg(HOST_PID, 0), "done"),
    ("queue a signal to a host process", lambda: call("rt_sigqueueinfo", HOST_PID, 0, queued), "done"),
    ("open a host process", lambda: os.close(os.pidfd_open(HOST_PID)), "done"),
    ("set the limits of a host process", lambda: __import__("resource").prlimit(HOST_PID, 7), "done"),
    ("set the priority of a host process", lambda: os.setpriority(os.PRIO_PROCESS, HOST_PID, os.nice(0)), "done"),
    ("set the processors of a host process", lambda: os.sched_setaffinity(HOST_PID, os.sched_getaffinity(0)), "done"),
    ("ask for the session of a host process", lambda: os.getsid(HOST_PID), "done"),
):
    probe(name, act, "ESRCH", allowed)


def own_child(act):
    pid = os.fork()
    if pid == 0:
        signal.pause()
    act(pid)
    os.waitpid(pid, 0)


probe("kill an own process", lambda: own_child(lambda pid: os.kill(pid, signal.SIGKILL)), "done", "done")
probe(
    "open and kill an own process",
    lambda: own_child(lambda pid: signal.pidfd_send_signal(os.pidfd_open(pid), signal.SIGKILL)),
    "done",
    "done",
)

if INSIDE:
    # Never outside, where it would have its effect. The test checks that the process of the host is unchanged.
    probe("kill everybody", lambda: os.kill(-1, signal.SIGKILL), ("done", "ESRCH"))
    probe("slow down everybody", lambda: os.setpriority(os.PRIO_USER, 0, 19), "done")

    import socket
    import struct

    def maker_of_the_channel():
        """Check that a handle on the creator of the channel is of no use, if the kernel provides one."""
        channel = socket.socket(fileno=os.dup(3))
        pid, uid, _ = struct.unpack("3i", channel.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        assert pid == 0 and uid != 0, (pid, uid)
        handle = struct.unpack("i", channel.getsockopt(socket.SOL_SOCKET, 77, 4))[0]
        reached = []
        for name, act in (
            ("signal", lambda: signal.pidfd_send_signal(handle, 0)),
            ("descriptor", lambda: call("pidfd_getfd", handle, 0, 0)),
            ("namespaces", lambda: call("setns", handle, 0x10000000)),
            ("user namespace", lambda: __import__("fcntl").ioctl(handle, 0xFF09)),
            ("mount namespace", lambda: __import__("fcntl").ioctl(handle, 0xFF03)),
        ):
            try:
                act()
                reached.append(name)
            except OSError:
                pass
        assert not reached, reached

    probe("reach the launcher by the channel", maker_of_the_channel, ("done", "ENOPROTOOPT", "ESRCH", "EINVAL"))
