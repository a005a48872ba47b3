"""Kernel interfaces that sandboxed code does not need. Outside, this runs as root of temporary namespaces."""

import mmap

buffer = ctypes.create_string_buffer(4096)


def restrict():
    """Restrict this process with Landlock. Inside, no ruleset can be created, so an invalid one is used."""
    ruleset = -1
    if not INSIDE:
        ruleset = call("landlock_create_ruleset", (ctypes.c_uint64 * 1)(1 << 1), 8, 0)
        call("prctl", 38, 1, 0, 0, 0)
    call("landlock_restrict_self", ruleset, 0)


def set_memory_map():
    """Set the memory map of this process, outside with its real values."""
    parts = (ctypes.c_uint64 * 13)()
    if not INSIDE:
        with open("/proc/self/stat") as file:
            fields = [0, 0, 0, 0, *map(int, file.read().rpartition(")")[2].split()[1:])]
        _libc.sbrk.restype = ctypes.c_uint64
        code, data, arguments = fields[26:28], fields[45:47], fields[48:52]
        parts[:] = [*code, *data, fields[47], _libc.sbrk(0), fields[28], *arguments, 0, 0xFFFFFFFF << 32]
    call("prctl", 35, 14, parts, ctypes.sizeof(parts), 0)


NO_LANDLOCK = {**NOT_BUILT, "EOPNOTSUPP": "Landlock is disabled on the kernel's command line"}
NO_RESTORE = {"EINVAL": "the kernel was built without CONFIG_CHECKPOINT_RESTORE"}
NO_I386 = {"SIGSEGV": "the kernel runs no i386 code"}
there = (ctypes.c_uint64 * 2)(ctypes.addressof(buffer), 8)

for name, act, inside, outside, *absent in (
    ("ptrace", lambda: call("ptrace", 0, 0, 0, 0), "EPERM", "done"),
    ("process_vm_readv", lambda: call("process_vm_readv", os.getpid(), there, 1, there, 1, 0), "EPERM", "done"),
    ("process_vm_writev", lambda: call("process_vm_writev", os.getpid(), there, 1, there, 1, 0), "EPERM", "done"),
    ("kcmp", lambda: call("kcmp", os.getpid(), os.getpid(), 0, 0, 1), "EPERM", "done"),
    ("pidfd_getfd", lambda: call("pidfd_getfd", os.pidfd_open(os.getpid()), 0, 0), "EPERM", "done"),
    ("keyctl", lambda: call("keyctl", 0, -2, 1), "EPERM", "done"),
    ("add_key", lambda: call("add_key", b"user", b"probe", b"x", 1, -2), "EPERM", "done"),
    ("request_key", lambda: call("request_key", b"user", b"probe", 0, 0), "EPERM", "ENOKEY"),
    ("perf_event_open", lambda: call("perf_event_open", 0, 0, -1, -1, 0), "EPERM", "EFAULT"),
    ("io_uring_setup", lambda: call("io_uring_setup", 1, ctypes.create_string_buffer(120)), "EPERM", "done"),
    ("io_uring_enter", lambda: call("io_uring_enter", -1, 0, 0, 0, 0, 0), "EPERM", "EBADF"),
    ("io_uring_register", lambda: call("io_uring_register", -1, 0, 0, 0), "EPERM", ("EBADF", "EINVAL")),
    ("userfaultfd", lambda: call("userfaultfd", 1), "EPERM", "done"),
    ("personality", lambda: call("personality", 0xFFFFFFFF), "EPERM", "done"),
    ("name_to_handle_at", lambda: call("name_to_handle_at", -100, b"/", 0, 0, 0), "EPERM", "EFAULT"),
    ("fanotify_init", lambda: call("fanotify_init", 0x200, 0), "EPERM", "done"),
    ("shmget", lambda: call("shmget", 0, 4096, 0o600), "EPERM", "done"),
    ("msgget", lambda: call("msgget", 0, 0o600), "EPERM", "done"),
    ("semget", lambda: call("semget", 0, 1, 0o600), "EPERM", "done"),
    ("mq_open", lambda: call("mq_open", b"probe", 0o102, 0o600, 0), "EPERM", "done"),
    ("landlock_create_ruleset", lambda: call("landlock_create_ruleset", 0, 0, 1), "EPERM", "done", NO_LANDLOCK),
    ("landlock_restrict_self", restrict, "EPERM", "done", NO_LANDLOCK),
    ("seccomp", lambda: call("seccomp", 2, 0, (ctypes.c_uint32 * 1)(0x7FFF0000)), "EPERM", "done"),
    ("modify_ldt", lambda: call("modify_ldt", 0, buffer, 16) if X86_64 else call(-1), "ENOSYS", "done"),
    ("set_mempolicy", lambda: call("set_mempolicy", 0, 0, 0), "ENOSYS", "done"),
    ("sched_setscheduler", lambda: call("sched_setscheduler", 0, 0, (ctypes.c_int * 1)(0)), "ENOSYS", "done"),
    ("sched_setattr", lambda: call("sched_setattr", 0, (ctypes.c_uint64 * 6)(48, 0, os.nice(0)), 0), "ENOSYS", "done"),
    ("openat2", lambda: call("openat2", -100, b"/", (ctypes.c_uint64 * 3)(), 24), "ENOSYS", "done"),
    ("memfd_secret", lambda: call("memfd_secret", 0), "ENOSYS", "done", NOT_BUILT),
    ("watch files that others open", lambda: call("inotify_init1", 0), "ENOSYS", "done"),
    ("set the parent that may trace", lambda: call("prctl", 0x59616D61, 0, 0, 0, 0), "EPERM", ("done", "EINVAL")),
    ("keep capabilities", lambda: call("prctl", 8, 0, 0, 0, 0), "EPERM", "done"),
    ("ambient capabilities", lambda: call("prctl", 47, 4, 0, 0, 0), "EPERM", "done"),
    ("seccomp by prctl", lambda: call("prctl", 22, 2, 0, 0, 0), "EPERM", ("EFAULT", "EACCES")),
    ("set the memory map", set_memory_map, "EPERM", "done", NO_RESTORE),
    ("name a thread", lambda: call("prctl", 15, b"probe", 0, 0, 0), "done", "done"),
):
    probe(name, act, inside, outside, absent=absent[0] if absent else {})


def machine_code(code):
    memory = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    memory.write(code)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    return ctypes.CFUNCTYPE(ctypes.c_long)(address)()


if X86_64:
    # mov eax, 39; syscall; ret: the same mechanism with a permitted call.
    probe("getpid as x86_64", lambda: machine_code(b"\xb8\x27\0\0\0\x0f\x05\xc3"), "done", "done")
    # mov eax, 20; int 0x80; ret
    probe(
        "getpid as i386",
        lambda: machine_code(b"\xb8\x14\0\0\0\xcd\x80\xc3"),
        ("SIGSYS", "SIGSEGV"),
        "done",
        absent=NO_I386,
    )
    # mov eax, 310; int 0x80; ret: unshare by its other number
    probe("unshare as i386", lambda: machine_code(b"\xbb\0\0\0\x10\xb8\x36\x01\0\0\xcd\x80\xc3"), ("SIGSYS", "SIGSEGV"))
    for number in (0, 1, 39, 59, 101, 165, 272, 514, 517, 521):
        probe(f"x32 call {number}", lambda: call(0x40000000 | number, -1, -1, -1), "ENOSYS")
