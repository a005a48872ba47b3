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
import struct
import sys

import _socket

from coracle_guest import agent, channel, confine, hot_pages, text_pages

PROTOCOL = 1

# Where the launcher's socket is when this program starts, and where a child finds its own descriptors.
CONTROL = 3
CHANNEL = 3
BINDING = 4
ARTIFACTS = 5
FIRST_UNUSED = 6

EXIT_BROKEN = 70

_CLONE_PIDFD = 0x1000
_SIGCHLD = 17
_CONFIG_BYTES = 1 << 20
_MESSAGE_BYTES = 4096


def main() -> None:
    """Serves the launcher until it goes away."""
    control = _socket.socket(fileno=CONTROL)
    config = channel.loads(control.recv(_CONFIG_BYTES).decode())
    sys.path[:] = _path()
    if config["preload"]:
        _preload()
    enter = confine.Plan(config["enter"])
    seal = confine.Plan(config["seal"])
    clone_flags = config["clone_flags"] | _CLONE_PIDFD | _SIGCHLD
    clone = config["syscalls"]["clone"]
    close_range = config["syscalls"]["close_range"]
    runtime = "python {}.{}.{}".format(*sys.version_info[:3])
    # What is made for standard output here serves in the children, where it is a pipe as standard error is here.
    os.dup2(2, 1)
    prepared = agent.Agent(CHANNEL)
    prepared.rehearse()
    # Nothing that exists now is ever looked at by the collector again: its pages stay shared with the children.
    hot: list[tuple[int, int]] = []
    if config["preload"]:
        text_pages.keep_mapped()
        hot = hot_pages.learn(clone, lambda: _rehearse(prepared))
    gc.collect()
    gc.freeze()
    control.send(b'{"op":"hello","version":[%d,%d,%d]}' % sys.version_info[:3])

    poller = select.epoll()
    poller.register(CONTROL, select.EPOLLIN)
    children: dict[int, tuple[int, int]] = {}
    pidfd = confine.ctypes.c_int(-1)
    pidfd_address = confine.ctypes.addressof(pidfd)
    while True:
        for ready, _ in poller.poll():
            if ready != CONTROL:
                slot, pid = children.pop(ready)
                poller.unregister(ready)
                os.close(ready)
                status = os.waitpid(pid, 0)[1]
                control.send(b'{"op":"exited","slot":%d,"status":%d}' % (slot, status))
                continue
            message, fds = _receive(control)
            if not message:
                os._exit(0)
            request = channel.loads(message.decode())
            slot = request["slot"]
            pid = confine.syscall(clone, clone_flags, 0, pidfd_address)
            if pid == 0:
                _child(request, fds, prepared, hot, enter, seal, close_range, runtime)
            for fd in fds:
                os.close(fd)
            if pid < 0:
                control.send(b'{"op":"failed","slot":%d,"step":"clone","errno":%d}' % (slot, -pid))
                continue
            own = pidfd.value
            children[own] = (slot, pid)
            poller.register(own, select.EPOLLIN)
            rights = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, struct.pack("i", own))]
            control.sendmsg([b'{"op":"forked","slot":%d}' % slot], rights)


def _rehearse(prepared: agent.Agent) -> None:
    """What a child does, as far as it can be done without becoming one."""
    _reseed()
    prepared.adopt()
    prepared.rehearse()


def _path() -> list[str]:
    """The standard library, Coracle's own packages, the installed ones, and the workspace last: a planted `json.py`
    changes nothing."""
    version = "python{}.{}".format(*sys.version_info[:2])
    installed = [
        f"{sys.prefix}/lib/{version}/site-packages",
        f"/usr/local/lib/{version}/dist-packages",
        "/usr/lib/python3/dist-packages",
    ]
    library = [folder for folder in sys.path if folder != "/coracle"]
    return [*library, "/coracle", *(folder for folder in installed if os.path.isdir(folder)), "/workspace"]


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
            fds += struct.unpack(f"{len(data) // 4}i", data[: len(data) // 4 * 4])
    return message, fds


def _child(
    request: dict,
    fds: list[int],
    prepared: agent.Agent,
    hot: list[tuple[int, int]],
    enter: confine.Plan,
    seal: confine.Plan,
    close_range: int,
    runtime: str,
) -> None:
    """From the fork to the end of the sandbox; never returns.

    Before `seal` nothing foreign is read; after it nothing of the confinement can be undone.
    """
    status = EXIT_BROKEN
    try:
        if request["warmth"] != "cold":
            hot_pages.copy(hot)
        channel_fd, stdout, stderr, binding, artifacts = fds
        # Copied out of the way first: what came may stand where something else is to go.
        high = [os.dup(fd) for fd in (channel_fd, binding, artifacts)]
        os.dup2(stdout, 1)
        os.dup2(stderr, 2)
        for source, target in zip(high, (CHANNEL, BINDING, ARTIFACTS)):
            os.dup2(source, target, inheritable=False)
        confine.syscall(close_range, FIRST_UNUSED, 0xFFFFFFFF, 0)
        try:
            enter.run((ARTIFACTS,))
            _reseed()
            prepared.adopt()
            if request["warmth"] == "rehearsed":
                prepared.rehearse()
            channel.send(CHANNEL, {"type": "ready", "protocol": PROTOCOL, "runtime": runtime})
            socket = _socket.socket(fileno=BINDING)
            message, trees = _receive(socket)
            if not message:
                os._exit(0)
            seal.run((*trees, *struct.unpack(f"<{len(message) // 8}Q", message)))
            socket.close()
        except confine.StepFailed as failure:
            channel.send(CHANNEL, {"type": "failed", "step": failure.step, "errno": failure.errno})
            os._exit(EXIT_BROKEN)
        gc.enable()
        prepared.serve()
    except BaseException as error:  # noqa: B902  whatever it is, this process must not go back to the zygote's loop
        try:
            os.write(2, f"coracle: the guest broke: {error!r}\n".encode())
        except OSError:
            pass
    finally:
        os._exit(status)


def _reseed() -> None:
    """Children share the zygote's memory, so each gets generators of its own."""
    if "random" in sys.modules:
        sys.modules["random"].seed(int.from_bytes(os.urandom(32), "little"))
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed()
