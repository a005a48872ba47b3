"""Namespaces and mounts. Outside, this runs as root of temporary namespaces."""

import fcntl

NEW = {"time": 0x80, "mount": 0x20000, "cgroup": 0x2000000, "uts": 0x4000000, "ipc": 0x8000000, "user": 0x10000000,
       "pid": 0x20000000, "network": 0x40000000}
HERE = -100
MS_REMOUNT_BIND, MS_BIND, MS_MOVE, MS_SHARED = 0x1020, 0x1000, 0x2000, 0x100000
TMP = b"/tmp"


def clone(flags):
    if call("clone", flags | signal.SIGCHLD, 0, 0, 0, 0) == 0:
        os._exit(0)


def tmpfs():
    context = call("fsopen", b"tmpfs", 0)
    call("fsconfig", context, 6, 0, 0, 0)
    return call("fsmount", context, 0, 0)


for name, flag in NEW.items():
    probe(f"unshare the {name} namespace", lambda: call("unshare", flag), "EPERM", "done")
    if name != "time":
        probe(f"clone into a new {name} namespace", lambda: clone(flag), "EPERM", "done")
probe("clone without a namespace", lambda: clone(0), "done", "done")
probe("clone3", lambda: call("clone3", 0, 0), "ENOSYS", "EINVAL")
probe("enter namespaces by a process", lambda: call("setns", os.pidfd_open(os.getpid()), NEW["uts"]), "EPERM", "done")
probe("enter namespaces by a file", lambda: call("setns", 0, 0), "EPERM", "EINVAL")


def of_namespace(name, request):
    fcntl.ioctl(os.open(f"/proc/self/ns/{name}", os.O_RDONLY), request, bytes(16))


probe("ask what a namespace is", lambda: of_namespace("net", 0xB703), "done", "done")
probe("open who owns the network", lambda: of_namespace("net", 0xB701), "EPERM", "done")
probe("open the user namespace above", lambda: of_namespace("user", 0xB702), "EPERM")
probe("open the process namespace above", lambda: of_namespace("pid", 0xB702), "EPERM")
probe("open another mount namespace", lambda: of_namespace("mnt", 0x8010B70B), ("EPERM", "ENOENT", "ENOTTY"))

probe("unmount the workspace", lambda: call("umount2", WORKSPACE.encode(), 2), "EPERM", "EINVAL")
probe("mount a tmpfs", lambda: call("mount", b"x", TMP, b"tmpfs", 0, 0), "EPERM", "done")
for kind in (b"cgroup", b"cgroup2", b"sysfs", b"devpts", b"mqueue", b"debugfs", b"ext4", b"overlay", b"fuse"):
    probe(
        f"mount {kind.decode()}",
        lambda: call("mount", b"none", TMP, kind, 0, 0),
        "EPERM",
        "done" if kind in (b"mqueue", b"devpts") else None,
    )
probe("mount proc", lambda: call("mount", b"proc", b"/proc", b"proc", 0, 0), "EPERM", "done")
probe("bind /usr", lambda: call("mount", b"/usr", TMP, 0, MS_BIND | 0x4000, 0), "EPERM", "done")
probe("make /proc writable", lambda: call("mount", 0, b"/proc", 0, MS_REMOUNT_BIND | 0xE, 0), "EPERM", "done")
probe("move a mount", lambda: call("mount", b"/proc", b"/tmp", 0, MS_MOVE, 0), "EPERM", "done")
probe("share mounts", lambda: call("mount", 0, b"/", 0, MS_SHARED, 0), "EPERM", "done")
probe("unmount /proc", lambda: call("umount2", b"/proc", 2), "EPERM", "done")
probe("unmount the root", lambda: call("umount2", b"/", 2), "EPERM", "EINVAL")
probe("fsopen", lambda: call("fsopen", b"tmpfs", 0), "EPERM", "done")
probe("fsmount", tmpfs, "EPERM", "done")
probe("fsconfig", lambda: call("fsconfig", -1, 6, 0, 0, 0), "EPERM", "EINVAL")
probe("fspick", lambda: call("fspick", HERE, b"/proc", 0), "EPERM", "done")
probe("open_tree", lambda: call("open_tree", HERE, b"/usr", 0), "EPERM", "done")
probe("copy a tree", lambda: call("open_tree", HERE, b"/usr", 0x8001), "EPERM", "done")
probe("move_mount", lambda: call("move_mount", tmpfs() if not INSIDE else -1, b"", HERE, TMP, 4), "EPERM", "done")
probe("mount_setattr", lambda: call("mount_setattr", HERE, b"/proc", 0, (ctypes.c_uint64 * 4)(1), 32), "EPERM", "done")
probe("pivot_root", lambda: call("pivot_root", b"/", b"/"), "EPERM", ("EBUSY", "EINVAL"))
probe("chroot", lambda: call("chroot", b"/tmp"), "EPERM", "done")
probe("set the host name", lambda: call("sethostname", b"probe", 5), "EPERM", "done")
probe("set the domain name", lambda: call("setdomainname", b"probe", 5), "EPERM", "done")
probe("list mounts", lambda: call(458, 0, 0, 0, 0), "ENOSYS")
