"""Drives a real agent process over a socket pair, like the host."""

from __future__ import annotations

import json
import os
import socket
import struct
import subprocess
import sys
import tempfile
import unittest
from typing import Any

PACKAGE_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

_START = """
import sys
sys.path[:0] = [{root!r}, {coracle!r}]
from coracle_guest import agent, failure, figures, frames, network, shell_state
figures.ARTIFACTS = {artifacts!r}
shell_state.ROOT = network.ROOT = {state!r}
network.SYSTEM = ({system!r},)
frames.USER_ROOTS = ({workspace!r},)
frames.GENERATED = ({servers!r},)
failure.ROUTES = {routes!r}
agent.warm()
agent.serve({fd})
"""

NO_ROUTES: tuple[str, ...] = ()


class Guest:
    """One agent process. The fixed folders of a sandbox are temporary ones here."""

    def __init__(self, routes: tuple[str, ...] = NO_ROUTES) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.workspace = self._make("workspace")
        self.artifacts = self._make("artifacts")
        self.state = self._make("tmp")
        self.servers = os.path.join(self._make("coracle"), "servers")
        os.mkdir(self.servers)
        self.system = self._path("system.pem")
        with open(self.system, "w") as file:
            file.write("SYSTEM")
        self._runs = 0
        self.sock, theirs = socket.socketpair()
        self.sock.settimeout(30)
        start = _START.format(
            root=PACKAGE_ROOT,
            coracle=os.path.dirname(self.servers),
            artifacts=self.artifacts,
            state=self.state,
            workspace=self.workspace,
            servers=self.servers,
            routes=routes,
            system=self.system,
            fd=theirs.fileno(),
        )
        with theirs, open(self._path("stdout"), "wb") as stdout, open(self._path("stderr"), "wb") as stderr:
            self.process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-B", "-c", start],
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                pass_fds=(theirs.fileno(),),
                cwd=self.workspace,
                env={"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LANG": "C.UTF-8"},
            )

    def _path(self, name: str) -> str:
        return os.path.join(self.folder.name, name)

    def _make(self, name: str) -> str:
        os.mkdir(self._path(name))
        return self._path(name)

    def send(self, frame: Any) -> None:
        data = json.dumps(frame).encode()
        self.sock.sendall(struct.pack(">I", len(data)) + data)

    def receive(self) -> dict[str, Any] | None:
        header = self._exactly(4)
        if header is None:
            return None
        data = self._exactly(struct.unpack(">I", header)[0])
        assert data is not None
        # Strict, like the host: no NaN, and no lone surrogates even as escapes.
        frame = json.loads(data.decode("utf-8"), parse_constant=_refuse)
        json.dumps(frame, ensure_ascii=False).encode("utf-8")
        return frame

    def _exactly(self, size: int) -> bytes | None:
        data = b""
        while len(data) < size:
            piece = self.sock.recv(size - len(data))
            if not piece:
                return None
            data += piece
        return data

    def start(self, code: str, language: str = "python", result_bytes: int = 65536, **extra: Any) -> int:
        self._runs += 1
        frame = {"type": "run", "id": self._runs, "language": language, "code": code, "result_bytes": result_bytes}
        self.send({**frame, **extra})
        return self._runs

    def run(self, code: str, language: str = "python", result_bytes: int = 65536, **extra: Any) -> dict[str, Any]:
        """Do one run. Returns its answer without `type` and `id`."""
        number = self.start(code, language, result_bytes, **extra)
        done = self.receive()
        if done is None:
            raise AssertionError(f"the agent has ended: {self.process.wait()} {self.stderr()}")
        assert (done.pop("type"), done.pop("id")) == ("done", number), done
        return done

    def bash(self, code: str, **extra: Any) -> dict[str, Any]:
        return self.run(code, "bash", **extra)

    def stdout(self) -> str:
        return self._read("stdout")

    def stderr(self) -> str:
        return self._read("stderr")

    def _read(self, name: str) -> str:
        with open(self._path(name), encoding="utf-8") as file:
            return file.read()

    def close(self) -> int:
        """Disconnect. Returns the exit status of the agent."""
        self.sock.close()
        try:
            return self.process.wait(10)
        finally:
            self.process.kill()
            self.folder.cleanup()


def _refuse(name: str) -> None:
    raise AssertionError(f"{name} is not JSON")


class GuestCase(unittest.TestCase):
    """A test case with a fresh agent."""

    maxDiff = None

    def setUp(self) -> None:
        self.guest = Guest()
        self.addCleanup(self.guest.close)

    def result(self, code: str, **extra: Any) -> Any:
        """The result of a run that must succeed."""
        done = self.guest.run(code, **extra)
        self.assertTrue(done["ok"], done)
        return done.get("result")

    def error(self, code: str, **extra: Any) -> dict[str, Any]:
        """The error of a run that must fail."""
        done = self.guest.run(code, **extra)
        self.assertFalse(done["ok"], done)
        self.assertNotIn("result", done)
        return done["error"]
