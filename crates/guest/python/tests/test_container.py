"""The parts of a container's agent that need no container."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import unittest

from coracle_guest import container, mux, usage


class Frames(unittest.TestCase):
    """The streams between the agent and the host."""

    def setUp(self) -> None:
        self.host, ours = socket.socketpair()
        self.mux = mux.Mux(ours.fileno(), ours.fileno())
        self.addCleanup(self.host.close)
        self.addCleanup(ours.close)

    def test_frames_may_arrive_in_any_pieces(self) -> None:
        frames = [(1, mux.BYTES, b"one"), (2, mux.KILL, b""), (3, mux.OPEN, b"x" * 1000)]
        data = b"".join(mux.HEADER.pack(slot, kind, len(payload)) + payload for slot, kind, payload in frames)
        for size in (1, 7, len(data)):
            heard = []
            for start in range(0, len(data), size):
                self.host.sendall(data[start : start + size])
                heard += self.mux.receive()
            self.assertEqual(heard, frames, size)

    def test_a_frame_that_is_too_long_is_refused(self) -> None:
        longest = mux.HEADER.pack(1, mux.BYTES, mux.MAX_PAYLOAD)
        self.host.sendall(longest)
        self.assertEqual(list(self.mux.receive()), [], "control: the payload is still to come")
        other = mux.Mux(self.mux.source, self.mux.source)
        self.host.sendall(mux.HEADER.pack(1, mux.BYTES, mux.MAX_PAYLOAD + 1))
        with self.assertRaises(mux.Broken):
            list(other.receive())

    def test_the_end_of_the_host_is_the_end(self) -> None:
        self.host.shutdown(socket.SHUT_WR)
        with self.assertRaises(EOFError):
            list(self.mux.receive())

    def test_what_is_sent_can_be_read(self) -> None:
        self.mux.tell(7, mux.HELLO, {"apart": True})
        payload = b'{"apart":true}'
        self.assertEqual(self.host.recv(1000), mux.HEADER.pack(7, mux.HELLO, len(payload)) + payload)


class Usage(unittest.TestCase):
    """What the processes of a sandbox use."""

    def start(self, code: str) -> subprocess.Popen[bytes]:
        started = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
        self.addCleanup(started.wait)
        self.addCleanup(started.kill)
        assert started.stdout is not None
        self.addCleanup(started.stdout.close)
        self.assertEqual(started.stdout.readline(), b"ready\n")
        return started

    def test_descendants_are_found_and_their_memory_counts(self) -> None:
        code = "import os, time\nchild = os.fork()\nheld = b'x' * 30_000_000\nchild and print('ready', flush=True)\ntime.sleep(99)"
        first = self.start(code)
        pids = usage.tree(first.pid)
        self.addCleanup(lambda: [os.kill(pid, signal.SIGKILL) for pid in pids[1:]])
        self.assertEqual((len(pids), pids[0]), (2, first.pid))
        self.assertEqual(usage.threads(pids), 2)
        self.assertGreater(usage.resident(pids), 30_000_000)
        if not usage.has_own_kernel():
            self.assertLessEqual(usage.proportional(pids), usage.resident(pids))

    def test_deleted_files_that_are_open_count(self) -> None:
        code = (
            "import os, tempfile, time\nfile = tempfile.TemporaryFile(dir='.')\nfile.write(b'x' * 3_000_000)\n"
            "file.flush()\nprint('ready', flush=True)\ntime.sleep(99)"
        )
        first = self.start(code)
        device = os.stat(".").st_dev
        self.assertGreaterEqual(usage.nameless([first.pid], device), 3_000_000)
        self.assertEqual(usage.nameless([first.pid], device + 1), 0, "on another device")

    def test_bytes_that_wait_in_a_pipe_are_counted(self) -> None:
        reader, writer = os.pipe()
        self.addCleanup(os.close, reader)
        self.addCleanup(os.close, writer)
        self.assertEqual(container._waiting_bytes(reader), 0)
        os.write(writer, b"words")
        self.assertEqual(container._waiting_bytes(reader), 5)
        self.assertEqual(container._waiting_bytes(None), 0)


if __name__ == "__main__":
    unittest.main()
