"""Describes a failure of user code: a stable code, a message, the user's own frames, and a hint if there is one.

Loaded only after a failure.
"""

from __future__ import annotations

import errno
import os
import sys

from coracle_guest import paths, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterator

MESSAGE_BYTES = 8 * 1024
_CHAIN_LIMIT = 32
_LONG_SOURCE = 1024 * 1024

HINTS = {
    "memory": "a limit of this sandbox: memory; work on smaller pieces, or raise the memory limit",
    "processes": "a limit of this sandbox: processes and threads; start fewer at once, or raise the process limit",
    "files": "a limit of this sandbox: open files; close those not in use, or raise the limit of open files",
    "disk": "a limit of this sandbox: disk space or file size; delete what is not needed, or raise the quota",
    "output": "a limit of this sandbox: output; print less and write the rest to a file, or raise the output limit",
    "network": "network is off in this sandbox",
}

ROUTES = ("/proc/net/route", "/proc/net/ipv6_route")
"""The kernel's lists of routes in this network namespace."""

_SHOWN_SERVERS = 20
"""The maximum number of names in the error about a server that does not exist."""

_DISK = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_UNREACHABLE = {errno.ENETUNREACH, errno.ENETDOWN, errno.EHOSTUNREACH}
_STARTERS = {"fork", "forkpty", "posix_spawn", "posix_spawnp", "fork_exec", "_fork_exec", "start_new_thread"}


def exception(error: BaseException) -> dict[str, Any]:
    """The `error` of a `done` frame for an exception of the user's code."""
    from coracle_guest import frames

    try:
        code = _code(error)
        hint = HINTS.get(code)
        if hint is None and _is_network(error):
            hint = HINTS["network"]
        if hint is None and isinstance(error, ImportError):
            hint = _missing(error)
    except Exception:
        # The attributes of an exception class may do anything.
        code, hint = "exception", None
    return _error(code, message(error), frames.render(error), hint)


def _missing(error: ImportError) -> str | None:
    """A suggestion for code that imports a server or a tool which does not exist."""
    from difflib import get_close_matches

    package, _, name = (error.name or "").partition(".")
    servers = sys.modules.get("servers")
    if package == "skills" and name and isinstance(error, ModuleNotFoundError):
        return _no_skill(name)
    if package != "servers" or servers is None:
        return _not_installed(package) if isinstance(error, ModuleNotFoundError) and not name else None
    server, _, tool = name.partition(".")
    quoted = str(error).split("'")
    if f"servers.{server}" in sys.modules:
        try:
            getattr(sys.modules[f"servers.{server}"], tool or quoted[1])
        except AttributeError as told:
            return text.cap(str(told), MESSAGE_BYTES)
        return None
    name = server or quoted[1]
    there = sorted(entry for place in servers.__path__ for entry in os.listdir(place) if "." not in entry)
    close = get_close_matches(name, there, 3, 0.5)
    if close:
        mean = f"did you mean {', '.join(close)}?"
    elif there:
        mean = f"there are: {', '.join(there[:_SHOWN_SERVERS])}"
    else:
        mean = "none are configured: on the host, `coracle servers add` adds one"
    return text.cap(f"there is no server {name!r}; {mean}", MESSAGE_BYTES)


def _no_skill(name: str) -> str | None:
    """Skills that are similar to one that does not exist, or some of them."""
    from difflib import get_close_matches

    try:
        there = sorted(entry[:-3] for entry in os.listdir("/coracle/skills") if entry.endswith(".py") and entry[0] != "_")
    except OSError:
        there = []
    close = get_close_matches(name, there, 3, 0.5)
    if close:
        mean = f"did you mean {', '.join(close)}?"
    elif there:
        mean = f"there are: {', '.join(there[:_SHOWN_SERVERS])}"
    else:
        mean = "none are saved: save_skill(name, code) saves one"
    return text.cap(f"there is no skill {name!r}; {mean}", MESSAGE_BYTES)


def _not_installed(module: str) -> str | None:
    """How to install a module. Only well-known packages are named: a suggested name may be installed, and someone else
    may have registered it."""
    if not module or module in sys.stdlib_module_names or _belongs_to_the_user(module):
        return None
    from coracle_guest import known

    package = known.PACKAGES.get(module)
    if package is None:
        hint = f"{module!r} is not installed; on the host, `coracle env list` shows what is, and `coracle env add` adds"
        return text.cap(hint, MESSAGE_BYTES)
    command = "sync" if package in known.USUAL and paths.ENVIRONMENT not in sys.path else f"add {package}"
    return f"{package} is not installed in the sandboxes; on the host, `coracle env {command}` installs it"


def _belongs_to_the_user(module: str) -> bool:
    """Whether the module belongs to the user's workspace: it is missing, and not on any index."""
    return module in ("skills", "coracle", "tools")


