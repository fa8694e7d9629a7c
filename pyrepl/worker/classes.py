"""Let inspect find the source of a class of the session.

inspect takes the file of a class from its module, and __main__ has none
(https://docs.python.org/3/library/inspect.html#inspect.getfile).
"""

from __future__ import annotations

from ast import ClassDef, parse, walk

from .carry import wraps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    from .sources import Sources


def connect(sources: Sources, inspect: ModuleType) -> None:
    """Have inspect.getfile know the classes of the session."""
    getfile = inspect.getfile

    @wraps(getfile)
    def file_of(object: Any) -> str:
        if isinstance(object, type) and object.__module__ == "__main__":
            name = origin(object, sources.texts)
            if name is not None:
                return name
        return getfile(object)  # type: ignore[no-any-return]

    inspect.getfile = file_of  # type: ignore[attr-defined]


def origin(kind: type, texts: dict[str, str]) -> str | None:
    """Return the file name of the job that has defined a class, or None if it is unknown."""
    for name, member in vars(kind).items():
        function = getattr(member, "__func__", getattr(member, "fget", member))
        if type(function) is not type(origin):
            continue
        file = function.__code__.co_filename
        if function.__qualname__ == kind.__qualname__ + "." + name and file in texts:
            return file
    for name in reversed(list(texts)):  # the newest definition
        if kind.__name__ in texts[name] and defines(texts[name], kind):
            return name
    return None


def defines(source: str, kind: type) -> bool:
    """Report whether a source has a class statement that may have made a class."""
    line = vars(kind).get("__firstlineno__")  # Python sets it from 3.13 on
    try:
        nodes = list(walk(parse(source)))
    except (SyntaxError, ValueError, RecursionError):
        return False
    for node in nodes:
        if isinstance(node, ClassDef) and node.name == kind.__qualname__.rpartition(".")[2]:
            if line in (None, min([node.lineno] + [each.lineno for each in node.decorator_list])):
                return True
    return False
