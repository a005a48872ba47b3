"""The warmed Python that every Python sandbox is forked from.

It is pid 1 of its own pid namespace, has no capabilities and no network, and never runs foreign code. The launcher tells
it over one socket to fork; each child enters fresh namespaces, waits prepared until a workspace is bound to it, seals
itself and only then reads what it is to run. Children are single-use. When this process ends, the kernel ends them all.

Trust boundary: the order in `_child` is what keeps foreign code out until the child is confined.
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

# Where the launcher's socket is when this program starts, and where a child finds its channel.
CONTROL = 3
CHANNEL = 3

EXIT_BROKEN = 70

# So often has the interpreter been through its own code that it knows it and changes nothing of it any more.
_REHEARSALS = 30

# So often, every hundredth of a second, is looked whether threads that a module has started are gone.
_LOOKS = 200

_CONFIG_BYTES = 1 << 20
# The first word of what the launcher is told: that the zygote is warm.
_HELLO = 1


def main() -> None:
    """Serves the launcher until it goes away."""
    control = _socket.socket(fileno=CONTROL)
    message, files = _receive(control)
    config = channel.loads(message.decode())
    sys.path[:] = paths.search()
    sys.meta_path.append(paths.Absent())
    warm = config["preload"] is not None
    failed = _preload(config["preload"]) if warm else 0
    ready = channel.frame(agent.ready())
    confinement = confine.Confinement(config["clone_flags"], config["enter"], config["seal"], ready)
    # What is made for standard output here serves in the children, where it is a pipe as standard error is here.
    os.dup2(2, 1)
    poll = select.poll()
    poll.register(CHANNEL, select.POLLIN)
    prepared = agent.Agent(CHANNEL, poll.poll)
    if warm:
        for _ in range(_REHEARSALS):
            prepared.rehearse()
    generators = _generators()
    # Nothing that exists now is ever looked at by the collector again.
    gc.collect()
    gc.freeze()
    for file in files:
        confinement.share(file)
        os.close(file)
    version = int.from_bytes(bytes(sys.version_info[:3]), "big")
    control.send(b"".join(word.to_bytes(8, sys.byteorder) for word in (_HELLO, failed, version)))
    # From here on this process touches as little as it can: each page would be copied for it after every fork.
    _child(generators, prepared, confinement)


def _child(generators: list[Callable[[], None]], prepared: agent.Agent, confinement: confine.Confinement) -> NoReturn:
    """Serves the launcher; what comes back is a child, from its seal to its end.

    Before `serve` comes back nothing foreign is read; after it nothing of the confinement can be undone.
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
    except BaseException as error:  # whatever it is, this process must not go back to where the zygote came from
        try:
            os.write(2, f"coracle: the guest broke: {error!r}\n".encode())
        except OSError:
            pass
    finally:
        os._exit(EXIT_BROKEN)


def _report(failure: confine.StepFailed) -> NoReturn:
    """A child that could not be confined says so, and ends."""
    try:
        channel.send(CHANNEL, {"type": "failed", "step": failure.step, "errno": failure.errno})
    finally:
        os._exit(EXIT_BROKEN)


def _preload(modules: list[str]) -> int:
    """Imports what programs often need, so that children have it at no cost, and what the operator has named: bit N of
    what comes back tells that the N-th of these could not be had."""
    from coracle_guest import preload

    for name in preload.MODULES:
        try:
            __import__(name)
        except ImportError:  # a distribution may leave parts of the standard library out
            pass
    failed = 0
    for bit, name in enumerate(modules):
        before = set(sys.modules)
        try:
            __import__(name)
        except Exception:  # whatever a package does when it is imported, the others are still wanted
            failed |= 1 << bit
            _forget_parts(before)
        # Locks that another thread holds would stay locked for ever in a child.
        if not _is_alone():
            os.write(2, f"execution.preload: {name} starts threads and cannot be imported in advance".encode())
            os._exit(EXIT_BROKEN)
    return failed


def _forget_parts(before: set[str]) -> None:
    """A package that could not be imported is gone, and its modules are not: children would find the half of it."""
    for name in sorted(sys.modules.keys() - before):
        package = name.rpartition(".")[0]
        if package and package not in sys.modules:
            del sys.modules[name]


def _is_alone() -> bool:
    """Whether this process has one thread; what is about to end is waited for a little."""
    for _ in range(_LOOKS):
        if len(os.listdir("/proc/self/task")) == 1:
            return True
        select.select((), (), (), 0.01)
    return False


def _receive(socket: _socket.socket) -> tuple[bytes, list[int]]:
    """One message and the descriptors that came with it."""
    message, ancillary, _, _ = socket.recvmsg(_CONFIG_BYTES, _socket.CMSG_SPACE(64), _socket.MSG_CMSG_CLOEXEC)
    fds: list[int] = []
    for level, kind, data in ancillary:
        if level == _socket.SOL_SOCKET and kind == _socket.SCM_RIGHTS:
            fds += memoryview(data).cast("i").tolist()
    return message, fds


def _generators() -> list[Callable[[], None]]:
    """What seeds the generators that are in memory. Children share the zygote's, so each needs seeds of its own."""
    found: list[Callable[[], None]] = []
    random = sys.modules.get("random")
    if random is not None:
        # Straight to the generator itself: what is in between only keeps half a pair of Gaussian numbers.
        random._inst.gauss_next = None
        found.append(super(random.Random, random._inst).seed)
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        found.append(numpy_random.seed)
    return found
