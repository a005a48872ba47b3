"""Runs Python code in the only namespace of this process, and returns its outcome.

The namespace is that of a real `__main__` module, so that `pickle`, `dataclasses` and `typing` find the definitions of
the code. It lives as long as the process: a session is just several runs in it.
"""

from __future__ import annotations

import builtins
import posix
import sys
from _signal import SIG_BLOCK, SIG_SETMASK, pthread_sigmask, valid_signals
from _thread import _count

from coracle_guest import encode, program, sources, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType
    from typing import Any

    from coracle_guest.reserve import Reserve
    from coracle_guest.streams import Streams

HELPERS = frozenset(
    {
        "read_file",
        "write_file",
        "list_files",
        "delete_file",
        "filter_by_field",
        "summarize_list",
        "aggregate_stats",
        "format_output",
    }
)
"""Functions of `helpers` that code may use without importing them."""

HOST_HELPERS = frozenset({"checkpoint"})
"""Functions of `coracle` that code may use without importing them. They call the host."""
SKILLS = frozenset({"save_skill", "load_skill", "list_skills", "search_skills", "delete_skill", "get_skill"})
"""Functions of `saved` that code may use without importing them."""
PERSONAL = frozenset({"tokenize_pii", "detokenize_pii"})
"""Functions of `personal` that code may use without importing them."""

WORKSPACE = "workspace"
"""A variable that code may use without setting it: the path of the workspace."""

HELPER_MODULES = frozenset({"asyncio", "collections", "datetime", "json", "math", "re", "statistics"})
"""Modules that code may use without importing them."""

RESULT = "result"
_MISSING: Any = object()
# Created in advance, because there may be no memory left when it is needed.
_SIGNALS = tuple(valid_signals())


class Interpreter:
    """The user's Python. `streams` is `None` only for warming up, when nothing may be touched."""

    def __init__(self, streams: Streams | None, reserve: Reserve) -> None:
        self._streams = streams
        self._reserve = reserve
        self._module = type(sys)("__main__")
        self._module.__dict__["__builtins__"] = builtins
        self._pid = posix.getpid()
        self._runs = 0

    def adopt(self) -> None:
        """Belong to this process, which a process with the interpreter has forked."""
        self._pid = posix.getpid()

    def install(self) -> None:
        """Make our namespace the `__main__` of this process."""
        sys.modules["__main__"] = self._module
        sys.argv = [""]
        sources.watch_imports()

    def run(self, source: str, variables: dict[str, Any], result_bytes: int) -> dict[str, Any]:
        """Run one program. Returns the fields of a `done` frame, without its `type` and `id`."""
        self._runs += 1
        filename = sources.filename(self._runs)
        reason = _refusal(variables)
        if reason is not None:
            from coracle_guest import failure

            return _failed(failure.plain("exception", reason))
        if self._streams is not None:
            sources.register(filename, source)
        try:
            code = program.compile_source(source, filename)
        except program.Rejected as rejected:
            from coracle_guest import failure

            return _failed(failure.rejected(rejected.cause, len(source)))
        if self._streams is not None and program.defines(code):
            sources.last(filename)
        return self._run(code, variables, result_bytes)

    def _run(self, code: CodeType, variables: dict[str, Any], result_bytes: int) -> dict[str, Any]:
        namespace = self._module.__dict__
        namespace.update(variables)
        mentioned = program.names(code)
        earlier = _EarlierResult(namespace, RESULT in mentioned)
        error: BaseException | None = None
        try:
            _offer(namespace, mentioned)
            if "plotly" in sys.modules or any(name.startswith("plotly") for name in mentioned):
                from coracle_guest import figures

                figures.attend()
            _execute(code, namespace)
        except BaseException as raised:
            error = raised
            self._reserve.give_up()
        # The code may have forked, with a child that runs off the end of the program, as scripts do.
        if posix.getpid() != self._pid:
            self._end_child(error)
        self._settle()
        value = namespace.pop(program.VALUE, None)
        has_value = value is not None
        if earlier.replaced():
            value, has_value = namespace[RESULT], True
        if has_value and "plotly" in sys.modules:
            from coracle_guest import figures

            figures.save_value(value)
        return _answer(error, value, has_value, result_bytes)

    def _settle(self) -> None:
        """Finish what the code has begun, as at the end of a program."""
        if self._streams is None:
            return
        self._streams.flush()
        if _count() and "threading" in sys.modules:
            from coracle_guest import threads

            threads.wait()
        if "matplotlib.pyplot" in sys.modules:
            from coracle_guest import figures

            figures.save()

    def _end_child(self, error: BaseException | None) -> None:
        status = _exit_status(error)
        try:
            if error is not None and not issubclass(type(error), SystemExit):
                from coracle_guest import frames

                sys.stderr.write(frames.render(error) + "\n")
            if self._streams is not None:
                self._streams.flush()
        finally:
            posix._exit(status)


