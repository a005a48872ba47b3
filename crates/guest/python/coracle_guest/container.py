"""The agent of a container: a warmed-up Python that forks a sandbox for each call of one user.

It is the container's first process, and talks to the host through its own standard input and output, so that a call is
a fork and not a command of the engine. It runs no untrusted code. When it ends, the engine ends the container; when the
host is gone, it ends.

Where the container's runtime cannot keep several sandboxes apart, it makes only one, and says so at the start.
"""

from __future__ import annotations

import base64
import errno
import gc
import os
import select
import signal
import sys

from coracle_guest import agent, channel, enclosure, mux, paths, usage, zygote

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, NoReturn

_EXIT_BROKEN = 70
_REHEARSALS = 30

# The folder of the guest's files in the container, and where they are linked.
_FILES = "/guest"
_CORACLE = "/coracle"

# Intervals of the watch in milliseconds: while usage changes, and at most.
_QUICK = 40
_SLOW = 640
# Nameless files are looked for each time as many intervals have passed.
_NAMELESS_EVERY = 4

# Milliseconds after which the next process is forked.
_UNHURRIED = 5

# Numbers out of the way of those that a sandbox has.
_SOURCE, _TARGET = 100, 101


def prepare_files() -> None:
    """Make `/coracle`, which is in memory: links to the guest's files, and a Python with the packages of `search`."""
    for name in ("coracle", "coracle_guest"):
        os.symlink(f"{_FILES}/{name}", f"{_CORACLE}/{name}")
    os.makedirs(f"{_CORACLE}/bin", exist_ok=True)
    os.symlink("coracle", f"{_CORACLE}/bin/tool")
    paths.write(_CORACLE)


