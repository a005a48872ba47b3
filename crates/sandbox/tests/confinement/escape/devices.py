"""Device nodes, set-user-ID files, terminals. Outside, this runs as the same user, unconfined."""

import fcntl
import stat

numbers = iter(range(10_000))


def fresh(folder=WORKSPACE):
    return f"{folder}/node-{next(numbers)}-{os.getpid()}"


def make(folder, mode, device=0):
    """Create a node and remove it again: outside, this is the real /tmp."""
    path = fresh(folder)
    os.mknod(path, mode, device)
    os.unlink(path)


def a_file():
    path = fresh()
    with open(path, "w"):
        os.chmod(path, 0o755)
    return path


null = os.makedev(1, 3)
for folder in (WORKSPACE, "/tmp"):
    probe(
        f"a character device in {folder}",
        lambda: make(folder, stat.S_IFCHR | 0o666, null),
        ("EPERM", "EACCES"),
        root="done",
    )
    probe(
        f"a block device in {folder}",
        lambda: make(folder, stat.S_IFBLK | 0o666, os.makedev(8, 0)),
        ("EPERM", "EACCES"),
        root="done",
    )
    probe(f"a fifo in {folder}", lambda: make(folder, stat.S_IFIFO | 0o666), "done", "done")
    probe(f"a plain node in {folder}", lambda: make(folder, stat.S_IFREG | 0o666), "done", "done")
for name in (
    "mem", "kmem", "kmsg", "port", "tty", "ptmx", "pts/0", "console", "tty0", "fuse", "kvm", "net/tun", "sda", "vda",
    "loop0", "loop-control", "userfaultfd", "mapper/control", "hpet", "cpu/0/msr", "nvram", "vhost-net", "vsock",
    "uinput", "input/event0",
):
    probe(f"open /dev/{name}", lambda: os.close(os.open(f"/dev/{name}", os.O_RDONLY | os.O_NONBLOCK)), "ENOENT")
for name in ("null", "zero", "full", "urandom", "random"):
    probe(f"open /dev/{name}", lambda: os.close(os.open(f"/dev/{name}", os.O_RDWR)), "done", "done")
if INSIDE:
    listed = set(os.listdir("/dev"))
    check(
        "nothing else is in /dev",
        listed == {"null", "zero", "full", "random", "urandom", "fd", "stdin", "stdout", "stderr", "shm"},
        listed,
    )


def made_by(path, mode, way):
    if way == "open":
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, mode))
    elif way == "creat":
        os.close(call("creat", path.encode(), mode) if X86_64 else os.open(path, os.O_CREAT | os.O_WRONLY, mode))
    elif way == "mknod":
        os.mknod(path, stat.S_IFREG | mode)
    elif way == "unnamed":
        os.close(os.open(WORKSPACE, os.O_TMPFILE | os.O_WRONLY, mode))
    else:
        raise AssertionError(way)


for bit, name in ((0o4000, "setuid"), (0o2000, "setgid"), (0o6000, "setuid and setgid")):
    mode = 0o755 | bit
    for way, act in (
        ("chmod", lambda path, mode: os.chmod(path, mode)),
        ("fchmod", lambda path, mode: os.fchmod(os.open(path, os.O_RDONLY), mode)),
        ("fchmodat", lambda path, mode: call("fchmodat", -100, path.encode(), mode)),
        ("fchmodat2", lambda path, mode: call(452, -100, path.encode(), mode, 0)),
    ):
        probe(f"{name} by {way}", lambda: act(a_file(), mode), "EPERM", None if way == "fchmodat2" else "done")
        probe(
            f"no {name} by {way}",
            lambda: act(a_file(), 0o755),
            ("done", "ENOSYS") if way == "fchmodat2" else "done",
            None if way == "fchmodat2" else "done",
        )
    for way in ("open", "creat", "mknod", "unnamed"):
        probe(f"{name} by {way}", lambda: made_by(fresh(), mode, way), "EPERM", None if way == "unnamed" else "done")
        probe(
            f"no {name} by {way}",
            lambda: made_by(fresh(), 0o755, way),
            ("done", "EOPNOTSUPP") if way == "unnamed" else "done",
            None if way == "unnamed" else "done",
        )
    probe(f"{name} folder", lambda: os.chmod(WORKSPACE, mode), "EPERM")


