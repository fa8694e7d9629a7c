"""Frames and series of pandas as compact tables: the first and last rows and columns.

Who has set how pandas displays numbers or how many rows gets what pandas displays.
"""

from __future__ import annotations

from sys import maxsize

from .frames import breakable
from .names import modules
from .variables import GROUPS, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

ROWS = 5  # rows shown at each end
COLUMNS = 12  # columns shown, unless user code has set display.max_columns
CELL = 40  # characters, unless user code has set display.max_colwidth
COLWIDTH = 50  # pandas' default of display.max_colwidth
CONTROLS = "\t\n\v\f\r\x1c\x1d\x1e\x1f\x85\u2028\u2029"  # str.isspace is true for them
JOINERS = "\u200c\u200d"  # they shape the characters beside them: emoji, Persian
HEXADECIMAL = frozenset("0123456789abcdefABCDEF")
DIGITS = {"x": 2, "u": 4, "U": 8}  # hex digits of the escapes that begin so
ESCAPE = 10  # characters of the longest escape
GAP = "\u2026"
DEPTH = 2  # nested lists that a cell shows
PANDAS = {"display.max_rows": 60, "display.precision": 6, "display.float_format": None}


@breakable
def frame(value: Any) -> str | None:
    """Return a frame as a table, or None if pandas is to display it."""
    if chosen():
        return None
    rows, columns = value.shape
    most = most_columns()
    if columns > most:
        left, right = value.iloc[:, :most - most // 2], value.iloc[:, columns - most // 2:]
        parts = [ends(left), ends(right)]
        heads = heading(left) + [GAP] + heading(right)
        lines = [one + [GAP] + two[1:] for one, two in zip(*parts)]
    else:
        heads, lines = heading(value), ends(value)
    names = [name for name in value.index.names if name is not None]
    table = [[cell(tuple(names)) if names else ""] + heads, ["---"] * (len(heads) + 1), *lines]
    return "%s\n[%d rows x %d columns]" % (join(table), rows, columns)


@breakable
def series(value: Any) -> str | None:
    """Return a series as a table of one column, or None if pandas is to display it."""
    if chosen():
        return None
    table = frame(value.to_frame("" if value.name is None else value.name))
    return None if table is None else "%s\n[%d rows]" % (table.rpartition("\n")[0], len(value))


@breakable
def chosen() -> bool:
    """Report whether user code has set what pandas displays."""
    get: Any = modules["pandas"].__dict__["get_option"]
    return any([get(name) != default for name, default in PANDAS.items()])


@breakable
def most_columns() -> int:
    """Return how many columns a table may have. To pandas 0 is the default, and None all."""
    most: Any = modules["pandas"].__dict__["get_option"]("display.max_columns")
    return maxsize if most is None else most or COLUMNS


@breakable
def heading(part: Any) -> list[str]:
    """Return names and types of columns."""
    return ["%s (%s)" % (cell(name), kind) for name, kind in zip(part.columns, part.dtypes)]


@breakable
def ends(part: Any) -> list[list[str]]:
    """Return the first and the last rows, with their index."""
    if len(part) <= 2 * ROWS:
        return rows_of(part)
    gap = [GAP] * (part.shape[1] + 1)
    return rows_of(part.iloc[:ROWS]) + [gap] + rows_of(part.iloc[-ROWS:])


@breakable
def rows_of(part: Any) -> list[list[str]]:
    """Return all rows, with their index. A lower display.max_colwidth is for the values only."""
    get: Any = modules["pandas"].__dict__["get_option"]
    width = get("display.max_colwidth")
    if width == COLWIDTH:
        width = CELL
    elif width is None:
        width = maxsize
    index = max(CELL, width)
    return [[cell(row[0], index)] + [cell(each, width) for each in row[1:]]
            for row in part.itertuples(name=None)]


@breakable
def cell(value: Any, width: int = CELL) -> str:
    """Return a value in at most width characters, on one line."""
    room = max(width, 1)
    pieces = [escaped(c) for c in plain(value, width)[:room + 1]]
    size = sum(map(len, pieces))
    if size <= room:
        return "".join(pieces)
    while size >= room:
        size -= len(pieces.pop())
    return "".join(pieces).rstrip(JOINERS) + GAP


@breakable
def plain(value: Any, width: int) -> str:
    """Return the text of a value. A long container is cut, unless user code wants wide cells."""
    kind = type(value)
    if kind is tuple:  # an index of several levels has tuples
        return ", ".join([plain(each, width) for each in value])
    if id(kind) in GROUPS and width <= CELL:
        return text(value, DEPTH)
    if issubclass(kind, float):
        return number(value)
    if issubclass(kind, str):
        return distinct(str(value)[:width + ESCAPE])
    return str(value)


def distinct(string: str) -> str:
    """Double the backslashes before what would read as an escape, or will be one."""
    first, *rest = string.split("\\")
    pieces, run = [first], 0
    for piece in rest:
        run += 1
        if piece:
            pieces += ["\\" * (run * 2 if resembles_escape(piece) else run), piece]
            run = 0
    return "".join(pieces) + "\\" * run


def resembles_escape(rest: str) -> bool:
    """Report whether a backslash before this text would make an escape of it."""
    size = DIGITS.get(rest[0], 0)
    if size:
        digits = rest[1:size + 1]
        return len(digits) == size and HEXADECIMAL.issuperset(digits)
    return rest[0] in "ntr" or escaped(rest[0]) != rest[0]


def escaped(c: str) -> str:
    """Return a character, or its escape if it would not be seen, or not in its place."""
    if c == "|":
        return "\\|"
    if c.isprintable() or c in JOINERS or c.isspace() and c not in CONTROLS:
        return c
    return repr(c)[1:-1]


def number(value: float) -> str:
    """Return a number with six decimals at most, and no more than it needs."""
    if 1e-4 <= abs(value) < 1e15:
        return ("%.6f" % value).rstrip("0").rstrip(".")
    return "%.10g" % value


def join(table: list[list[str]]) -> str:
    """Return the rows as text."""
    return "\n".join(["| %s |" % " | ".join(row) for row in table])
