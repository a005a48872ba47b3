"""Tools of MCP servers, from inside a sandbox.

Code imports them from `servers`, whose modules are generated and use this package. To call a tool directly:
`call("github", "list_issues", {"owner": "x"})`, `await call_async(...)`. A call that fails raises `ToolError`. To find
tools: `search_tools("send a message")`, `await search_tools_async(...)`. To record progress: `checkpoint("loaded")`.

The types are in `__init__.pyi`, which is not loaded at run time.
"""

from __future__ import annotations

import sys

try:
    from coracle_guest import calls
except ModuleNotFoundError:
    # Written by `coracle tools generate`, outside a sandbox.
    from coracle import outside as calls

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "UNSET",
    "MediaFile",
    "ToolError",
    "arguments",
    "call",
    "call_async",
    "checkpoint",
    "offer",
    "search_tools",
    "search_tools_async",
    "tool",
]

METHOD = "tool"
"""The host's method for calling a tool."""

SEARCH = "search"
"""The host's method for searching tools."""

CHECKPOINT = "checkpoint"
"""The host's method for checkpoints."""


class ToolError(Exception):
    """A tool call failed. `retryable` says whether the same call may succeed later."""

    def __init__(self, server: str, tool: str, code: str, message: str, retryable: bool = False) -> None:
        super().__init__(server, tool, code, message, retryable)
        self.server = server
        self.tool = tool
        self.code = code
        self.message = message
        self.retryable = retryable

    def __str__(self) -> str:
        again = "; may be tried again" if self.retryable else ""
        return f"{self.server}.{self.tool}: {self.message} ({self.code}{again})"


class _Unset:
    """The default of an argument that is not sent: the server uses its own default."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "UNSET"

    def __bool__(self) -> bool:
        return False


UNSET: Any = _Unset()


def call(server: str, tool: str, arguments: dict[str, Any]) -> Any:
    """Call a tool by its names on the wire and wait for its result."""
    try:
        try:
            reply = calls.call(METHOD, {"server": server, "tool": tool, "arguments": arguments})
        except (TypeError, ValueError):
            reply = calls.call(METHOD, {"server": server, "tool": tool, "arguments": _plain(server, tool, arguments)})
    except calls.CallError as error:
        raise _failure(server, tool, error) from None
    return _value(server, tool, reply)


async def call_async(server: str, tool: str, arguments: dict[str, Any]) -> Any:
    """Like `call`, for a task of an event loop."""
    try:
        try:
            reply = await calls.call_async(METHOD, {"server": server, "tool": tool, "arguments": arguments})
        except (TypeError, ValueError):
            plain = _plain(server, tool, arguments)
            reply = await calls.call_async(METHOD, {"server": server, "tool": tool, "arguments": plain})
    except calls.CallError as error:
        raise _failure(server, tool, error) from None
    return _value(server, tool, reply)


def search_tools(
    query: str = "",
    server: str | None = None,
    category: str | None = None,
    detail_level: str = "summary",
    limit: int = 10,
) -> list[dict[str, Any]]:
    """Find tools by what they do, best first; without a query, any tools. Returns dicts with `name` and `summary`: a
    tool with the name `github.list_issues` is imported by `from servers.github import list_issues`.

    `detail_level` is name, summary, full, python or typescript; `limit` is at most 100.
    """
    try:
        return calls.call(SEARCH, _search(query, server, category, detail_level, limit))  # type: ignore[no-any-return]
    except calls.CallError as error:
        raise _failure("coracle", "search_tools", error) from None


async def search_tools_async(
    query: str = "",
    server: str | None = None,
    category: str | None = None,
    detail_level: str = "summary",
    limit: int = 10,
) -> list[dict[str, Any]]:
    """Like `search_tools`, for a task of an event loop."""
    try:
        params = _search(query, server, category, detail_level, limit)
        return await calls.call_async(SEARCH, params)  # type: ignore[no-any-return]
    except calls.CallError as error:
        raise _failure("coracle", "search_tools", error) from None


def checkpoint(step: str, context: Any = None) -> None:
    """Record progress in the log of the session, with information for the next program (JSON).

    When it returns, the checkpoint is on the disk. Requires a session.
    """
    try:
        try:
            calls.call(CHECKPOINT, {"step": step, "context": context})
        except (TypeError, ValueError):
            calls.call(CHECKPOINT, _plain("coracle", "checkpoint", {"step": step, "context": context}))
    except calls.CallError as error:
        raise _failure("coracle", "checkpoint", error) from None


def _search(query: Any, server: Any, category: Any, detail_level: Any, limit: Any) -> dict[str, Any]:
    named = {"query": query, "server": server, "category": category, "detail_level": detail_level, "limit": limit}
    return {name: value for name, value in named.items() if value is not None}


def _failure(server: str, tool: str, error: calls.CallError) -> ToolError:
    return ToolError(server, tool, error.code, error.message, error.retryable)


def _plain(server: str, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Convert arguments such as dates and paths, which have no obvious JSON form."""
    from coracle_guest import channel

    from coracle import plain

    try:
        converted = plain.convert(arguments)
        channel.frame({"type": "call", "arguments": converted})
        return converted
    except (TypeError, ValueError, RecursionError) as error:
        raise ToolError(server, tool, "invalid_arguments", str(error), False) from None


