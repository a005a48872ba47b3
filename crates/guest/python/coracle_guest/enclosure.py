"""Turns a fork of a container's agent into a sandbox: namespaces, mounts, limits, and no privileges.

The container is the outer wall, which the engine has built. This is the wall between the calls of one user, and between
them and the agent. The agent is root of the container with the capabilities to change users; code never is.

Trust boundary: everything here runs before untrusted code, and nothing of it can be undone afterwards.
"""

from __future__ import annotations

import ctypes
import os
import resource

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

INSIDE_ID = 1000
"""The user and group ID of code in its own user namespace."""

_NEW_NAMESPACES = 0x00020000 | 0x08000000 | 0x04000000 | 0x10000000 | 0x20000000  # mounts, ipc, uts, user, pid
# Without its own /proc, a process of another pid namespace could not find itself, so a sandbox that is alone in its
# container has only another user.
_NEW_USER = 0x10000000
_SIGCHLD = 17
_NOSUID, _NODEV, _NOEXEC, _RDONLY = 2, 4, 8, 1
_BIND, _REC, _PRIVATE = 0x1000, 0x4000, 0x40000

_PR_SET_DUMPABLE, _PR_SET_SECCOMP, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 4, 22, 24, 38
_FILTER = 2
_CAPABILITIES_VERSION = 0x20080522
_MOST_CAPABILITIES = 64
_PENDING_SIGNALS = 1024
_TMP_FILES = 65_536

# The numbers of clone and capset.
_NUMBERS = {"x86_64": (56, 126), "aarch64": (220, 91)}

# Host folders with one folder per sandbox, and what is mounted over one of them.
CALLS = "/calls"
ARTIFACTS = "/artifacts"
# Shared memory and queues of the whole container.
_SHARED = ("/dev/shm", "/dev/mqueue")

# Limits without which there is no sandbox.
_NEEDED = ("RLIMIT_NOFILE", "RLIMIT_FSIZE")

# Descriptor numbers in a sandbox. The order is closed before code runs.
CHANNEL = 3
_ORDER = 4
_MOST_ORDER = 4096
_ASIDE = 200

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


class StepFailed(Exception):
    """A step of the confinement failed."""

    def __init__(self, step: str, errno: int) -> None:
        super().__init__(f"{step}: {os.strerror(errno)}")
        self.step = step
        self.errno = errno


class _Program(ctypes.Structure):
    """`struct sock_fprog`."""

    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def _call(step: str, result: int) -> int:
    if result < 0:
        raise StepFailed(step, ctypes.get_errno())
    return result


def _mount(kind: bytes | None, source: str, target: str, flags: int, options: str = "") -> None:
    result = _libc.mount(source.encode(), target.encode(), kind, ctypes.c_ulong(flags), options.encode() or None)
    _call(f"mount {target}", result)


def _hide(path: str) -> None:
    _mount(b"tmpfs", "tmpfs", path, _NOSUID | _NODEV | _NOEXEC | _RDONLY, "size=4k,mode=0555")


def fork(flags: int) -> int:
    """Fork into new namespaces, without Python's handlers: this process has one thread."""
    number = _NUMBERS[os.uname().machine][0]
    arguments = (ctypes.c_long(argument) for argument in (number, flags | _SIGCHLD, 0, 0, 0, 0))
    return _call("fork", _libc.syscall(*arguments))


