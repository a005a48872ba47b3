"""The warmed-up Python that sandboxes are forked from.

It is pid 1 of its pid namespace, has no capabilities and no network, and never runs untrusted code. The launcher sends
it orders to fork over one socket. Each child enters new namespaces, waits until a workspace is bound to it, seals
itself and only then reads its code. Children are single-use. When this process ends, the kernel ends all of them.

Trust boundary: the order in `_child` makes sure that no untrusted code runs before the child is confined.
"""

from __future__ import annotations

import gc
import os
import select
import sys

import _socket

from coracle_guest import agent, channel, confine, paths

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, NoReturn

# The descriptor numbers of the launcher's socket in this process, and of the channel in a child.
CONTROL = 3
CHANNEL = 3

EXIT_BROKEN = 70

# The number of trial runs after which the interpreter no longer changes its own code.
_REHEARSALS = 30

# The number of checks, every hundredth of a second, whether threads that a module has started are gone.
_LOOKS = 200

_CONFIG_BYTES = 1 << 20
# The first word of the message that the zygote is warm.
_HELLO = 1


def main() -> None:
    """Serve the launcher until it disconnects."""
    control = _socket.socket(fileno=CONTROL)
    message, files = _receive(control)
    config = channel.loads(message.decode())
    sys.path[:] = paths.search()
    sys.meta_path.append(paths.Absent())
    warm = config["preload"] is not None
    failed = preload(config["preload"]) if warm else 0
    ready = channel.frame(agent.ready())
    confinement = confine.Confinement(config["clone_flags"], config["enter"], config["seal"], ready)
    # Objects for standard output are created here for the children, where it is a pipe like standard error is here.
    os.dup2(2, 1)
    poll = select.poll()
    poll.register(CHANNEL, select.POLLIN)
    prepared = agent.Agent(CHANNEL, poll.poll)
    if warm:
        for _ in range(_REHEARSALS):
            prepared.rehearse()
    seeds = generators()
    # The collector never looks at the current objects again.
    gc.collect()
    gc.freeze()
    for file in files:
        confinement.share(file)
        os.close(file)
    version = int.from_bytes(bytes(sys.version_info[:3]), "big")
    control.send(b"".join(word.to_bytes(8, sys.byteorder) for word in (_HELLO, failed, version)))
    # From here on, this process touches as little memory as possible: each page would be copied after every fork.
    _child(seeds, prepared, confinement)


def _child(generators: list[Callable[[], None]], prepared: agent.Agent, confinement: confine.Confinement) -> NoReturn:
    """Serve the launcher. Returns in a child, which then runs from its seal to its end.

    No untrusted data is read before `serve` returns, and nothing of the confinement can be undone afterwards.
    """
    try:
        if not confinement.serve(CONTROL, prepared.rehearse):
            os._exit(0)
        for seed in generators:
            seed()
        gc.enable()
        prepared.serve()
    except confine.StepFailed as failure:
        _report(failure)
    except BaseException as error:  # in any case, this process must not return to the zygote's code
        try:
            os.write(2, f"coracle: the guest broke: {error!r}\n".encode())
        except OSError:
            pass
    finally:
        os._exit(EXIT_BROKEN)


def _report(failure: confine.StepFailed) -> NoReturn:
    """Report that a child could not be confined, and exit."""
    try:
        channel.send(CHANNEL, {"type": "failed", "step": failure.step, "errno": failure.errno})
    finally:
        os._exit(EXIT_BROKEN)


def preload(modules: list[str]) -> int:
    """Import modules that programs often need, so that children have them at no cost, and those that the operator has
    named. Bit N of the result is set if the N-th of these could not be imported."""
    from coracle_guest import preload

    for name in preload.MODULES:
        try:
            __import__(name)
        except ImportError:  # a distribution may leave out parts of the standard library
            pass
    failed = 0
    for bit, name in enumerate(modules):
        before = set(sys.modules)
        try:
            __import__(name)
        except Exception:  # whatever a package raises, the others are still imported
            failed |= 1 << bit
            _forget_parts(before)
        # Locks that another thread holds would stay locked forever in a child.
        if not _is_alone():
            os.write(2, f"execution.preload: {name} starts threads and cannot be imported in advance".encode())
            os._exit(EXIT_BROKEN)
    return failed


def _forget_parts(before: set[str]) -> None:
    """Remove the modules of a package that could not be imported, so that children do not find half of it."""
    for name in sorted(sys.modules.keys() - before):
        package = name.rpartition(".")[0]
        if package and package not in sys.modules:
            del sys.modules[name]


def _is_alone() -> bool:
    """Whether this process is single-threaded. Waits a short time for threads that are about to end."""
    for _ in range(_LOOKS):
        if len(os.listdir("/proc/self/task")) == 1:
            return True
        select.select((), (), (), 0.01)
    return False


def _receive(socket: _socket.socket) -> tuple[bytes, list[int]]:
    """Receive one message and its descriptors."""
    message, ancillary, _, _ = socket.recvmsg(_CONFIG_BYTES, _socket.CMSG_SPACE(64), _socket.MSG_CMSG_CLOEXEC)
    fds: list[int] = []
    for level, kind, data in ancillary:
        if level == _socket.SOL_SOCKET and kind == _socket.SCM_RIGHTS:
            fds += memoryview(data).cast("i").tolist()
    return message, fds


def generators() -> list[Callable[[], None]]:
    """Functions that seed the generators in memory. Children share the zygote's, so each needs different seeds."""
    found: list[Callable[[], None]] = []
    random = sys.modules.get("random")
    if random is not None:
        # Seeds the generator itself: the layer above only resets half a pair of Gaussian numbers.
        random._inst.gauss_next = None
        found.append(super(random.Random, random._inst).seed)
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        found.append(numpy_random.seed)
    return found
