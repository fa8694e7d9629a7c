"""Answer requests about the namespace: get, set and delete variables, inspect, complete.

Each is a job, because it can run user code: a __repr__, a property, a finalizer. An interrupt may
leave the functions here at any point.
"""

from __future__ import annotations

import builtins
import sys
from _ast import Expression, Name, PyCF_ONLY_AST

from .frames import breakable
from .names import Refused, shown
from .shapes import bases_of, library_of, name_of
from .variables import describe, listed, missing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from .names import Names
    from .protocols import Fields
    from .session import Session

KEPT = 1 << 20  # characters of an answer in JSON, which would be none if it were cut
LONGEST = 1000  # characters of a name that can be set


@breakable
def answer(request: Fields, file: str, session: Session, value: Callable[[], Any]) -> str | None:
    """Answer a request with a text or a picture, or raise Refused, which says why that fails.

    The source of some requests is an expression: value returns its value."""
    do, names, source = request["do"], session.names, session.sources.texts[file]
    if do == "set":
        return assign(names, request["name"], request["value"])
    if do == "delete":
        return delete_all(names) if request.get("all") else delete(names, request["names"])
    if do == "complete":
        from .completion import completions
        return completions(names.namespace, source, request["at"])
    found = evaluate(names, file, value)
    if do == "inspect":
        from .details import details
        return details(found, session.sources, bool(request.get("source")))
    form = request.get("format")
    if form == "json":
        return in_json(found)
    if form == "image":
        if not session.displays().picture(found):
            raise Refused("there is no picture of an object of type %s; format=text shows its repr"
                          % shown(name_of(type(found))))
        return None
    text = repr(found)
    return text if type(text) is str else str.__str__(text)


@breakable
def evaluate(names: Names, file: str, value: Callable[[], Any]) -> Any:
    """Return the value of the expression in file. If it names no variable, say which are near."""
    try:
        return value()
    except NameError as error:
        code, trace = None, error.__traceback__
        while trace is not None:
            code, trace = trace.tb_frame.f_code, trace.tb_next
        parts = str(error).split("'")
        if code is None or code.co_filename != file or len(parts) != 3:
            raise
        raise Refused(missing([parts[1]], names.namespace, builtins.__dict__))


@breakable
def in_json(value: object) -> str:
    """Return a value in JSON."""
    try:
        text = encoded(value, False)
        if text.isascii() or is_utf8(text):
            return text
        return encoded(value, True)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise Refused("there is no JSON for it: %s; format=text shows its repr" % error)


@breakable
def encoded(value: object, ascii: bool) -> str:
    """Encode a value piece by piece, so that an endless one ends."""
    from json import JSONEncoder
    pieces: list[str] = []
    size = 0
    encoder = JSONEncoder(ensure_ascii=ascii, allow_nan=False, default=plain)
    for piece in encoder.iterencode(value):
        size += len(piece)
        check(size)
        pieces.append(piece)
    return "".join(pieces)


def check(size: int) -> None:
    """Refuse an answer in JSON that is too long."""
    if size > KEPT:
        raise Refused("its JSON is longer than %s characters: get a part of it"
                      % format(KEPT, ","))


def is_utf8(text: str) -> bool:
    """Report whether a text has no half of a surrogate pair."""
    try:
        return bool(text.encode())
    except UnicodeError:
        return False


@breakable
def plain(value: Any) -> Any:
    """Convert a time, or a value of numpy, pandas, polars or pyarrow, to one that json can write."""
    kind = type(value)
    library = library_of(kind)
    if library == "numpy":
        check(value.size)
        return value.tolist()
    if library == "pandas" and any([name_of(each) == "NDFrame" for each in bases_of(kind)]):
        check(value.size)
        return split(value)
    if library == "polars" and name_of(kind) in ("DataFrame", "Series"):
        if name_of(kind) == "Series":
            check(value.len())
            return {"name": value.name, "data": without_nan(value.to_list())}
        check(value.height * value.width)
        return rows(value.columns, [each.to_list() for each in value.get_columns()])
    if library == "pyarrow" and name_of(kind) in ("Table", "RecordBatch"):
        check(value.num_rows * value.num_columns)
        return rows(value.schema.names, [each.to_pylist() for each in value.columns])
    if library in ("pandas", "datetime") and hasattr(kind, "isoformat"):
        return value.isoformat() if value == value else None  # NaT equals nothing
    if library == "pandas" and name_of(kind) in ("Interval", "Period"):
        return str(value)
    raise TypeError("an object of type %s is not JSON serializable" % name_of(kind))


