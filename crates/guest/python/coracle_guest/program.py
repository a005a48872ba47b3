"""Compiles source text to one code object that also keeps the value of its last expression.

The text is parsed once. If its last statement is an expression, that becomes an assignment to a hidden name, so that
there is a single code object: with top-level `await`, two would mean two event loops.
"""

from __future__ import annotations

import _ast

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType

VALUE = "__coracle_value__"
"""The hidden name that gets the value of the last expression."""

SPLIT_LIMIT = 1024 * 1024
"""Longer source is compiled unchanged and has no last expression: its syntax tree could exceed the memory limit."""

_CO_COROUTINE = 0x80
_TREE = _ast.PyCF_ONLY_AST | _ast.PyCF_ALLOW_TOP_LEVEL_AWAIT


class Rejected(Exception):
    """The source does not compile. `cause` is the compiler's error."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__(str(cause))
        self.cause = cause


def compile_source(source: str, filename: str) -> CodeType:
    """Compile the source. Raises `Rejected` if it cannot be run."""
    try:
        # dont_inherit: the __future__ imports of this file must not apply to user code.
        if len(source) > SPLIT_LIMIT:
            return compile(source, filename, "exec", _ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
        tree = compile(source, filename, "exec", _TREE, dont_inherit=True)
        if tree.body and isinstance(tree.body[-1], _ast.Expr):
            tree.body[-1] = _keep_value(tree.body[-1])
        return compile(tree, filename, "exec", _ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    except Exception as error:
        raise Rejected(error) from None


def _keep_value(statement: _ast.Expr) -> _ast.Assign:
    place = {
        "lineno": statement.lineno,
        "col_offset": statement.col_offset,
        "end_lineno": statement.end_lineno,
        "end_col_offset": statement.end_col_offset,
    }
    target = _ast.Name(id=VALUE, ctx=_ast.Store(), **place)
    return _ast.Assign(targets=[target], value=statement.value, **place)


def awaits(code: CodeType) -> bool:
    """Whether the code has a top-level `await`, so that running it returns a coroutine."""
    return bool(code.co_flags & _CO_COROUTINE)


def defines(code: CodeType) -> bool:
    """Whether the code contains a function or a class, so that parts of it may run after it has ended."""
    inner = (const for const in code.co_consts if type(const) is type(code))
    # A comprehension ends with the code.
    return any(not part.co_name.startswith("<") or part.co_name == "<lambda>" or defines(part) for part in inner)


def names(code: CodeType) -> set[str]:
    """All global and attribute names in the code and its functions."""
    found: set[str] = set()
    pending = [code]
    while pending:
        code = pending.pop()
        found.update(code.co_names)
        pending.extend(const for const in code.co_consts if type(const) is type(code))
    return found