def folder_with_bits():
    path = fresh()
    os.mkdir(path, 0o6755)
    assert not os.stat(path).st_mode & 0o6000, "the bit is set"


probe("a folder that is made with the bits", folder_with_bits, "done")
probe(
    "file capabilities",
    lambda: os.setxattr(a_file(), "security.capability", b"\1\0\0\2\0\4\0\0" + bytes(12)),
    ("EPERM", "EOPNOTSUPP"),
    root="done",
)
probe("trusted attributes", lambda: os.setxattr(a_file(), "trusted.probe", b"x"), ("EPERM", "EOPNOTSUPP"), root="done")
probe("give a file away", lambda: os.chown(a_file(), 0, 0), ("EPERM", "EINVAL"), root="done")
probe("give a file to oneself", lambda: os.chown(a_file(), os.getuid(), os.getgid()), "done", "done")

reader, writer = os.pipe()
for name, number in (("TIOCSTI", 0x5412), ("TIOCLINUX", 0x541C), ("TIOCSCTTY", 0x540E), ("TIOCSETD", 0x5423)):
    probe(name, lambda: fcntl.ioctl(reader, number, b"x   "), "EPERM", "ENOTTY")
    # The kernel only checks the lower half of the number.
    probe(f"{name} with more bits", lambda: call("ioctl", reader, number | 1 << 32, b"x   "), "EPERM", "ENOTTY")
probe("FIONREAD", lambda: fcntl.ioctl(reader, 0x541B, b"    "), "done", "done")



def notice():
    signal.signal(signal.SIGIO, signal.SIG_IGN)
    fcntl.fcntl(os.open("/usr/bin", os.O_RDONLY), fcntl.F_NOTIFY, 0x80000001)


leases = a_file()
probe(
    "hold up the host with a lease",
    lambda: fcntl.fcntl(os.open(leases, os.O_RDONLY), fcntl.F_SETLEASE, fcntl.F_RDLCK),
    "EPERM",
    "done",
)
probe(
    "be told what others do in a folder",
    notice,
    "EPERM",
    "done",
)
probe("lock a file", lambda: fcntl.lockf(os.open(leases, os.O_RDWR), fcntl.LOCK_EX), "done", "done")


def run_from_memory():
    """Run a program from a memory file, which has no more rights than any other."""
    memory = os.memfd_create("program", 0)
    with open(os.path.realpath("/usr/bin/python3"), "rb") as program:
        while piece := program.read(1 << 20):
            os.write(memory, piece)
    told, tell = os.pipe()
    os.set_inheritable(tell, True)
    code = (
        "import ctypes, os\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        "ids = os.getuid(), os.geteuid()\n"
        "refused = libc.unshare(0x10000000) == -1 and ctypes.get_errno() == 1\n"
        f"os.write({tell}, repr((*ids, libc.prctl(39, 0, 0, 0, 0), libc.prctl(21, 0, 0, 0, 0), refused)).encode())\n"
    )
    if os.fork() == 0:
        os.execve(memory, ["python3", "-I", "-S", "-c", code], {})
    os.close(tell)
    words = os.read(told, 1000).decode()
    expected = repr((1000, 1000, 1, 2, True)) if INSIDE else repr((os.getuid(), os.getuid(), 0, 0, False))
    if words != expected:
        raise AssertionError(words)


# Without a memory cgroup, memory files are refused, because they would not be counted.
probe("run a program from memory", run_from_memory, "done" if COUNTED else "EPERM", "done")