class Plan:
    """How sandboxes of this container are set up."""

    def __init__(self, ids: tuple[int, int], filters: list[bytes], tmp_bytes: int) -> None:
        self.ids = ids
        self.filters = filters
        self.tmp_bytes = tmp_bytes
        self.flags = 0
        self.apart = False
        self.why = ""

    def probe(self) -> None:
        """Find out, by trying, whether several sandboxes can be kept apart in this container, and otherwise why not."""
        self.flags, self.apart = _NEW_NAMESPACES, True
        self.why = self._attempt()
        if self.why:
            self.flags, self.apart = _NEW_USER, False
            if self._attempt():
                self.flags = 0
                if self.ids[0] == 0:
                    raise StepFailed("make a user namespace, without which code would be the container's root", 1)

    def _attempt(self) -> str:
        """Set up a process like a sandbox. Returns the reason if that fails."""
        reader, writer = os.pipe()
        try:
            child = Child(self, None)
        except StepFailed as error:
            os.close(reader)
            os.close(writer)
            return str(error)
        if child.pid == 0:
            try:
                child.wait_for_parent()
                self.enter_mounts()
                self.bind_artifacts("")
                self.leave_users()
                os.write(writer, b"\0")
            except StepFailed as error:
                os.write(writer, str(error).encode())
            except BaseException as error:  # the parent must hear of everything
                os.write(writer, repr(error).encode())
            finally:
                os._exit(0)
        os.close(writer)
        reason = child.map_users()
        told = os.read(reader, 1000)
        os.close(reader)
        os.waitpid(child.pid, 0)
        return reason or ("" if told == b"\0" else told.decode("utf-8", "replace") or "a child did not answer")

    def enter_mounts(self) -> None:
        """Mount what belongs to one sandbox, whichever it will be."""
        if not self.apart:
            return
        plain = _NOSUID | _NODEV
        _mount(None, "none", "/", _REC | _PRIVATE)
        owner = f"uid={INSIDE_ID},gid={INSIDE_ID}"
        _mount(b"tmpfs", "tmpfs", "/tmp", plain, f"size={self.tmp_bytes},nr_inodes={_TMP_FILES},mode=0700,{owner}")
        for path in _SHARED:
            if os.path.isdir(path):
                _hide(path)
        try:
            _mount(b"proc", "proc", "/proc", plain | _NOEXEC | _RDONLY, "subset=pid")
        except StepFailed:
            # An older kernel.
            _mount(b"proc", "proc", "/proc", plain | _NOEXEC | _RDONLY)

    def bind_artifacts(self, slot: str) -> None:
        """Mount the folder of one sandbox at `/artifacts`, and hide those of the others."""
        if self.apart:
            _mount(None, f"{CALLS}/{slot}", ARTIFACTS, _BIND)
            _hide(CALLS)

    def leave_users(self) -> None:
        """Become the user that code runs as, without any capability."""
        uid, gid = (INSIDE_ID, INSIDE_ID) if self.flags else self.ids
        try:
            for capability in range(_MOST_CAPABILITIES):
                # Fails for those that this kernel does not know, and where it may not be done; then no new privileges
                # have the same effect.
                _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
            os.setgroups([])
            os.setresgid(gid, gid, gid)
            os.setresuid(uid, uid, uid)
        except OSError as error:
            raise StepFailed("change to the user of the code", error.errno or 0) from None
        header = (ctypes.c_uint32 * 2)(_CAPABILITIES_VERSION, 0)
        empty = (ctypes.c_uint32 * 6)()
        number = _NUMBERS[os.uname().machine][1]
        _call("drop capabilities", _libc.syscall(ctypes.c_long(number), header, empty))
        _call("give up new privileges", _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        # The kernel takes this away from a process that changes its user: it could not read its own /proc.
        _call("own /proc/self", _libc.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0))

    def limit(self, limits: dict[str, Any]) -> None:
        """Set the limits that the kernel enforces for each process."""
        wanted = (
            ("RLIMIT_CORE", 1),
            ("RLIMIT_MSGQUEUE", 0),
            ("RLIMIT_MEMLOCK", 0),
            ("RLIMIT_SIGPENDING", _PENDING_SIGNALS),
            ("RLIMIT_DATA", limits["data"]),
            ("RLIMIT_NPROC", limits["processes"]),
            ("RLIMIT_NOFILE", limits["open_files"]),
            ("RLIMIT_FSIZE", limits["file"]),
        )
        for name, most in wanted:
            number = getattr(resource, name, None)
            if number is None:
                continue
            hard = resource.getrlimit(number)[1]
            most = most if hard == resource.RLIM_INFINITY else min(most, hard)
            try:
                resource.setrlimit(number, (most, most))
            except ValueError:
                # Some runtimes do not have all of them. The watch counts memory and processes, and the others only
                # matter where sandboxes share a kernel's counters.
                if self.apart or name in _NEEDED:
                    raise StepFailed(f"set {name}", 1) from None

    def seal(self) -> None:
        """Allow only the system calls that code needs."""
        for program in self.filters:
            found = _Program(len(program) // 8, program)
            _call("seccomp", _libc.prctl(_PR_SET_SECCOMP, _FILTER, ctypes.byref(found), 0, 0))


class Child:
    """A new process, as its parent and itself see it. It is set up before it is known what for, and then waits."""

    def __init__(self, plan: Plan, descriptors: tuple[int, int, int] | None) -> None:
        self._plan = plan
        self._descriptors = descriptors
        self._reader, self._writer = os.pipe()
        try:
            self.pid = fork(plan.flags)
        except StepFailed:
            os.close(self._reader)
            os.close(self._writer)
            raise

    def map_users(self) -> str:
        """In the parent: say who the child is outside, and let it go on. Returns the reason if that fails."""
        os.close(self._reader)
        try:
            if self._plan.flags:
                for kind, outside in zip("ug", self._plan.ids):
                    with open(f"/proc/{self.pid}/{kind}id_map", "w") as file:
                        file.write(f"{INSIDE_ID} {outside} 1\n")
            os.write(self._writer, b"\0")
            return ""
        except OSError as error:
            self.abandon()
            return f"map the user of the code: {error.strerror}"

    def order(self, order: bytes) -> None:
        """In the parent: say what the child is for."""
        try:
            os.write(self._writer, order)
        except BrokenPipeError:  # its end is reported by its exit
            pass
        self.abandon()

    def abandon(self) -> None:
        """In the parent: close the pipe. A child without an order ends."""
        os.close(self._writer)

    def wait_for_parent(self) -> None:
        """In the child: wait until `map_users` is done."""
        os.close(self._writer)
        if not os.read(self._reader, 1):
            os._exit(70)

    def wait_for_order(self) -> bytes:
        """In the child, after `settle`: wait until it is known what for."""
        order = os.read(_ORDER, _MOST_ORDER)
        if not order:
            os._exit(0)
        os.close(_ORDER)
        return order

    def settle(self) -> None:
        """In the child: keep the sandbox's own descriptors, and close all others."""
        assert self._descriptors is not None
        import fcntl

        null = os.open("/dev/null", os.O_RDONLY)
        channel, stdout, stderr = self._descriptors
        wanted = (null, stdout, stderr, channel, self._reader)
        high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _ASIDE) for fd in wanted]
        for target, fd in enumerate(high):
            os.dup2(fd, target, inheritable=target < CHANNEL)
        for name in os.listdir("/proc/self/fd"):
            if int(name) > _ORDER:
                try:
                    os.close(int(name))
                except OSError:  # that of the listing itself
                    pass
