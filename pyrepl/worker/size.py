"""COLUMNS and LINES: the size of the terminal, for the session's own process.

Its output goes to pipes, so that libraries would lay out their text for 80 columns. os.environ has
the two variables as long as nobody sets them, but neither lists nor copies them, and the C library
does not know them: a child can have another terminal, and would believe them.
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
    """What os.environ and os.environb read and write."""

    deleted: tuple[bytes, ...] = ()  # of ours, by user code
    last: tuple[int, ...] = (0, 0)  # the size when there was a terminal

    def __missing__(self, name: bytes) -> bytes:
        """Return the size of the terminal on descriptor 0, which a fork can have replaced.

        While there is none, as under pytest, which captures output, it is the last one's."""
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


def install() -> None:
    """Put the variables in place."""
    names: Any = os.environ
    names._data = os.environb.__dict__["_data"] = Environment(names._data)
    names.get("COLUMNS")  # notes the size