class _EarlierResult:
    """The variable `result` of an earlier run, which must stay readable but not count as the result of this run.

    If the code mentions the name, the value is moved to the builtins, where lookups find it. A value in the namespace
    after the run was therefore assigned by this run, even if it is the same object. The price: `del result` finds
    nothing to delete.
    """

    def __init__(self, namespace: dict[str, Any], mentioned: bool) -> None:
        self._namespace = namespace
        self._value = namespace.get(RESULT, _MISSING)
        self._hidden = mentioned and self._value is not _MISSING
        if self._hidden:
            builtins.__dict__[RESULT] = namespace.pop(RESULT)

    def replaced(self) -> bool:
        """Whether the run has assigned `result`. Restores the earlier value if not."""
        if not self._hidden:
            return self._namespace.get(RESULT, _MISSING) is not self._value and RESULT in self._namespace
        builtins.__dict__.pop(RESULT, None)
        if RESULT in self._namespace:
            return True
        self._namespace[RESULT] = self._value
        return False


def _refusal(variables: dict[str, Any]) -> str | None:
    """Why these variables cannot be set, if so."""
    if not variables:
        return None
    from keyword import iskeyword

    for name in variables:
        if not name.isidentifier() or iskeyword(name):
            return f"the variable name {name[:100]!r} is not a valid identifier"
        if name.startswith("__") and name.endswith("__"):
            return f"the variable name {name[:100]!r} is reserved: it begins and ends with two underscores"
    return None


def _offer(namespace: dict[str, Any], mentioned: set[str]) -> None:
    """Add the helpers that the code mentions to the namespace, unless the user has defined the name."""
    for name in mentioned & HELPERS:
        if name not in namespace:
            from coracle_guest import helpers

            namespace[name] = getattr(helpers, name)
    for name in mentioned & HOST_HELPERS:
        if name not in namespace:
            import coracle

            namespace[name] = getattr(coracle, name)
    for name in mentioned & SKILLS:
        if name not in namespace:
            from coracle_guest import saved

            namespace[name] = getattr(saved, name)
    for name in mentioned & PERSONAL:
        if name not in namespace:
            from coracle_guest import personal

            namespace[name] = getattr(personal, name)
    for name in mentioned & HELPER_MODULES:
        if name not in namespace:
            namespace[name] = __import__(name)
    if WORKSPACE in mentioned and WORKSPACE not in namespace:
        namespace[WORKSPACE] = "/workspace"
    # These are defined by the `site` module, which a sandbox may not load.
    for name in mentioned & {"exit", "quit"}:
        if name not in namespace and not hasattr(builtins, name):
            namespace[name] = sys.exit
    if "help" in mentioned and not hasattr(builtins, "help"):
        from _sitebuiltins import _Helper

        builtins.__dict__["help"] = _Helper()


def _execute(code: CodeType, namespace: dict[str, Any]) -> None:
    """Run the code. Signal handlers may run only here: one that raises elsewhere would break a frame."""
    try:
        pthread_sigmask(SIG_SETMASK, ())
        outcome = eval(code, namespace)
        if program.awaits(code):
            import asyncio

            asyncio.run(outcome)
    finally:
        pthread_sigmask(SIG_BLOCK, _SIGNALS)
        sys.settrace(None)
        sys.setprofile(None)


def _exit_status(error: BaseException | None) -> int:
    if error is None:
        return 0
    # By the real type, here and below, because asking a hostile object for its class would run its code.
    if not issubclass(type(error), SystemExit):
        return 1
    try:
        # One byte, as in the kernel.
        return 0 if error.code is None else int.__and__(error.code, 0xFF)
    except BaseException:
        return 1


def _answer(error: BaseException | None, value: Any, has_value: bool, result_bytes: int) -> dict[str, Any]:
    status = _exit_status(error)
    if error is not None and not (issubclass(type(error), SystemExit) and status == 0):
        return _failed(_explained(error), status)
    answer: dict[str, Any] = {"ok": True, "exit_code": 0}
    if has_value:
        try:
            answer["result"], truncated = encode.encode(value, result_bytes)
        except MemoryError as raised:
            return _failed(_explained(raised))
        if truncated:
            answer["result_truncated"] = True
    return answer


def _explained(error: BaseException) -> dict[str, Any]:
    """The `error` of the answer, even if there is little memory or the exception is hostile."""
    try:
        from coracle_guest import failure

        return failure.exception(error)
    except BaseException:
        code = "memory" if issubclass(type(error), MemoryError) else "exception"
        return {"code": code, "message": text.type_name(error), "traceback": ""}


def _failed(error: dict[str, Any], status: int = 1) -> dict[str, Any]:
    return {"ok": False, "exit_code": status, "error": error}