def main() -> NoReturn:
    """Serve the host until it disconnects."""
    import fcntl

    for source, place in ((0, _SOURCE), (1, _TARGET)):
        os.close(fcntl.fcntl(source, fcntl.F_DUPFD_CLOEXEC, 1000))
        os.dup2(source, place, inheritable=False)
    null = os.open("/dev/null", os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(2, 1)
    os.dup2(null, enclosure.CHANNEL)
    os.closerange(enclosure.CHANNEL + 1, _SOURCE)
    host = mux.Mux(_SOURCE, _TARGET)
    try:
        Agent(host).serve()
    except EOFError:
        os._exit(0)
    except BrokenPipeError:
        os._exit(0)


class Slot:
    """A sandbox."""

    def __init__(self, pid: int, limits: dict[str, Any], fds: tuple[int, int, int]) -> None:
        self.pid = pid
        self.limits = limits
        # The channel is both read and written; `None` when it has ended.
        self.fds: list[int | None] = list(fds)
        self.room = [mux.WINDOW] * 3
        self.to_guest = bytearray()
        self.closing = False
        self.exited = False
        self.forgotten = False
        # A piece of the channel that waits until what was printed before it has been sent.
        self.held: bytes | None = None
        self.before = [0, 0, 0]
        self.last = 0
        self.nameless = 0
        self.next_look = 0.0
        self.pause = _QUICK
        self.looks = 0
        self.killed = False


class Agent:
    """The main loop."""

    def __init__(self, host: mux.Mux) -> None:
        self._host = host
        self._slots: dict[int, Slot] = {}
        self._waiting: list[tuple[int, int, bytes]] = []
        self._poll = select.poll()
        start = self._first()
        self._device = _device("/workspace")
        # The process that waits for the next call.
        self._ahead: tuple[enclosure.Child, tuple[int, int, int]] | None = None
        self._is_spent = False
        sys.path[:] = paths.search()
        sys.meta_path.append(paths.Absent())
        failed = zygote.preload(start["preload"]) if start["preload"] is not None else 0
        filters = [base64.b64decode(text) for text in start["filters"]]
        self._plan = enclosure.Plan((start["uid"], start["gid"]), filters, start["tmp_bytes"])
        self._wake, waker = os.pipe()
        os.set_blocking(self._wake, False)
        os.set_blocking(waker, False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
        try:
            self._plan.probe()
        except enclosure.StepFailed as error:
            host.tell(0, mux.FAILED, {"reason": str(error)})
            os._exit(_EXIT_BROKEN)
        poll = select.poll()
        poll.register(enclosure.CHANNEL, select.POLLIN)
        self._prepared = agent.Agent(enclosure.CHANNEL, poll.poll)
        for _ in range(_REHEARSALS):
            self._prepared.rehearse()
        self._seeds: list[Callable[[], None]] = zygote.generators()
        gc.collect()
        gc.freeze()
        self._has_own_kernel = not self._plan.apart and usage.has_own_kernel()
        # What the agent itself uses.
        self._base = usage.of_kernel()
        hello = {
            "version": list(sys.version_info[:3]),
            "failed": failed,
            "apart": self._plan.apart,
            "why": self._plan.why,
            "workspace": os.stat("/workspace").st_ino,
        }
        host.tell(0, mux.HELLO, hello)

    def _first(self) -> dict[str, Any]:
        frames: list[tuple[int, int, bytes]] = []
        while not frames:
            frames.extend(self._host.receive())
        (_, kind, payload), *self._waiting = frames
        if kind != mux.START:
            raise mux.Broken(f"frame {kind} before the start")
        return channel.loads(payload.decode())

    def serve(self) -> NoReturn:
        """Serve until the host is gone."""
        for frame in self._waiting:
            self._follow(*frame)
        self._make_ahead()
        while True:
            ready = self._wait()
            if not ready:
                # Not right after a call has begun: the two would compete for the processor.
                self._make_ahead()
            if self._wake in ready:
                _drain(self._wake)
                self._reap()
            for slot in list(self._slots):
                self._carry(slot, ready)
            if self._host.source in ready:
                for frame in self._host.receive():
                    self._follow(*frame)
            self._watch()
            for number, slot in list(self._slots.items()):
                if slot.exited and slot.fds == [None, None, None]:
                    del self._slots[number]

    def _wait(self) -> set[int]:
        """Wait for something to do. Returns the descriptors that are ready."""
        poll = select.poll()
        poll.register(self._host.source, select.POLLIN)
        poll.register(self._wake, select.POLLIN)
        now = _now()
        patience = None if self._ahead or self._is_spent else _UNHURRIED
        for slot in self._slots.values():
            for stream, fd in enumerate(slot.fds):
                if fd is None:
                    continue
                events = 0
                if slot.room[stream] > 0 and (stream != mux.CHANNEL or slot.held is None):
                    events |= select.POLLIN
                if stream == mux.CHANNEL and slot.to_guest:
                    events |= select.POLLOUT
                if events:
                    poll.register(fd, events)
            if not slot.exited:
                left = max(slot.next_look - now, 0)
                patience = left if patience is None else min(patience, left)
        return {fd for fd, _ in poll.poll(patience)}

    def _follow(self, number: int, kind: int, payload: bytes) -> None:
        """Carry out one frame of the host."""
        if kind == mux.OPEN:
            self._open(number, channel.loads(payload.decode()))
            return
        slot = self._slots.get(number)
        if slot is None:
            return
        if kind == mux.BYTES:
            slot.to_guest += payload
            slot.pause = _QUICK
            slot.next_look = min(slot.next_look, _now() + _QUICK)
            self._write(number, slot)
        elif kind == mux.CLOSE:
            slot.closing = True
            self._write(number, slot)
        elif kind == mux.KILL:
            self._kill(slot)
        elif kind == mux.FORGET:
            slot.forgotten = True
            self._kill(slot)
        elif kind == mux.TAKEN:
            stream, count = payload[0], mux.COUNT.unpack_from(payload, 1)[0]
            slot.room[stream] += count
            self._carry(number, set())

    def _open(self, number: int, limits: dict[str, Any]) -> None:
        """Make a sandbox, of the process that waits for it."""
        if self._is_spent:
            self._host.tell(number, mux.FAILED, {"reason": "this container has had its sandbox"})
            return
        self._is_spent = not self._plan.apart
        try:
            child, fds = self._ahead or self._make()
        except enclosure.StepFailed as error:
            self._host.tell(number, mux.FAILED, {"reason": str(error)})
            return
        self._ahead = None
        slot = Slot(child.pid, limits, fds)
        slot.next_look = _now() + _QUICK
        self._slots[number] = slot
        child.order(channel.dumps({"slot": str(number), "limits": limits}).encode())

    def _make(self) -> tuple[enclosure.Child, tuple[int, int, int]]:
        """Fork a process that will be a sandbox."""
        import socket

        ours, theirs = socket.socketpair()
        (out_reader, out_writer), (err_reader, err_writer) = os.pipe(), os.pipe()
        fds = (ours.detach(), out_reader, err_reader)
        try:
            child = enclosure.Child(self._plan, (theirs.fileno(), out_writer, err_writer))
            if child.pid == 0:
                self._become(child)
            reason = child.map_users()
            if reason:
                raise enclosure.StepFailed(reason, 0)
        except enclosure.StepFailed:
            for fd in fds:
                os.close(fd)
            raise
        finally:
            theirs.close()
            os.close(out_writer)
            os.close(err_writer)
        for fd in fds:
            os.set_blocking(fd, False)
        return child, fds

    def _make_ahead(self) -> None:
        """Fork the next process. If that fails, the next call reports why."""
        if self._ahead is None and not self._is_spent:
            try:
                self._ahead = self._make()
            except enclosure.StepFailed:
                pass

    def _become(self, child: enclosure.Child) -> NoReturn:
        """In the child: run from the fork to the end of the sandbox."""
        plan = self._plan
        try:
            child.wait_for_parent()
            child.settle()
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.setsid()
            os.umask(0o022)
            plan.enter_mounts()
            self._prepared.rehearse()
            order = channel.loads(child.wait_for_order().decode())
            self._prepared.adopt()
            plan.bind_artifacts(order["slot"])
            plan.leave_users()
            os.chdir("/workspace")
            if not os.access("/workspace", os.W_OK | os.X_OK):
                raise enclosure.StepFailed("write to /workspace as the user of the code", errno.EACCES)
            plan.limit(order["limits"])
            plan.seal()
        except enclosure.StepFailed as error:
            _report(error.step, error.errno)
        except OSError as error:
            _report("set up the sandbox", error.errno or 0)
        except BaseException as error:  # in any case, this process must not return to the agent's code
            os.write(2, f"coracle: a sandbox broke: {error!r}\n".encode())
            os._exit(_EXIT_BROKEN)
        try:
            for seed in self._seeds:
                seed()
            gc.enable()
            channel.send(enclosure.CHANNEL, agent.ready())
            self._prepared.serve()
        finally:
            os._exit(_EXIT_BROKEN)

    def _kill(self, slot: Slot) -> None:
        """Kill the first process: the kernel ends the others of its pid namespace with it."""
        if slot.exited:
            return
        slot.killed = True
        try:
            os.kill(slot.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if self._ahead is not None and self._ahead[0].pid == pid:
                child, fds = self._ahead
                self._ahead = None
                child.abandon()
                for fd in fds:
                    os.close(fd)
            for number, slot in self._slots.items():
                if slot.pid == pid:
                    slot.exited = True
                    if not self._plan.apart:
                        _kill_all_others()
                    self._carry(number, set())
                    self._host.tell(number, mux.EXITED, {"status": status})

    def _write(self, number: int, slot: Slot) -> None:
        """Pass bytes of the host on to the guest."""
        fd = slot.fds[mux.CHANNEL]
        if fd is None:
            slot.to_guest.clear()
            return
        written = 0
        try:
            while slot.to_guest:
                count = os.write(fd, slot.to_guest)
                del slot.to_guest[:count]
                written += count
        except BlockingIOError:
            pass
        except OSError:  # the guest is gone, and its end is reported by its exit
            slot.to_guest.clear()
        if written:
            self._host.send(number, mux.ROOM, mux.COUNT.pack(written))
        if slot.closing and not slot.to_guest:
            import socket

            slot.closing = False
            with socket.socket(fileno=os.dup(fd)) as end:
                try:
                    end.shutdown(socket.SHUT_WR)
                except OSError:
                    pass

    def _carry(self, number: int, ready: set[int]) -> None:
        """Pass on what the guest wrote. What it printed before a frame arrives before that frame."""
        slot = self._slots[number]
        fd = slot.fds[mux.CHANNEL]
        if fd is not None and fd in ready and slot.to_guest:
            self._write(number, slot)
        while True:
            if slot.held is None and slot.fds[mux.CHANNEL] is not None and (slot.exited or fd in ready):
                piece = self._read(number, slot, mux.CHANNEL)
                if piece:
                    slot.held = piece
                    slot.before = [0, _waiting_bytes(slot.fds[1]), _waiting_bytes(slot.fds[2])]
            for stream in (mux.STDOUT, mux.STDERR):
                while slot.fds[stream] is not None:
                    piece = self._read(number, slot, stream)
                    if not piece:
                        break
                    slot.before[stream] = max(slot.before[stream] - len(piece), 0)
                    self._pass(number, slot, stream, piece)
                if slot.fds[stream] is None:
                    slot.before[stream] = 0
            if slot.held is None or slot.before != [0, 0, 0]:
                return
            piece, slot.held = slot.held, None
            self._pass(number, slot, mux.CHANNEL, piece)
            if not slot.exited:
                return

    def _read(self, number: int, slot: Slot, stream: int) -> bytes | None:
        """Read from a stream, as much as there is room for. `None` if there is nothing, or no room."""
        fd = slot.fds[stream]
        if fd is None:
            return None
        room = mux.WINDOW if slot.forgotten else slot.room[stream]
        if room <= 0:
            return None
        try:
            piece = os.read(fd, min(room, 1 << 16))
        except BlockingIOError:
            return None
        except OSError:
            piece = b""
        if piece:
            slot.room[stream] -= len(piece)
            return piece
        os.close(fd)
        slot.fds[stream] = None
        slot.to_guest = bytearray() if stream == mux.CHANNEL else slot.to_guest
        self._host.send(number, mux.ENDED, bytes([stream]))
        return None

    def _pass(self, number: int, slot: Slot, stream: int, piece: bytes) -> None:
        if not slot.forgotten:
            self._host.send(number, mux.DATA + stream, piece)

    def _watch(self) -> None:
        """Kill sandboxes that are over a limit which the kernel does not enforce."""
        now = _now()
        for number, slot in self._slots.items():
            if slot.exited or slot.killed or now < slot.next_look:
                continue
            pids = usage.tree(slot.pid) if self._plan.apart else usage.everything(os.getpid())
            if not self._plan.apart and usage.threads(pids) > slot.limits["processes"]:
                self._host.tell(number, mux.CAUSE, {"cause": "processes"})
                self._kill(slot)
                continue
            in_memory = (f"/proc/{slot.pid}/root/tmp",) if self._plan.apart else ("/tmp", "/dev/shm")
            files = sum(usage.file_system(path) for path in in_memory)
            resident = usage.resident(pids) + files
            slot.pause = _QUICK if resident != slot.last else min(slot.pause * 2, _SLOW)
            slot.last = resident
            slot.next_look = _now() + slot.pause
            memory = slot.limits["memory"]
            if resident > memory:
                own_kernel = self._has_own_kernel
                exact = usage.of_kernel() - self._base if own_kernel else usage.proportional(pids) + files
                if exact > memory:
                    self._host.tell(number, mux.CAUSE, {"cause": "memory", "used": exact})
                    self._kill(slot)
                    continue
            slot.looks += 1
            if slot.looks % _NAMELESS_EVERY == 0:
                found = usage.nameless(pids, self._device)
                if found != slot.nameless:
                    slot.nameless = found
                    self._host.tell(number, mux.NAMELESS, {"bytes": found})


def _report(step: str, errno: int) -> NoReturn:
    """Report that a sandbox could not be confined, and exit."""
    try:
        channel.send(enclosure.CHANNEL, {"type": "failed", "step": step, "errno": errno})
    finally:
        os._exit(_EXIT_BROKEN)


def _kill_all_others() -> None:
    """Kill what the only sandbox of a container has left behind."""
    own = os.getpid()
    for _ in range(100):
        found = usage.everything(own)
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        if not found:
            return
        try:
            os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return


def _waiting_bytes(fd: int | None) -> int:
    """The number of bytes in a pipe."""
    if fd is None:
        return 0
    import fcntl
    import termios

    return int.from_bytes(fcntl.ioctl(fd, termios.FIONREAD, b"\0\0\0\0"), sys.byteorder)


def _drain(fd: int) -> None:
    try:
        while os.read(fd, 4096):
            pass
    except BlockingIOError:
        pass


def _now() -> float:
    """The time in milliseconds."""
    import time

    return time.monotonic() * 1000


def _device(path: str) -> int:
    try:
        return os.stat(path).st_dev
    except OSError:
        return 0