@breakable
def split(value: Any) -> Fields:
    """Return a frame or series in the form split of pandas' to_json, with every digit."""
    def cells(column: Any) -> list[Any]:
        found: list[Any] = column.tolist()
        return [None if gone else each for each, gone in zip(found, column.isna().tolist())]

    index = cells(value.index.to_series())
    if value.ndim == 1:
        return {"name": value.name, "index": index, "data": cells(value)}
    columns = [cells(value.iloc[:, i]) for i in range(value.shape[1])]
    return {"columns": value.columns.tolist(), "index": index,
            "data": list(zip(*columns)) if columns else [[] for _ in index]}


@breakable
def rows(names: list[str], columns: list[list[Any]]) -> Fields:
    """Return a table without an index in the form split."""
    return {"columns": names, "data": list(zip(*map(without_nan, columns)))}


@breakable
def without_nan(cells: list[Any]) -> list[Any]:
    """Return cells with None for NaN, for which JSON has no word."""
    return [None if issubclass(type(each), float) and each != each else each for each in cells]


@breakable
def assign(names: Names, name: str, text: str) -> str:
    """Set a variable to the value of a JSON text, and show it."""
    from json import loads
    name = identifier(names, name)
    try:
        value = loads(text)
    except (ValueError, RecursionError) as error:
        raise Refused("the value can't be read: %s" % error)
    namespace = names.namespace
    before = name_of(type(namespace[name])) + " before" if name in namespace else "new"
    namespace[name] = value
    described = describe(name, value)
    return "%s = %s (%s, %s)" % (name, described["value"], described["type"], before)


def identifier(names: Names, name: str) -> str:
    """Return the name of a variable as the parser reads it. Refuse a keyword."""
    try:
        parsed: Any = compile(name[:LONGEST], "<name>", "eval", PyCF_ONLY_AST, True)
    except (SyntaxError, ValueError):
        parsed = None
    node = parsed.body if type(parsed) is Expression else None
    if len(name) > LONGEST or not name.isidentifier() or type(node) is not Name:
        raise Refused("%r can't be the name of a variable" % shown(name))
    found: str = node.id
    if found in names.dunders or found == "__debug__":
        raise Refused("%s is Python's own and can't be set" % found)
    return found


@breakable
def delete(names: Names, wanted: list[str]) -> str:
    """Delete variables by name: all of them, or none if one is missing."""
    namespace = names.namespace
    wanted = list(dict.fromkeys(wanted))
    absent = [name for name in wanted if name not in namespace]
    if absent:
        raise Refused(missing(absent, names.listed()) + "; nothing was deleted")
    for name in wanted:
        if name in names.dunders:
            raise Refused("%s is Python's own; nothing was deleted" % name)
    for name in wanted:
        namespace.pop(name, None)  # a finalizer may have deleted it before
    return "deleted " + listed(wanted)


@breakable
def delete_all(names: Names) -> str:
    """Delete all that user code has put into the namespace, and everything that keeps it alive."""
    namespace, count = names.namespace, 0
    for name in list(namespace):
        if type(name) is not str or name not in names.dunders:
            namespace.pop(name, None)
            count += type(name) is not str or name[:2] != "__"  # else the compiler's, from 3.14 on
    namespace.update(names.dunders)
    annotations = namespace.get("__annotations__")
    if type(annotations) is dict:
        annotations.clear()
    builtins.__dict__.pop("_", None)
    for each in ("last_type", "last_value", "last_traceback", "last_exc"):
        sys.__dict__.pop(each, None)
    return "deleted %d variables" % count if count != 1 else "deleted 1 variable"
