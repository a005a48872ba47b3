"""Identity, inherited state and environment of the code. Only inside."""

import socket
import stat
import sys

ENVIRONMENT = {
    "PATH": "/coracle/bin:/usr/local/bin:/usr/bin:/bin",
    "HOME": "/tmp",
    "USER": "coderunner",
    "LOGNAME": "coderunner",
    "SHELL": "/bin/bash",
    "LANG": "C.UTF-8",
    "TMPDIR": "/tmp",
    "TERM": "dumb",
    "MPLBACKEND": "Agg",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}
FOLDERS = {"artifacts", "coracle", "dev", "etc", "proc", "skills", "tmp", "tools", "usr", "workspace"}
PROGRAMS = {"bin", "sbin", "lib", "lib32", "lib64", "libx32"}
FILES_OF_ETC = {
    "alternatives", "fonts", "group", "hostname", "hosts", "ld.so.cache", "ld.so.conf", "localtime", "mime.types",
    "nsswitch.conf", "passwd",
}

check("user", os.getresuid() == (1000,) * 3 and os.getresgid() == (1000,) * 3, (os.getresuid(), os.getresgid()))
check("groups", set(os.getgroups()) <= {1000, 65534}, os.getgroups())
header, sets = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
call("capget", header, sets)
check("no capability in any set", not any(sets), list(sets))
bounding = [number for number in range(64) if _libc.prctl(23, number, 0, 0, 0) == 1]
check("no capability in the bounding set", not bounding, bounding)
check("capabilities can be asked for", _libc.prctl(23, 0, 0, 0, 0) == 0)
check("no new privileges", _libc.prctl(39, 0, 0, 0, 0) == 1)
check("filtered", _libc.prctl(21, 0, 0, 0, 0) == 2)
check("first process of its own namespace", os.getpid() == 1 and os.getppid() == 0, (os.getpid(), os.getppid()))
check("a session of its own", os.getsid(0) == 1, os.getsid(0))

check("environment", dict(os.environ) == ENVIRONMENT, dict(os.environ))
check("host name", os.uname().nodename == socket.gethostname() == "coracle", os.uname().nodename)
domain = ctypes.create_string_buffer(65)
_libc.getdomainname(domain, 65)
check("domain name", domain.value == b"(none)", domain.value)
check("the root", FOLDERS <= set(os.listdir("/")) <= FOLDERS | PROGRAMS, os.listdir("/"))
check("/etc", set(os.listdir("/etc")) <= FILES_OF_ETC, os.listdir("/etc"))
check("working directory", os.getcwd() == "/workspace", os.getcwd())
check("/tmp is empty", os.listdir("/tmp") == [], os.listdir("/tmp"))
check("/artifacts is empty", os.listdir("/artifacts") == [], os.listdir("/artifacts"))
for path in ("/", "/usr", "/coracle", "/proc", "/etc", "/workspace", "/tmp", "/artifacts"):
    read_only = path not in ("/workspace", "/tmp", "/artifacts")
    flags = os.statvfs(path).f_flag
    check(f"{path} is {'read-only' if read_only else 'writable'}", bool(flags & os.ST_RDONLY) == read_only, flags)
    check(f"{path} has no setuid programs and no devices", flags & os.ST_NOSUID and flags & os.ST_NODEV, flags)

descriptors = {}
for fd in range(256):
    try:
        descriptors[fd] = os.fstat(fd)
    except OSError:
        pass
kinds = {fd: stat.S_IFMT(found.st_mode) for fd, found in descriptors.items()}
outputs = {descriptors[fd].st_ino for fd in (1, 2)}
check("standard input is /dev/null", os.path.samestat(descriptors[0], os.stat("/dev/null")))
check("one descriptor is the channel", [fd for fd, kind in kinds.items() if kind == stat.S_IFSOCK] == [3], kinds)
unknown = [fd for fd in descriptors if fd not in (0, 3) and descriptors[fd].st_ino not in outputs]
others = {fd: os.readlink(f"/proc/self/fd/{fd}") for fd in unknown}
check("the others are the two outputs", not others, others)
listing = os.open("/tmp", os.O_RDONLY)
check("a folder among the descriptors would be seen", stat.S_ISDIR(os.fstat(listing).st_mode))
os.close(listing)

places = [folder for folder in sys.path if folder]
check("the workspace is last", places[-1] == "/workspace" and "/workspace" not in places[:-1], places)
check(
    "the standard library is before Coracle's",
    places.index("/coracle") > places.index(os.path.dirname(os.__file__)),
    places,
)
for name in PLANTED:
    module = __import__(name)
    check(
        f"{name} is not the planted one",
        not hasattr(module, "planted") and "/workspace" not in (getattr(module, "__file__", None) or ""),
        module,
    )
import planted_control
check("a module of the workspace can be imported", planted_control.planted)
check("nothing planted has run", not os.path.exists("/workspace/ran"))
own = [module for name, module in list(sys.modules.items()) if name.startswith("coracle_guest")]
functions = [value for module in own for value in vars(module).values() if hasattr(value, "__code__")]
paths = {function.__code__.co_filename for function in functions}
check("code tells no host path", paths and all(path.startswith(("/coracle/", "/usr/", "<")) for path in paths), paths)
