"""The API for generated modules and for code."""

from collections.abc import Callable, Mapping
from typing import Any, Generic, Literal, NoReturn, ParamSpec, TypeVar

from coracle.media import MediaFile as MediaFile

_P = ParamSpec("_P")
_R = TypeVar("_R")

METHOD: str
SEARCH: str
CHECKPOINT: str
UNSET: Any

class ToolError(Exception):
    server: str
    tool: str
    code: str
    message: str
    retryable: bool
    def __init__(self, server: str, tool: str, code: str, message: str, retryable: bool = False) -> None: ...

class Tool(Generic[_P, _R]):
    """A tool: `list_issues(...)` waits for the result, `await list_issues.aio(...)` lets other tasks run meanwhile."""

    __name__: str
    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R: ...
    async def aio(self, *args: _P.args, **kwargs: _P.kwargs) -> _R: ...

def call(server: str, tool: str, arguments: Mapping[str, Any]) -> Any: ...
async def call_async(server: str, tool: str, arguments: Mapping[str, Any]) -> Any: ...
def search_tools(
    query: str = "",
    server: str | None = None,
    category: str | None = None,
    detail_level: Literal["name", "summary", "full", "python", "typescript"] = "summary",
    limit: int = 10,
) -> list[dict[str, Any]]: ...
async def search_tools_async(
    query: str = "",
    server: str | None = None,
    category: str | None = None,
    detail_level: Literal["name", "summary", "full", "python", "typescript"] = "summary",
    limit: int = 10,
) -> list[dict[str, Any]]: ...
def checkpoint(step: str, context: Any = None) -> None: ...

# The return value is for `tool` and never for callers of the function, for whom it does not return.
def arguments(named: Mapping[str, object], more: Mapping[str, object] | None = None) -> NoReturn: ...
def tool(server: str, name: str) -> Callable[[Callable[_P, _R]], Tool[_P, _R]]: ...
def offer(package: str, tools: Mapping[str, str]) -> None: ...
