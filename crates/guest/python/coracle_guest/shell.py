"""Runs bash code as a child process whose output goes directly to the host.

The state that a session keeps between bash runs (variables, functions, the directory) is in two files that the shell
writes when it exits; see `shell_state`.
"""

from __future__ import annotations

import os

from coracle_guest import channel, children, failure, relay, shell_state

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from coracle_guest.calls import Link

SHELLS = ("/bin/bash", "/usr/bin/bash")

ARGUMENT_BYTES = 100 * 1024
"""The maximum length of code as an argument, of which the kernel accepts up to 128 KiB. Longer code goes through a
file."""

_SYNTAX_STATUS = (1, 2)


def run(code: str, variables: dict[str, Any], link: Link) -> dict[str, Any]:
    """Run one script. Returns the fields of a `done` frame, without its `type` and `id`."""
    reason = _refusal(code, variables)
    if reason is not None:
        return _failed(failure.plain("exception", reason), 1)
    bash = next((path for path in SHELLS if os.access(path, os.X_OK)), None)
    if bash is None:
        return _failed(failure.plain("exception", "there is no bash in this sandbox"), 127)
    texts = {name: value if isinstance(value, str) else channel.dumps(value) for name, value in variables.items()}
    environment = dict(os.environ)
    state = shell_state.State()
    try:
        environment["BASH_ENV"] = state.write_prelude(texts)
    except OSError:
        # A full /tmp must not prevent anyone from running `rm`. This run neither sees nor keeps earlier variables.
        environment.update(texts)
    try:
        arguments = ["bash", "-c", *_arguments(code, state)]
        status = _serve(bash, arguments, environment, state, link)
        state.adopt()
        if status == 0:
            return {"ok": True, "exit_code": 0}
        return _failed(_explain(bash, code, state, status), status if status > 0 else 128 - status)
    except OSError as error:
        return _failed(failure.exception(error), 1)


def _refusal(code: str, variables: dict[str, Any]) -> str | None:
    if "\0" in code:
        return "bash code cannot contain null characters"
    for name, value in variables.items():
        if not (name.isascii() and name.isidentifier()):
            return f"the variable name {name[:100]!r} is not a valid name in bash"
        if name.startswith("__") and name.endswith("__"):
            return f"the variable name {name[:100]!r} is reserved: it begins and ends with two underscores"
        if isinstance(value, str) and "\0" in value:
            return f"the value of {name[:100]!r} contains a null character, which bash cannot hold"
    return None


def _arguments(code: str, state: shell_state.State) -> list[str]:
    """The arguments after `-c`, so that `$0` is always `bash`."""
    if len(code.encode("utf-8", "surrogateescape")) <= ARGUMENT_BYTES:
        return [code, "bash"]
    return [f'eval "$(<{shell_state.quote(state.write_code(code))})"', "bash"]


def _serve(bash: str, arguments: list[str], environment: dict[str, str], state: shell_state.State, link: Link) -> int:
    """Run to the end, with a relay for `tool`. Returns the exit status, or minus the signal."""
    try:
        opened = relay.Relay(link)
    except OSError:
        # No descriptor is left, and bash without `tool` is better than none.
        return os.waitstatus_to_exitcode(os.waitpid(children.spawn(bash, arguments, environment), 0)[1])
    try:
        try:
            opened.open_folder(state.relay_folder())
            environment[relay.VARIABLE] = state.relay_folder()
        except OSError:
            # A full /tmp again: `tool` reports that it cannot reach the host.
            pass
        return opened.wait(children.spawn(bash, arguments, environment))
    finally:
        opened.close()


def _is_wrong(bash: str, arguments: list[str]) -> bool:
    """Whether bash cannot parse the script."""
    silent = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_WRONLY, 0) for fd in (1, 2)]
    return os.waitpid(children.spawn(bash, ["bash", "-n", *arguments], dict(os.environ), silent), 0)[1] != 0


def _explain(bash: str, code: str, state: shell_state.State, status: int) -> dict[str, Any]:
    if status < 0:
        return failure.plain("exception", f"bash was killed by signal {children.signal_name(-status)}")
    if status in _SYNTAX_STATUS and _is_wrong(bash, _check(code, state)):
        return failure.plain("syntax", f"bash exited with status {status}: syntax error, see stderr")
    return failure.plain("exception", f"bash exited with status {status}")


def _check(code: str, state: shell_state.State) -> list[str]:
    if len(code.encode("utf-8", "surrogateescape")) <= ARGUMENT_BYTES:
        return ["-c", code]
    return [state.write_code(code)]


def _failed(error: dict[str, Any], status: int) -> dict[str, Any]:
    return {"ok": False, "exit_code": status, "error": error}
