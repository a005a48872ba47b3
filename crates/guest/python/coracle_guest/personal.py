"""Personal data: tokens such as `[EMAIL_3f9a1c0d5e7b2a64]` that stand for it.

Like `helpers`, these functions are added to the user's namespace by name (see `interpreter.PERSONAL`). The host has the
vault; tools get what tokens in their arguments stand for.
"""

from __future__ import annotations

from coracle import ToolError
from coracle_guest import calls


def tokenize_pii(text: str) -> str:
    """Return the text with tokens instead of the personal data in it."""
    return _ask("tokenize", text)


def detokenize_pii(text: str) -> str:
    """Return the text with what its tokens stand for. Refused where code must not see personal data."""
    return _ask("detokenize", text)


def _ask(act: str, text: str) -> str:
    if not isinstance(text, str):
        raise TypeError(f"{act}_pii takes a text, not {type(text).__name__}")
    try:
        answer: str = calls.call(f"pii.{act}", {"text": text})
    except calls.CallError as error:
        raise ToolError("coracle", f"{act}_pii", error.code, error.message, error.retryable) from None
    return answer
