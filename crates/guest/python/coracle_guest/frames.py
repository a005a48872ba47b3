"""Formats tracebacks for users: their own frames, and the place in a library where the error occurred.

Every line of a traceback costs a model tokens, so only the last library frame is kept, and only if it comes after the
user's last frame. Frames of this package, of `coracle` and of generated modules are never shown. Chained errors keep
their chain.
"""

from __future__ import annotations

import os

from coracle_guest import sources, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

TRACEBACK_BYTES = 16 * 1024

USER_ROOTS = ("/workspace", "/coracle/skills", "/skills", "/tools")
"""Folders whose modules belong to the user, like the code itself."""

GENERATED = ("/coracle/servers",)
"""Folders of modules that only forward calls."""

_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_OWN = (os.path.join(_HERE, "coracle_guest", ""), os.path.join(_HERE, "coracle", ""))
_DYNAMIC = ("<string>", "<stdin>")


def render(error: BaseException) -> str:
    """The traceback as text. Empty if formatting fails, which must not hide the error itself."""
    try:
        import traceback

        sources.show_all()
        shown = traceback.TracebackException(type(error), error, error.__traceback__, compact=True)
        _trim(shown)
        return text.cap("".join(shown.format()).rstrip("\n"), TRACEBACK_BYTES)
    except BaseException:
        return ""


def _trim(shown: Any) -> None:
    """Remove frames, here and in all chained errors."""
    pending = [shown]
    done: set[int] = set()
    while pending:
        part = pending.pop()
        if part is None or id(part) in done:
            continue
        done.add(id(part))
        if part.stack is not None:
            part.stack[:] = _kept(part.stack)
        pending += (part.__cause__, part.__context__)
        pending += getattr(part, "exceptions", None) or ()


def _kept(stack: list[Any]) -> list[Any]:
    kept = []
    library = None
    for frame in stack:
        if frame.filename.startswith(_OWN) or any(frame.filename.startswith(root + "/") for root in GENERATED):
            continue
        if _is_users(frame.filename):
            kept.append(frame)
            library = None
        else:
            library = frame
    if library is not None:
        kept.append(library)
    return kept


def _is_users(name: str) -> bool:
    if sources.is_code(name) or name in _DYNAMIC:
        return True
    return any(name.startswith(root + "/") for root in USER_ROOTS)
