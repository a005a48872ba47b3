"""Runs probes, each in a separate process, and records every unexpected result.

The same script runs inside and outside a sandbox: an action that is refused inside must succeed outside, or fail for
another reason. PLACE, SYSCALLS and constants of the test are inserted before this text.
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
    """Make a raw system call by name or number; raises the kernel's error."""
    number = SYSCALLS[name] if isinstance(name, str) else name
    words = [ctypes.c_long(argument) if isinstance(argument, int) else argument for argument in args]
    ctypes.set_errno(0)
    value = _libc.syscall(ctypes.c_long(number), *words)
    if value == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return value


def capabilities():
    """Return the effective capabilities of this process as a mask."""
    header, data = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    call("capget", header, data)
    return data[0] | data[3] << 32


ALL_RIGHTS = 0x1FFFFFFFFF
# Some machines withhold this capability even from root; only probes that need it then have no control.
SYS_RESOURCE = 1 << 24
FULL_ROOT = PLACE == "host" and os.getuid() == 0 and (capabilities() | SYS_RESOURCE) & ALL_RIGHTS == ALL_RIGHTS
MAY_RAISE_LIMITS = FULL_ROOT and bool(capabilities() & SYS_RESOURCE)
# Values for `absent` of a probe.
NOT_BUILT = {"ENOSYS": "the kernel was built without it"}
NO_SUCH_FILE = {"ENOENT": "the kernel was built without it"}
FIRST_HAS_MORE = {} if MAY_RAISE_LIMITS else {"EACCES": "the first process has rights that this root has not"}


def outcome(act):
    """Return `done`, or the name of an errno, a signal, or an exception with its text. Never hangs."""
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
    """Record the probe, and its failure if the result is unexpected."""
    seen.append(name)
    expected = (expected,) if isinstance(expected, str) else expected
    if got not in expected:
        failures.append(f"{PLACE}: {name}: {got}, must be {' or '.join(expected)}")


def probe(name, act, inside, outside=None, root=None, absent={}):
    """Run a probe with its expected results `inside`, `outside`, and outside as `root` with all capabilities.

    None means that the probe is not run there. `absent` has the results for a kernel without the feature, each with its
    reason: there is then no control, which is reported.
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
    """Check a condition in this process."""
    seen.append(name)
    if not true:
        failures.append(f"{PLACE}: {name}: {what!r}")


if PLACE == "host" and os.getuid() == 0 and not FULL_ROOT:
    skipped.append(f"everything that only root can do: this root has the rights {capabilities():#x} and no more")


def report():
    return {"seen": seen, "failures": failures, "skipped": skipped}
