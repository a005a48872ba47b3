"""Programs below a shell that call the host: the order of their calls, and requests that are refused."""

from __future__ import annotations

import os
import unittest

from driver import GuestCase

# A short version of the real command, which is tested in a sandbox.
ASK = """
import json, os, select, sys
folder, name = os.environ["CORACLE_DOOR"], sys.argv[1]
path = os.path.join(folder, name)
with open(path + ".ask", "w") as file:
    file.write(sys.argv[2] if len(sys.argv) > 2 else json.dumps({"method": "tool", "params": {"n": name}}))
os.mkfifo(path + ".answer")
answer = os.open(path + ".answer", os.O_RDONLY | os.O_NONBLOCK)
bell = os.open(os.path.join(folder, "bell"), os.O_WRONLY | os.O_NONBLOCK)
os.write(bell, name.encode() + b"\\n")
data = b""
while True:
    select.select([answer], [], [])
    piece = os.read(answer, 65536)
    if not piece:
        break
    data += piece
reply = json.loads(data)
print(name, reply["value"] if reply["ok"] else reply["error"]["code"], flush=True)
"""


class Relay(GuestCase):
    def setUp(self) -> None:
        super().setUp()
        with open(os.path.join(self.guest.workspace, "ask.py"), "w", encoding="utf-8") as file:
            file.write(ASK)

    def reply(self, call: dict, **answer: object) -> None:
        self.guest.send({"type": "reply", "id": call["id"], **answer})

    def done(self) -> dict:
        frame = self.guest.receive()
        assert frame is not None
        self.assertEqual(frame["type"], "done", frame)
        return frame

    def test_concurrent_calls_are_answered_in_any_order(self) -> None:
        self.guest.start("for n in a1 b2 c3; do python3 ask.py $n & done; wait", "bash")
        calls = [self.guest.receive() for _ in range(3)]
        self.assertEqual(sorted(call["params"]["n"] for call in calls), ["a1", "b2", "c3"])
        for call in reversed(calls):
            self.reply(call, ok=True, value=call["params"]["n"] * 2)
        self.assertTrue(self.done()["ok"])
        self.assertEqual(sorted(self.guest.stdout().split("\n")), ["", "a1 a1a1", "b2 b2b2", "c3 c3c3"])

    def test_errors_and_large_answers_arrive(self) -> None:
        self.guest.start("python3 ask.py a; python3 ask.py b | wc -c", "bash")
        self.reply(self.guest.receive(), ok=False, error={"code": "denied", "message": "no", "retryable": False})
        self.reply(self.guest.receive(), ok=True, value="x" * 2_000_000)
        self.assertTrue(self.done()["ok"])
        self.assertEqual(self.guest.stdout(), "a denied\n2000003\n")

    def test_invalid_requests_are_refused(self) -> None:
        code = "python3 ask.py a 'no json'; python3 ask.py b '{}'; echo ../../x >$CORACLE_DOOR/bell; head -c 9999 /dev/zero >$CORACLE_DOOR/bell; python3 ask.py c"
        self.guest.start(code, "bash")
        # The host receives only one call.
        self.reply(self.guest.receive(), ok=True, value=1)
        self.assertTrue(self.done()["ok"])
        self.assertEqual(self.guest.stdout(), "a invalid_request\nb invalid_request\nc 1\n")

    def test_pending_calls_are_cancelled_when_the_shell_ends(self) -> None:
        self.guest.start("python3 ask.py a >out & while [ ! -e $CORACLE_DOOR/a.answer ]; do sleep 0.01; done", "bash")
        call = self.guest.receive()
        self.assertTrue(self.done()["ok"])
        # An answer that is too late is dropped, and the next run is not affected.
        self.reply(call, ok=True, value=1)
        done = self.guest.run("wait_for() { for i in $(seq 500); do grep -q cancelled out && return; sleep 0.01; done; }; wait_for; cat out", "bash")
        self.assertTrue(done["ok"], done)
        self.assertIn("a cancelled", self.guest.stdout())

    def test_bash_runs_without_room_for_a_relay(self) -> None:
        os.rmdir(self.guest.state)
        with open(self.guest.state, "w", encoding="utf-8"):
            pass
        done = self.guest.bash("echo ${CORACLE_DOOR-none}")
        self.assertTrue(done["ok"], done)
        self.assertEqual(self.guest.stdout(), "none\n")

    def test_bash_runs_without_descriptors_for_a_relay(self) -> None:
        self.result("import resource, os\nresource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))\nheld = []\ntry:\n    while True: held.append(os.dup(2))\nexcept OSError: pass\nfor _ in range(2): os.close(held.pop())")
        done = self.guest.bash("echo still")
        self.assertTrue(done["ok"], done)
        self.assertEqual(self.guest.stdout(), "still\n")


if __name__ == "__main__":
    unittest.main()
