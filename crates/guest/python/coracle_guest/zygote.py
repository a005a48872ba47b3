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
    from typing import NoReturn

# Where the launcher's socket is when this program starts, and where a child finds its channel.
CONTROL = 3
CHANNEL = 3

EXIT_BROKEN = 70

_CONFIG_BYTES = 1 << 20
_MESSAGE_BYTES = 4096


def main() -> None:
    """Serves the launcher until it goes away."""
    control = _socket.socket(fileno=CONTROL)
    config = channel.loads(control.recv(_CONFIG_BYTES).decode())
    sys.path[:] = paths.search()
    if config["preload"]:
        _preload()
    ready = channel.frame(agent.ready())
    confinement = confine.Confinement(config["clone_flags"], config["enter"], config["seal"], ready)
    # What is made for standard output here serves in the children, where it is a pipe as standard error is here.
    os.dup2(2, 1)
    prepared = agent.Agent(CHANNEL)
    if config["preload"]:
        prepared.rehearse()
    # Nothing that exists now is ever looked at by the collector again: its pages stay shared with the children.
    gc.collect()
    gc.freeze()
    control.send(b'{"op":"hello","version":[%d,%d,%d]}' % sys.version_info[:3])

    poller = select.epoll()
    poller.register(CONTROL, select.EPOLLIN)
    children: dict[int, tuple[int, int]] = {}
    while True:
        for found, _ in poller.poll():
            if found != CONTROL:
                slot, pid = children.pop(found)
                poller.unregister(found)
                os.close(found)
                status = os.waitpid(pid, 0)[1]
                control.send(b'{"op":"exited","slot":%d,"status":%d}' % (slot, status))
                continue
            message, fds = _receive(control)
            if not message:
                os._exit(0)
            request = channel.loads(message.decode())
            slot = request["slot"]
            try:
                pid, handle = confinement.fork(fds)
                if pid == 0:
                    _child(request["rehearse"], prepared, confinement)
            except confine.StepFailed as failure:
                _report(failure)
            except OSError as error:
                control.send(b'{"op":"failed","slot":%d,"step":"clone","errno":%d}' % (slot, error.errno or 0))
                continue
            finally:
                for fd in fds:
                    os.close(fd)
            children[handle] = (slot, pid)
            poller.register(handle, select.EPOLLIN)
            rights = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, handle.to_bytes(4, sys.byteorder))]
            control.sendmsg([b'{"op":"forked","slot":%d}' % slot], rights)


def _child(rehearse: bool, prepared: agent.Agent, confinement: confine.Confinement) -> NoReturn:
    """From the fork to the end of the sandbox.

    Before `seal` nothing foreign is read; after it nothing of the confinement can be undone.
    """
    try:
        if rehearse:
            prepared.rehearse()
        if not confinement.seal():
            os._exit(0)
        _reseed()
        gc.enable()
        prepared.serve()
    except confine.StepFailed as failure:
        _report(failure)
    except BaseException as error:  # whatever it is, this process must not go back to the zygote's loop
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


def _preload() -> None:
    """Imports what programs often need, so that children have it at no cost."""
    from coracle_guest import preload

    for name in preload.MODULES:
        try:
            __import__(name)
        except ImportError:  # a distribution may leave parts of the standard library out
            pass


def _receive(socket: _socket.socket) -> tuple[bytes, list[int]]:
    """One message and the descriptors that came with it."""
    message, ancillary, _, _ = socket.recvmsg(_MESSAGE_BYTES, _socket.CMSG_SPACE(64), _socket.MSG_CMSG_CLOEXEC)
    fds: list[int] = []
    for level, kind, data in ancillary:
        if level == _socket.SOL_SOCKET and kind == _socket.SCM_RIGHTS:
            fds += memoryview(data).cast("i").tolist()
    return message, fds


def _reseed() -> None:
    """Children share the zygote's memory, so each gets generators of its own."""
    if "random" in sys.modules:
        sys.modules["random"].seed(int.from_bytes(os.urandom(32), "little"))
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed()
