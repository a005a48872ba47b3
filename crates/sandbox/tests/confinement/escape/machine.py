"""Calls that affect the whole machine, with arguments without effect. Only root with all capabilities passes the first
check, so there are controls only for root outside."""

import resource

NOT_ALLOWED = "ValueError: not allowed to raise maximum limit"
LIMITS_STAY = {} if MAY_RAISE_LIMITS else {NOT_ALLOWED: "even root may not raise limits here", "EPERM": "the same"}

for name, args, outside in (
    ("init_module", (0, 0, 0), ("EFAULT", "ENOEXEC", "EINVAL")),
    ("finit_module", (-1, 0, 0), ("EBADF", "EFAULT")),
    ("delete_module", (b"coracle_probe_no_such_module", 0o4000), ("ENOENT",)),
    ("kexec_load", (0, 1 << 20, 0, 0), ("EINVAL",)),
    ("reboot", (0, 0, 0, 0), ("EINVAL",)),
    ("swapon", (b"/nonexistent/probe", 0), ("ENOENT",)),
    ("swapoff", (b"/nonexistent/probe",), ("ENOENT", "EINVAL")),
    ("acct", (b"/nonexistent/probe",), ("ENOENT",)),
    ("quotactl", (-1, 0, 0, 0), ("EINVAL", "ENODEV", "EFAULT")),
    ("settimeofday", ((ctypes.c_int64 * 2)(0, -1), 0), ("EINVAL",)),
    ("clock_settime", (99, (ctypes.c_int64 * 2)(0, -1)), ("EINVAL",)),
    ("adjtimex", (0,), ("EFAULT",)),
    ("syslog", (99, 0, 0), ("EINVAL",)),
    ("bpf", (9999, 0, 0), ("EINVAL", "EFAULT")),
    ("open_by_handle_at", (-100, 0, 0), ("EFAULT",)),
    ("setgroups", (0, 0), ("done",)),
):
    probe(name, lambda: call(name, *args), "EPERM", root=outside, absent=NOT_BUILT)
NO_PORTS = {"ENOSYS": "the kernel was built without CONFIG_X86_IOPL_IOPERM", "EPERM": "the kernel is locked down"}
for name, args in (("iopl", (3,)), ("ioperm", (0x80, 1, 1))) if X86_64 else ():
    probe(name, lambda: call(name, *args), "ENOSYS", root="done", absent=NO_PORTS)



def real_time():
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))


for name, act, inside, root in (
    ("take a better priority", lambda: os.setpriority(os.PRIO_PROCESS, 0, -5), ("EACCES", "EPERM"), "done"),
    ("take a worse priority", lambda: os.setpriority(os.PRIO_PROCESS, 0, 19), "done", "done"),
    ("lock all memory", lambda: call("mlockall", 1), ("EPERM", "ENOMEM"), "done"),
    ("real-time scheduling", real_time, ("ENOSYS", "EPERM"), "done"),
    ("become root", lambda: os.setuid(0), ("EINVAL", "EPERM"), "done"),
    ("become root's group", lambda: os.setresgid(0, 0, 0), ("EINVAL", "EPERM"), "done"),
    ("become another user", lambda: os.setresuid(54322, 54322, 54322), ("EINVAL", "EPERM"), "done"),
    ("stay who one is", lambda: os.setresuid(os.getuid(), os.getuid(), os.getuid()), "done", "done"),
):
    probe(name, act, inside, root=root)
for name in ("NOFILE", "NPROC", "FSIZE", "MEMLOCK", "RTPRIO", "NICE"):
    which = getattr(resource, f"RLIMIT_{name}")
    soft, hard = resource.getrlimit(which)
    if hard != resource.RLIM_INFINITY and hard < 1 << 30:
        probe(
            f"raise the hard limit {name}",
            lambda: resource.setrlimit(which, (soft, hard + 1)),
            (NOT_ALLOWED, "EPERM"),
            root="done",
            absent=LIMITS_STAY,
        )
    elif INSIDE and name in ("NOFILE", "NPROC", "MEMLOCK"):
        check(f"there is a hard limit {name}", False, hard)
probe("lower a limit", lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (32, 32)), "done", "done")


def crash():
    """Crash, and report whether the kernel dumped core: a crash must not start a program of the host."""
    pid = os.fork()
    if pid == 0:
        if not INSIDE:
            resource.setrlimit(resource.RLIMIT_CORE, (-1, -1))
        ctypes.string_at(0)
    status = os.waitpid(pid, 0)[1]
    assert os.WTERMSIG(status) == signal.SIGSEGV, status
    if not os.WCOREDUMP(status):
        raise PermissionError(errno.EPERM, "no dump")


def cores(*limits):
    resource.setrlimit(resource.RLIMIT_CORE, limits)


probe("crash with a dump", crash, "EPERM", root="done")
for limits in ((0, 0), (0, 1), (1, 1), (-1, -1)):
    probe(f"set the limit of dumps to {limits}", lambda: cores(*limits), NOT_ALLOWED, root="done")
none = (ctypes.c_uint64 * 2)(0, 0)
probe("set the limit of dumps by the old call", lambda: call("setrlimit", 4, none), "EPERM", "done")
if INSIDE:
    limits = resource.getrlimit(resource.RLIMIT_CORE)
    check("dumps are switched off", limits == (1, 1), limits)


def low_pointer():
    """Use a valid pointer whose lower half is zero."""
    _libc.mmap.restype = ctypes.c_void_p
    place = _libc.mmap(ctypes.c_void_p(1 << 32), ctypes.c_size_t(4096), 3, 0x100022, -1, ctypes.c_long(0))
    assert place == 1 << 32, place
    call("prlimit64", 0, 4, 1 << 32, 0)


probe("set the limit of dumps by a pointer at 4 GiB", low_pointer, "EPERM", "done")
