"""Answers the calls of a guest, like the broker of the host."""

from __future__ import annotations

from typing import Any, Callable

from driver import Guest

Answer = Callable[[dict[str, Any]], Any]


class Refused(Exception):
    """Raised to answer with this error."""

    def __init__(self, code: str, message: str, retryable: bool = False) -> None:
        super().__init__(message)
        self.error = {"code": code, "message": message, "retryable": retryable}


def reply(request: dict[str, Any], answer: Answer) -> dict[str, Any]:
    """The frame that answers one call."""
    try:
        return {"type": "reply", "id": request["id"], "ok": True, "value": answer(request["params"])}
    except Refused as refused:
        return {"type": "reply", "id": request["id"], "ok": False, "error": refused.error}


def serve(guest: Guest, answer: Answer, method: str = "tool") -> dict[str, Any]:
    """Answer every call at once until the run is done. Returns its outcome."""
    while True:
        frame = guest.receive()
        assert frame is not None, guest.stderr()
        if frame["type"] == "done":
            return frame
        assert frame["method"] == method, frame
        guest.send(reply(frame, answer))


def value(plain: Any, *media: dict[str, Any]) -> dict[str, Any]:
    """The host's answer for a result."""
    return {"value": plain, "media": list(media)}


def echo(params: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters as the result."""
    return value(params)


INIT = '''"""A server."""

from coracle import offer

offer(__name__, {"echo": "Say it again.", "class_": "A name that Python keeps."})
'''

ECHO = '''from __future__ import annotations

from coracle import UNSET, arguments, tool


@tool("demo-server", "echo")
def echo(*, text: str, times: int = UNSET, class_: str = UNSET) -> str:
    """Say it again.

    Args:
        text: What to say.
    """
    return arguments({"text": text, "times": times, "class": class_})
'''

MORE = '''from coracle import arguments, tool


@tool("demo-server", "class")
def class_(**more):
    return arguments({}, more)
'''


def install(guest: Guest) -> None:
    """Install a server `demo` where the guest finds it."""
    import os

    folder = os.path.join(guest.servers, "demo")
    os.mkdir(folder)
    for name, text in (("__init__", INIT), ("echo", ECHO), ("class_", MORE)):
        with open(os.path.join(folder, name + ".py"), "w", encoding="utf-8") as file:
            file.write(text)
    with open(os.path.join(guest.servers, "__init__.py"), "w", encoding="utf-8"):
        pass
