"""Framing, calls to the host, and the end of the process."""

from __future__ import annotations

import os
import socket
import struct
import threading
import unittest

from coracle_guest import channel
from driver import Guest, GuestCase


class Framing(unittest.TestCase):
    def setUp(self) -> None:
        self.ours, self.theirs = socket.socketpair()
        self.addCleanup(self.ours.close)
        self.addCleanup(self.theirs.close)

    def test_round_trip(self) -> None:
        frame = {"type": "x", "text": "é\u2028\"\\\n", "n": [1, -2.5, None, True, {}], "big": 2**64 - 1}
        channel.send(self.ours.fileno(), frame)
        self.assertEqual(channel.receive(self.theirs.fileno()), frame)

    def test_short_reads(self) -> None:
        payload = b' {"type": "x", "value": [ 1 , 2 ] } '
        data = struct.pack(">I", len(payload)) + payload

        def trickle() -> None:
            for byte in data:
                self.ours.send(bytes([byte]))

        thread = threading.Thread(target=trickle)
        thread.start()
        self.assertEqual(channel.receive(self.theirs.fileno()), {"type": "x", "value": [1, 2]})
        thread.join()

    def test_large_frames_are_written_whole(self) -> None:
        frame = {"type": "x", "text": "é" * 3_000_000}
        thread = threading.Thread(target=channel.send, args=(self.ours.fileno(), frame))
        thread.start()
        self.assertEqual(channel.receive(self.theirs.fileno()), frame)
        thread.join()

    def test_frames_that_are_too_large_or_not_json_are_rejected_before_sending(self) -> None:
        for value in ("x" * channel.MAX_FRAME, float("nan"), object()):
            with self.assertRaises((ValueError, TypeError)):
                channel.send(self.ours.fileno(), {"type": "x", "value": value})
        channel.send(self.ours.fileno(), {"type": "after"})
        self.assertEqual(channel.receive(self.theirs.fileno()), {"type": "after"})

    def test_lone_surrogates_do_not_break_the_encoding(self) -> None:
        channel.send(self.ours.fileno(), {"type": "x", "text": "a\ud800b"})
        self.assertEqual(channel.receive(self.theirs.fileno()), {"type": "x", "text": "a?b"})

    def test_end_of_stream(self) -> None:
        self.ours.send(b"\0\0\0\5ab")
        self.ours.close()
        self.assertIsNone(channel.receive(self.theirs.fileno()))
        channel._partial.clear()

    def test_invalid_frames(self) -> None:
        for payload in (b"", b"[1]", b"{}", b'{"type":1}', b"{", b'{"type":"x"} 1', b"\xff", b'{"type":NaN}', b'"\xc3('):
            with self.subTest(payload=payload):
                self.ours.send(struct.pack(">I", len(payload)) + payload)
                with self.assertRaises(channel.ProtocolError):
                    channel.receive(self.theirs.fileno())
                channel._partial.clear()

    def test_plain_json_agrees_with_the_accelerator(self) -> None:
        dumps, loads = channel._plain()
        value = {"a": [1, 2.5, "é\u2028\n", None, True], "b": {}}
        self.assertEqual(dumps(value), channel.dumps(value))
        self.assertEqual(loads(dumps(value)), channel.loads(channel.dumps(value)))


class Process(GuestCase):
    def test_disconnecting_ends_it_with_status_0(self) -> None:
        self.assertEqual(self.guest.run("1")["result"], 1)
        self.assertEqual(self.guest.close(), 0)

    def test_invalid_frames_end_it_with_status_70(self) -> None:
        good = {"type": "run", "id": 1, "language": "python", "code": "1", "result_bytes": 10}
        bad = [
            {"type": "nonsense"},
            {**good, "language": "cobol"},
            {**good, "code": None},
            {**good, "id": "1"},
            {**good, "vars": [1]},
            {"type": "reply", "id": 1, "ok": False},
            [1],
        ]
        for frame in bad:
            with self.subTest(frame=frame):
                guest = Guest()
                guest.send(frame)
                self.assertIsNone(guest.receive())
                self.assertEqual(guest.close(), 70)

    def test_oversized_length_ends_it_with_status_70(self) -> None:
        self.guest.sock.sendall(struct.pack(">I", channel.MAX_FRAME + 1))
        self.assertIsNone(self.guest.receive())
        self.assertEqual(self.guest.close(), 70)


