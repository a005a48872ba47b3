"""Replaces the channel to the host outside a sandbox.

Modules written by `coracle tools generate` can be imported anywhere, for editors, type checkers and tests. A call fails
with an error that says where it would work.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn


class CallError(Exception):
    """A call that cannot be made."""

    def __init__(self, code: str, message: str, retryable: bool) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.retryable = retryable


def call(method: str, params: dict[str, Any]) -> NoReturn:
    """Refuse the call."""
    message = (
        "tools can only be called inside a Coracle sandbox; run this program with `coracle exec FILE`, "
        "or pass it to the `execute_code` tool of `coracle mcp`"
    )
    raise CallError("outside_sandbox", message, False)


async def call_async(method: str, params: dict[str, Any]) -> NoReturn:
    """Refuse the call."""
    call(method, params)
