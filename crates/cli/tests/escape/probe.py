"""Runs probes, each in a process of its own, and notes every one that did not come out as it must.

The same script runs inside a sandbox and outside of it: an act that is refused inside must succeed, or fail for another
reason, where it is allowed. Before this text come PLACE, SYSCALLS and what the test wants to tell.
"""

import ctypes
import errno
import os
import platform
import signal

INSIDE = PLACE == "inside"
SECONDS = 10
X86_64 = platform.machine() == "x86_64"

seen = []
failures = []
skipped = []

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


def call(name, *args):
    """A raw system call by name or number; raises what the kernel says."""
    number = SYSCALLS[name] if isinstance(name, str) else name
    words = [ctypes.c_long(argument) if isinstance(argument, int) else argument for argument in args]
    ctypes.set_errno(0)
    value = _libc.syscall(ctypes.c_long(number), *words)
    if value == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return value


def capabilities():
    """The effective ones of this process, as a mask."""
    header, data = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    call("capget", header, data)
    return data[0] | data[3] << 32


ALL_RIGHTS = 0x1FFFFFFFFF
# Some machines keep this one even from their root: only what needs it goes without its control there.
SYS_RESOURCE = 1 << 24
FULL_ROOT = PLACE == "host" and os.getuid() == 0 and (capabilities() | SYS_RESOURCE) & ALL_RIGHTS == ALL_RIGHTS
MAY_RAISE_LIMITS = FULL_ROOT and bool(capabilities() & SYS_RESOURCE)
# For `absent` of a probe.
NOT_BUILT = {"ENOSYS": "the kernel was built without it"}
NO_SUCH_FILE = {"ENOENT": "the kernel was built without it"}
FIRST_HAS_MORE = {} if MAY_RAISE_LIMITS else {"EACCES": "the first process has rights that this root has not"}


def outcome(act):
    """`done`, the name of an errno, of a signal, or of an exception with its text. Never hangs."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(SECONDS)
            act()
            text = "done"
        except OSError as error:
            text = errno.errorcode.get(error.errno, repr(error))
        except BaseException as error:
            text = f"{type(error).__name__}: {error}"
        os.write(writer, text.encode()[:4000])
        os._exit(0)
    os.close(writer)
    text = b""
    while piece := os.read(reader, 4096):
        text += piece
    os.close(reader)
    status = os.waitpid(pid, 0)[1]
    return signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else text.decode()


def judge(name, got, expected):
    """Notes the probe, and that it went wrong if it did."""
    seen.append(name)
    expected = (expected,) if isinstance(expected, str) else expected
    if got not in expected:
        failures.append(f"{PLACE}: {name}: {got}, must be {' or '.join(expected)}")


def probe(name, act, inside, outside=None, root=None, absent={}):
    """What must come out `inside`, `outside`, and outside as `root` with all rights. None: it is not tried there.

    `absent` has the outcomes that say that this kernel does not have the thing at all, each with its reason: then there
    is no control, and that is said.
    """
    expected = inside if INSIDE else root if FULL_ROOT and root is not None else outside
    if expected is None:
        return
    got = outcome(act)
    if not INSIDE and got in absent:
        skipped.append(f"{name}: {absent[got]} ({got})")
    else:
        judge(name, got, expected)


def check(name, true, what=""):
    """Something that must hold here, without a process of its own."""
    seen.append(name)
    if not true:
        failures.append(f"{PLACE}: {name}: {what!r}")


if PLACE == "host" and os.getuid() == 0 and not FULL_ROOT:
    skipped.append(f"everything that only root can do: this root has the rights {capabilities():#x} and no more")


def report():
    return {"seen": seen, "failures": failures, "skipped": skipped}