class Calls(GuestCase):
    def test_a_call_gives_the_value(self) -> None:
        self.guest.start("from coracle_guest.calls import call\ncall('add', {'a': 1, 'b': 2})")
        request = self.guest.receive()
        self.assertEqual(request, {"type": "call", "id": 1, "method": "add", "params": {"a": 1, "b": 2}})
        self.guest.send({"type": "reply", "id": 1, "ok": True, "value": 3})
        self.assertEqual(self.guest.receive(), {"type": "done", "id": 1, "ok": True, "exit_code": 0, "result": 3})

    def test_a_refusal_is_an_exception(self) -> None:
        self.guest.start(
            "from coracle_guest.calls import call, CallError\n"
            "try:\n    call('x', {})\nexcept CallError as e:\n    result = [e.code, e.message, e.retryable, str(e)]"
        )
        self.guest.receive()
        self.guest.send({"type": "reply", "id": 1, "ok": False, "error": {"code": "denied", "message": "no", "retryable": True}})
        done = self.guest.receive()
        assert done is not None
        self.assertEqual(done["result"], ["denied", "no", True, "no"])

    def test_many_threads_wait_and_replies_come_in_any_order(self) -> None:
        self.guest.start(
            "from coracle_guest.calls import call\n"
            "from concurrent.futures import ThreadPoolExecutor\n"
            "with ThreadPoolExecutor(8) as pool:\n"
            "    result = list(pool.map(lambda n: call('double', {'n': n}), range(8)))"
        )
        requests = [self.guest.receive() for _ in range(8)]
        for request in reversed(requests):
            assert request is not None
            self.guest.send({"type": "reply", "id": request["id"], "ok": True, "value": request["params"]["n"] * 2})
        done = self.guest.receive()
        assert done is not None
        self.assertEqual(done["result"], [n * 2 for n in range(8)])

    def test_a_waiting_thread_does_not_consume_the_next_run(self) -> None:
        self.guest.start(
            "import threading, time\nfrom coracle_guest.calls import call\nseen = []\n"
            "threading.Thread(target=lambda: seen.append(call('slow', {})), daemon=True).start()\n"
            "time.sleep(0.1)"
        )
        first, second = self.guest.receive(), self.guest.receive()
        assert first is not None and second is not None
        self.assertEqual([first["type"], second["type"]], ["call", "done"])
        self.guest.start("len(seen)")
        third = self.guest.receive()
        assert third is not None
        self.assertEqual(third["result"], 0)
        self.guest.send({"type": "reply", "id": first["id"], "ok": True, "value": 7})
        self.guest.start("import time; time.sleep(0.1); seen")
        fourth = self.guest.receive()
        assert fourth is not None
        self.assertEqual(fourth["result"], [7])

    def test_an_interrupted_call_leaves_the_channel_intact(self) -> None:
        self.guest.start(
            "import signal\nfrom coracle_guest.calls import call\n"
            "def stop(*_): raise TimeoutError('mine')\n"
            "signal.signal(signal.SIGALRM, stop); signal.setitimer(signal.ITIMER_REAL, 0.1)\n"
            "try:\n    call('slow', {})\nexcept TimeoutError as e:\n    result = str(e)"
        )
        first, done = self.guest.receive(), self.guest.receive()
        assert first is not None and done is not None
        self.assertEqual(done["result"], "mine")
        self.guest.send({"type": "reply", "id": first["id"], "ok": True, "value": "late"})
        self.assertEqual(self.guest.run("2")["result"], 2)

    def test_replies_to_forwarded_calls_are_delivered(self) -> None:
        self.guest.start(
            "from coracle_guest import calls\nimport select\nlink, told = calls._link, []\n"
            "numbers = [link.forward('slow', {'n': n}, lambda number, frame: told.append((number, frame and frame['value']))) for n in range(2)]\n"
            "while sum(1 for _, value in told if value) < 1:\n    select.select([link.fd], [], []); link.take_one()\n"
            "link.abandon(numbers[0]); calls.call('fast', {})\n"
            "[numbers, [t for t in told if t[1]]]"
        )
        first, second = self.guest.receive(), self.guest.receive()
        assert first is not None and second is not None
        self.guest.send({"type": "reply", "id": second["id"], "ok": True, "value": "second"})
        third = self.guest.receive()
        assert third is not None
        # The caller no longer waits for this one.
        self.guest.send({"type": "reply", "id": first["id"], "ok": True, "value": "first"})
        self.guest.send({"type": "reply", "id": third["id"], "ok": True, "value": "third"})
        done = self.guest.receive()
        assert done is not None
        self.assertEqual(done["result"], [[first["id"], second["id"]], [[second["id"], "second"]]])

    def test_a_forked_child_cannot_call(self) -> None:
        done = self.guest.run(
            "import os\nfrom coracle_guest.calls import call, CallError\nr, w = os.pipe()\n"
            "if os.fork() == 0:\n"
            "    try:\n        call('x', {})\n    except CallError as e:\n        os.write(w, e.code.encode())\n    os._exit(0)\n"
            "os.read(r, 100).decode()"
        )
        self.assertEqual(done["result"], "invalid_request")

    def test_a_signal_left_pending_does_not_break_the_answer(self) -> None:
        self.guest.run(
            "import signal\ndef stop(*_): raise TimeoutError\n"
            "signal.signal(signal.SIGALRM, stop); signal.setitimer(signal.ITIMER_REAL, 0.05)"
        )
        threading.Event().wait(0.2)
        self.assertEqual(self.guest.run("1")["error"]["message"], "TimeoutError")
        self.assertEqual(self.guest.run("1")["result"], 1)


class Warming(GuestCase):
    def test_it_leaves_no_trace(self) -> None:
        code = (
            "import sys; sys.path.insert(0, " + repr(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + ")\n"
            "from coracle_guest import agent\nimport _signal, os\n"
            "def state(): return (sorted(sys.modules), sys.modules['__main__'], list(sys.meta_path), os.listdir('/proc/self/fd'),"
            " _signal.pthread_sigmask(_signal.SIG_BLOCK, ()), sys.argv, sys.stdout)\n"
            "before = state(); agent.warm(); agent.warm()\nassert before == state(), (before, state())\n"
        )
        import subprocess
        import sys

        done = subprocess.run([sys.executable, "-I", "-S", "-B", "-c", code], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
