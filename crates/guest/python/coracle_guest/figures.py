"""Saves figures as artifacts, because there is no screen to show them on.

Matplotlib figures are saved when the code ends, if they are still open. Plotly has no open figures: one is saved when
it is shown, or if it is the result of the code.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any, BinaryIO

ARTIFACTS = "/artifacts"

_RENDERERS = "plotly.io._renderers"
"""The module that defines how Plotly shows a figure."""


def save() -> None:
    """Save and close all open Matplotlib figures."""
    _attempt(_save_open)


def _save_open() -> None:
    pyplot = sys.modules["matplotlib.pyplot"]
    for number in pyplot.get_fignums():
        figure = pyplot.figure(number)
        with _new_file("png") as file:
            figure.savefig(file, format="png")
    pyplot.close("all")


def save_value(value: Any) -> None:
    """Save the result of the code, if it is a Plotly figure."""
    if type(value).__module__.startswith("plotly.") and hasattr(type(value), "to_html"):
        _attempt(lambda: _save_page(value))


def attend() -> None:
    """Make Plotly write a page for each figure that is shown, instead of opening a browser."""
    loaded = sys.modules.get(_RENDERERS)
    if loaded is not None:
        _attempt(lambda: _take_over(loaded))
    elif not any(type(finder) is _Finder for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


class _Finder:
    """Waits for Plotly to be imported."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != _RENDERERS:
            return None
        from importlib.machinery import PathFinder

        sys.meta_path.remove(self)
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                load(module)
                _attempt(lambda: _take_over(module))

            spec.loader.exec_module = exec_module
        return spec


def _take_over(module: Any) -> None:
    renderers = module.renderers
    if "coracle" not in renderers:

        class Renderer(module.ExternalRenderer):
            def render(self, figure: Any) -> None:
                _save_page(figure)

        renderers["coracle"] = Renderer()
        renderers.default = "coracle"


def _save_page(figure: Any) -> None:
    from plotly import io

    # Self-contained, because the viewer may have no network.
    page = io.to_html(figure, include_plotlyjs=True, full_html=True, validate=False)
    with _new_file("html") as file:
        file.write(page.encode())


def _attempt(act: Callable[[], None]) -> None:
    """Report a failure on stderr: the program itself did its work."""
    try:
        act()
    except BaseException as error:
        from coracle_guest import failure

        try:
            sys.stderr.write(f"cannot save a figure: {failure.message(error)}\n")
        except BaseException:
            # The code may have closed the stream.
            pass


def _new_file(ending: str) -> BinaryIO:
    """The next `figure_N` with this extension that does not exist yet."""
    number = 1
    while True:
        try:
            return open(os.path.join(ARTIFACTS, f"figure_{number}.{ending}"), "xb")
        except FileExistsError:
            number += 1
