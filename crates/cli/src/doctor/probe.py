# Runs inside a sandbox and attempts forbidden actions, each beside a similar one that must work.
# `host_file` and `beside` are set by `coracle doctor`, which reads the value of the last line.
import ctypes
import importlib.util
import os
import socket
import sys

libc = ctypes.CDLL(None, use_errno=True)

PR_GET_SECCOMP, PR_CAPBSET_READ, PR_GET_NO_NEW_PRIVS, PTRACE_TRACEME = 21, 23, 39, 0
NEW_USER = 0x10000000
# process_madvise(2), with the same number on all architectures: the kernel has it, but the allow-list does not. For
# these arguments the kernel itself would not return ENOSYS.
UNLISTED = 440


def error_of(act, *args):
    """Return the errno that `act` raises; None if it succeeds."""
    try:
        act(*args)
    except OSError as error:
        return error.errno or 0
    return None


def errno_of(function, *args):
    """Return the errno of a C function; None if it succeeds."""
    ctypes.set_errno(0)
    return ctypes.get_errno() if function(*args) == -1 else None


def write(path):
    with open(path, "w") as file:
        file.write("x")
    os.unlink(path)


def read(path):
    with open(path, "rb") as file:
        return file.read(64)


def write_and_read_back(path):
    with open(path, "w") as file:
        file.write("x")
    read(path)
    os.unlink(path)


def namespace(name):
    try:
        return os.readlink(f"/proc/self/ns/{name}")
    except OSError:
        return None


def capabilities():
    """Return the union of effective, permitted and inheritable capabilities, and the size of the bounding set."""
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    data = (ctypes.c_uint32 * 6)()
    if libc.capget(header, data) != 0:
        return None
    bounding = sum(libc.prctl(PR_CAPBSET_READ, number, 0, 0, 0) == 1 for number in range(64))
    return {"held": sum(data), "bounding": bounding}


def processes_seen():
    try:
        return sorted(int(name) for name in os.listdir("/proc") if name.isdigit())
    except OSError:
        return None


def files_opened(most):
    """Return how many files can be opened before the limit; None if more than `most`."""
    opened = []
    try:
        while len(opened) < most:
            opened.append(os.open("/dev/null", os.O_RDONLY))
        return None
    except OSError:
        return len(opened)
    finally:
        for fd in opened:
            os.close(fd)


{
    "namespaces": {name: namespace(name) for name in ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup")},
    "seccomp": {
        "mode": libc.prctl(PR_GET_SECCOMP, 0, 0, 0, 0),
        "ptrace": errno_of(libc.ptrace, PTRACE_TRACEME, 0, 0, 0),
        "unshare": errno_of(libc.unshare, NEW_USER),
        "unlisted": errno_of(libc.syscall, UNLISTED, -1, 0, 0, 0, 0),
        "allowed": errno_of(libc.getppid),
    },
    "no_new_privs": libc.prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0),
    "capabilities": capabilities(),
    "files": {
        "host": error_of(read, host_file),
        "beside": error_of(read, beside),
        "root": error_of(write, "/coracle-doctor"),
        "usr": error_of(write, "/usr/coracle-doctor"),
        "workspace": error_of(write_and_read_back, "/workspace/.coracle-doctor"),
        "status": error_of(read, "/proc/self/status"),
    },
    "processes": {"own": os.getpid(), "seen": processes_seen()},
    "network": {
        "inet": error_of(socket.socket, socket.AF_INET, socket.SOCK_STREAM),
        "inet6": error_of(socket.socket, socket.AF_INET6, socket.SOCK_DGRAM),
        "unix": error_of(socket.socket, socket.AF_UNIX, socket.SOCK_STREAM),
        "pair": error_of(socket.socketpair),
    },
    "open_files": files_opened(4096),
    "python": {"version": list(sys.version_info[:3]), "executable": sys.executable},
    "packages": [name for name in ("numpy", "pandas") if importlib.util.find_spec(name) is not None],
}
