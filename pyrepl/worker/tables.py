"""Frames and series of pandas as compact tables: the first and last rows and columns.

Who has set how pandas displays numbers or how many rows gets what pandas displays.
"""

from __future__ import annotations

from .frames import breakable
from .names import modules
from .variables import GROUPS, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

ROWS, COLUMNS = 5, 6  # at each end
CELL = 40  # characters
GAP = "\u2026"
DEPTH = 2  # of lists in a cell
PANDAS = {"display.max_rows": 60, "display.precision": 6, "display.float_format": None}


@breakable
def frame(value: Any) -> str | None:
    """Return a frame as a table, or None if pandas is to display it."""
    if chosen():
        return None
    rows, columns = value.shape
    if columns > 2 * COLUMNS:
        left, right = value.iloc[:, :COLUMNS], value.iloc[:, -COLUMNS:]
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
    """Return all rows, with their index."""
    return [[cell(each) for each in row] for row in part.itertuples(name=None)]


@breakable
def cell(value: Any) -> str:
    """Return a value in at most CELL characters, on one line."""
    kind = type(value)
    if kind is tuple:  # of an index of several levels
        shown = ", ".join([cell(each) for each in value])
    elif id(kind) in GROUPS:
        shown = text(value, DEPTH)
    elif kind is str:
        shown = value[:CELL + 1]
    elif issubclass(kind, float):
        shown = number(value)
    else:
        shown = str(value)[:CELL + 1]
    shown = "".join([c if c.isprintable() else " " for c in shown]).replace("|", "\\|")
    return shown if len(shown) <= CELL else shown[:CELL - 1] + GAP


def number(value: float) -> str:
    """Return a number with six decimals at most, and no more than it needs."""
    if 1e-4 <= abs(value) < 1e15:
        return ("%.6f" % value).rstrip("0").rstrip(".")
    return "%.10g" % value


def join(table: list[list[str]]) -> str:
    """Return the rows as text."""
    return "\n".join(["| %s |" % " | ".join(row) for row in table])
