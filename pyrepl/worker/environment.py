"""COLUMNS and LINES: the size of the terminal, for the session's own process.

Its output goes to pipes, so libraries would lay out their text for 80 columns. If user code has not
set the two variables, os.environ finds them, but neither lists nor copies them, and the C library
does not have them: a child, which can have another terminal, does not get them.
"""

from __future__ import annotations

import os
from posix import get_terminal_size

from .frames import breakable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Variables = dict[bytes, bytes]
else:
    Variables = dict

NAMES = [b"COLUMNS", b"LINES"]


@breakable
class Environment(Variables):
    """The dictionary that os.environ and os.environb read and write."""

    deleted: tuple[bytes, ...] = ()  # variables of NAMES that user code has deleted
    last: tuple[int, ...] = (0, 0)  # columns and lines of the last terminal

    def __missing__(self, name: bytes) -> bytes:
        """Return the size of the terminal on descriptor 0, which a fork can have replaced.

        If descriptor 0 is no terminal, as under pytest, which captures output, return the last
        known size."""
        if name in NAMES and name not in self.deleted:
            try:
                self.last = get_terminal_size(0)
            except OSError:
                pass
            size = self.last[NAMES.index(name)]
            if size:
                return b"%d" % size
        raise KeyError(name)

    def __delitem__(self, name: bytes) -> None:
        if name in NAMES and name not in self:
            self.deleted += (name,)
        else:
            dict.__delitem__(self, name)


def install_size() -> None:
    """Have os.environ and os.environb find the size of the terminal."""
    environ: Any = os.environ
    environ._data = os.environb.__dict__["_data"] = Environment(environ._data)
    environ.get("COLUMNS")  # sets `last`