def _value(server: str, tool: str, reply: Any) -> Any:
    if not reply["media"]:
        return reply["value"]
    from coracle import media

    try:
        return media.restore(reply["value"], reply["media"])
    except ValueError as error:
        raise ToolError(server, tool, "invalid_result", f"media that is not base64: {error}", False) from None


def arguments(named: dict[str, Any], more: dict[str, Any] | None = None) -> dict[str, Any]:
    """The given arguments, by their names on the wire. For generated modules."""
    given = dict(more) if more else {}
    for name, value in named.items():
        if value is not UNSET:
            given[name] = value
    return given


def tool(server: str, name: str) -> Any:
    """Turn a function that returns `arguments(...)` into one that calls the tool. For generated modules."""

    def wrap(function: Any) -> Any:
        def run(*positional: Any, **named: Any) -> Any:
            if positional:
                raise _positional(function)
            return call(server, name, _named(function, named))

        async def aio(*positional: Any, **named: Any) -> Any:
            if positional:
                raise _positional(function)
            return await call_async(server, name, _named(function, named))

        for wrapper in (run, aio):
            wrapper.__module__ = function.__module__
            wrapper.__doc__ = function.__doc__
            wrapper.__name__ = wrapper.__qualname__ = function.__name__
            wrapper.__wrapped__ = function
        run.aio = aio
        return run

    return wrap


def _named(function: Any, named: dict[str, Any]) -> dict[str, Any]:
    """Call the function. The error for an unknown argument suggests the one that was probably meant."""
    try:
        return function(**named)  # type: ignore[no-any-return]
    except TypeError:
        known = _parameters(function)
        unknown = [name for name in named if name not in known]
        if not unknown or function.__code__.co_flags & _TAKES_MORE:
            raise
    from difflib import get_close_matches

    close = get_close_matches(unknown[0], known, 1, 0.5)
    mean = f"did you mean {close[0]!r}?" if close else f"it takes {', '.join(known)}" if known else "it takes none"
    raise TypeError(f"{function.__name__}() has no argument {unknown[0]!r}; {mean}")


_TAKES_MORE = 0x08
"""The flag of a function with `**more`, which accepts every name."""


def _parameters(function: Any) -> tuple[str, ...]:
    code = function.__code__
    names: tuple[str, ...] = code.co_varnames[: code.co_kwonlyargcount]
    return names


def _positional(function: Any) -> TypeError:
    names = ", ".join(f"{name}=…" for name in _parameters(function))
    return TypeError(f"{function.__name__}() takes its arguments by name: {function.__name__}({names})")


class _Package(type(sys)):
    """The package of a server, which loads a tool on first use.

    The tool `x` is in the module `x` of the package. Importing that module would make Python set the attribute `x` of
    the package to the module; here it stays the tool.
    """

    def __getattr__(self, name: str) -> Any:
        tools = self.__dict__.get("__tools__", {})
        if name in tools:
            __import__(f"{self.__name__}.{name}")
            return self.__dict__[name]
        if name.startswith("__"):
            raise AttributeError(name)
        from difflib import get_close_matches

        close = get_close_matches(name, tools, 3, 0.5)
        mean = f"; did you mean {', '.join(close)}?" if close else ""
        raise AttributeError(f"there is no tool {name!r} in {self.__name__}{mean}")

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.__dict__.get("__tools__", {}) and isinstance(value, type(sys)):
            value = value.__dict__.get(name, value)
        super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*self.__dict__, *self.__dict__.get("__tools__", {})})


def offer(package: str, tools: dict[str, str]) -> None:
    """Make a package offer its tools, each with a one-line summary. For generated modules."""
    module = sys.modules[package]
    module.__dict__["__tools__"] = tools
    module.__dict__["__all__"] = list(tools)
    module.__class__ = _Package


def __getattr__(name: str) -> Any:
    if name == "MediaFile":
        from coracle.media import MediaFile

        return MediaFile
    raise AttributeError(f"module 'coracle' has no attribute {name!r}")
