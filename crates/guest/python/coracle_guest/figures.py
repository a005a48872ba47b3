"""Figures that the code has left open become artifacts, so that `plt.show()` has an effect where there is no screen."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import BinaryIO

ARTIFACTS = "/artifacts"


def save() -> None:
    """Save and close every open figure. A failure is a line on stderr: the program itself did its work."""
    try:
        pyplot = sys.modules["matplotlib.pyplot"]
        for number in pyplot.get_fignums():
            figure = pyplot.figure(number)
            with _new_file() as file:
                figure.savefig(file, format="png")
        pyplot.close("all")
    except BaseException as error:
        from coracle_guest import failure

        try:
            sys.stderr.write(f"could not save a figure: {failure.message(error)}\n")
        except BaseException:
            # The code may have closed the stream.
            pass


def _new_file() -> BinaryIO:
    """The next `figure_N.png` that is not there yet."""
    number = 1
    while True:
        try:
            return open(os.path.join(ARTIFACTS, f"figure_{number}.png"), "xb")
        except FileExistsError:
            number += 1
