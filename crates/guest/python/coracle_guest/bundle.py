"""All modules of a cold start in one file, because finding each of them takes longer than running it.

The file is written when the guest's files are installed (`write`), and loaded by a sandbox that was started for one
command. If it is missing, the modules are imported one by one.
"""

from __future__ import annotations

import sys
from _frozen_importlib import ModuleSpec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType, ModuleType
    from typing import Any


class Bundle:
    """Finds and loads the modules of the bundle. The rest of a package is found in its folder."""

    def __init__(self, parts: dict[str, tuple[str, CodeType]]) -> None:
        self._parts = parts

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Find a module, for the import system."""
        part = self._parts.get(name)
        if part is None:
            return None
        spec = ModuleSpec(name, self, origin=part[0])
        spec.has_location = True
        folder, _, file = part[0].rpartition("/")
        if file == "__init__.py":
            spec.submodule_search_locations = [folder]
        return spec

    def create_module(self, spec: ModuleSpec) -> None:
        """Create an ordinary module."""

    def exec_module(self, module: ModuleType) -> None:
        """Run a module."""
        exec(self._parts[module.__name__][1], module.__dict__)


def load(parts: dict[str, tuple[str, CodeType]]) -> None:
    """Import the modules of a cold start from the bundle."""
    bundle = Bundle(parts)
    sys.meta_path.insert(0, bundle)
    try:
        import coracle_guest.alone  # noqa: F401
    finally:
        sys.meta_path.remove(bundle)


def write(folder: str) -> None:
    """Bundle the modules of a cold start from the packages in `folder`, which will be mounted at `/coracle`."""
    import ast
    import marshal

    import coracle_guest.alone  # noqa: F401

    class Bare(ast.NodeTransformer):
        """Removes annotations, which are not used there and cost a little."""

        def visit_arg(self, node: ast.arg) -> ast.arg:
            node.annotation = None
            return node

        def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
            node.returns = None
            return self.generic_visit(node)

        def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
            node.returns = None
            return self.generic_visit(node)

        def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
            if node.value is None:
                return ast.copy_location(ast.Pass(), node)
            return ast.copy_location(ast.Assign([node.target], node.value), node)

        def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST:
            return ast.copy_location(ast.Pass(), node) if node.module == "__future__" else node

    parts = {}
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "coracle_guest" and module.__file__:
            with open(module.__file__, "rb") as file:
                tree = Bare().visit(ast.parse(file.read()))
            shown = "/coracle" + module.__file__[len(folder) :]
            # Docstrings are removed, too.
            code = compile(ast.fix_missing_locations(tree), shown, "exec", dont_inherit=True, optimize=2)
            parts[name] = shown, code
    with open(f"{folder}/bundle", "wb") as file:
        file.write(marshal.dumps((parts.pop(__name__)[1], parts)))