def rejected(error: BaseException, length: int) -> dict[str, Any]:
    """The `error` for code of this length that does not compile."""
    from coracle_guest import frames

    if isinstance(error, (MemoryError, RecursionError)):
        # The parser also reports this for expressions that are nested too deeply. It is true only for long code.
        if length > _LONG_SOURCE:
            return _error("memory", message(error), "", HINTS["memory"])
        return _error("syntax", "SyntaxError: the code is nested too deeply", "", None)
    if not isinstance(error, SyntaxError):
        return _error("syntax", f"SyntaxError: {error}", "", None)
    place = f"line {error.lineno}"
    if error.offset:
        place += f", column {error.offset}"
    name = text.type_name(error)
    return _error("syntax", text.cap(f"{name}: {error.msg} ({place})", MESSAGE_BYTES), frames.render(error), None)


def plain(code: str, message: str) -> dict[str, Any]:
    """An `error` without an exception."""
    return _error(code, text.cap(message, MESSAGE_BYTES), "", HINTS.get(code))


def message(error: BaseException) -> str:
    """`TypeName: text`, as in the last line of a traceback."""
    name = text.type_name(error)
    try:
        words = str(error)
    except BaseException as broken:
        words = f"<its str raised {text.type_name(broken)}>"
    return text.cap(f"{name}: {words}" if words else name, MESSAGE_BYTES)


def _error(code: str, message: str, traceback: str, hint: str | None) -> dict[str, Any]:
    error = {"code": code, "message": message, "traceback": traceback}
    if hint is not None:
        error["hint"] = hint
    return error


def _code(error: BaseException) -> str:
    # Only the exception and its explicit causes: an error that was handled on the way is not the reason.
    for link in _causes(error):
        code = _limit(link)
        if code is not None:
            return code
    return "exception"


def _limit(error: BaseException) -> str | None:
    if isinstance(error, MemoryError):
        return "memory"
    if isinstance(error, RuntimeError) and "can't start new thread" in str(error.args[:1]):
        return "processes"
    if not isinstance(error, OSError):
        return None
    if error.errno in _DISK:
        return "disk"
    if error.errno == errno.EMFILE:
        return "files"
    if error.errno == errno.ENOMEM:
        return "memory"
    if error.errno == errno.EAGAIN and _starts_process(error):
        return "processes"
    if error.errno == errno.EPIPE and _output_is_closed():
        return "output"
    return None


def _causes(error: BaseException) -> Iterator[BaseException]:
    link: BaseException | None = error
    for _ in range(_CHAIN_LIMIT):
        if link is None:
            return
        yield link
        link = link.__cause__


def _starts_process(error: BaseException) -> bool:
    """Whether this came from starting a process, rather than from a descriptor that would block: both are EAGAIN."""
    last = None
    trace = error.__traceback__
    while trace is not None:
        last = trace.tb_frame.f_code
        trace = trace.tb_next
    return last is not None and not _STARTERS.isdisjoint(last.co_names)


def _output_is_closed() -> bool:
    """Whether the host has stopped reading our output, which it does when there was too much of it."""
    import select

    poll = select.poll()
    for fd in (1, 2):
        poll.register(fd, 0)
    return any(event & select.POLLERR for _, event in poll.poll(0))


def _is_network(error: BaseException) -> bool:
    """Whether the reason, however wrapped, is that there is no network here."""
    network = sys.modules.get("coracle_guest.network")
    if network is not None and network.is_on():
        return False
    pending: list[Any] = [error]
    seen: set[int] = set()
    while pending and len(seen) < _CHAIN_LIMIT:
        link = pending.pop()
        if not isinstance(link, BaseException) or id(link) in seen:
            continue
        seen.add(id(link))
        if isinstance(link, PermissionError) and _in_socket_code(link):
            return True
        if isinstance(link, OSError) and (link.errno in _UNREACHABLE or _is_name_error(link)):
            return not _has_route()
        # `reason` is where urllib stores the error that it wraps.
        pending += (link.__cause__, link.__context__, getattr(link, "reason", None))
        pending += getattr(link, "exceptions", ())
    return False


def _is_name_error(error: OSError) -> bool:
    socket = sys.modules.get("_socket")
    return socket is not None and isinstance(error, socket.gaierror)


def _in_socket_code(error: BaseException) -> bool:
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if code.co_filename.endswith(("/socket.py", "/asyncio/selector_events.py", "/asyncio/base_events.py")):
            return True
        trace = trace.tb_next
    return False


def _has_route() -> bool:
    """Whether other machines can be reached: then a host that is not found does not exist."""
    for path in ROUTES:
        try:
            with open(path, encoding="ascii") as lines:
                for line in lines:
                    columns = line.split()
                    device = columns[0] if len(columns) == 11 else columns[-1]
                    if columns[0] != "Iface" and device != "lo":
                        return True
        except (OSError, IndexError, ValueError):
            continue
    return False
