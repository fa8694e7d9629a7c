"""Lists the user's variables without running any of the user's code.

Values are shown of exact built-in types only, nested ones included, bounded in length, depth and
number; of anything else its type and size. Names, sizes and lengths come from the built-in types'
own slots, which no class can override.
"""

from __future__ import annotations

from itertools import islice

from .names import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterable

    from .names import Names

LIMIT = 1_000  # variables listed
TEXT, DEPTH, ITEMS = 200, 3, 20  # of a value
DIGITS = 600  # bits of an int that is shown

ATOMS = (int, float, complex, bool, type(None), range)
TEXTS = (str, bytes)
GROUPS: dict[type, str] = {list: "[%s]", tuple: "(%s)", set: "{%s}", frozenset: "frozenset({%s})"}
SIZED: tuple[type, ...] = (str, bytes, bytearray, list, tuple, dict, set, frozenset)


def listing(names: Names, pattern: str | None = None) -> tuple[list[dict[str, Any]], int]:
    """Return the variables whose names match a glob, sorted, and their number."""
    found = sorted(name for name in names.listed() if matches(name, pattern))
    listed = []
    for name in found[:LIMIT]:
        try:
            listed.append(describe(name, names.namespace[name]))
        except KeyError:  # a thread was faster
            pass
    return listed, len(found)


def matches(name: str, pattern: str | None) -> bool:
    """Report whether a name matches a glob."""
    if not pattern:
        return True
    from fnmatch import fnmatchcase
    return fnmatchcase(name, pattern)


def describe(name: str, value: object) -> dict[str, Any]:
    """Return what is reported of one variable."""
    kind = type(value)
    base = base_of(kind)
    plain = kind in ATOMS + TEXTS or kind in GROUPS or kind is dict
    return {
        "name": shown(name),
        "type": shown(type_name(kind)),
        "value": shorten(text(value, DEPTH)) if plain else None,
        "size": (base or object).__sizeof__(value),
        "len": base.__len__(value) if base else None,
    }


def base_of(kind: type) -> Any:
    """Return the built-in container type that kind is or derives from, or None."""
    for each in type.__dict__["__mro__"].__get__(kind):
        for base in SIZED:
            if each is base:
                return base
    return None


def type_name(kind: type) -> str:
    """Return a type's name without asking its metaclass."""
    return str.__str__(type.__dict__["__name__"].__get__(kind))


def text(value: Any, depth: int) -> str:
    """Return the repr of a built-in value, and <type> for the rest."""
    kind = type(value)
    if kind is int and value.bit_length() > DIGITS:
        return "<int of %d bits>" % value.bit_length()
    if kind in TEXTS:
        return repr(value[:TEXT]) + ("..." if len(value) > TEXT else "")
    if kind is range:
        limits = value.start, value.stop, value.step
        if any(abs(n).bit_length() > DIGITS for n in limits):
            return "<range>"
    if kind in ATOMS:
        return repr(value)
    if kind is not dict and kind not in GROUPS:
        return "<%s>" % type_name(kind)
    if not value and kind not in (list, tuple, dict):
        return kind.__name__ + "()"
    if depth == 0:
        return "..."
    return group(value, kind, depth - 1)


def group(value: Any, kind: type, depth: int) -> str:
    """Return the text of a container and its first items."""
    each: Iterable[Any] = value.items() if kind is dict else value
    some = list(islice(each, ITEMS))
    if kind is dict:
        items = [text(k, depth) + ": " + text(v, depth) for k, v in some]
    else:
        items = [text(item, depth) for item in some]
    if len(value) > len(some):
        items.append("...")
    if kind is tuple and len(items) == 1:
        items.append("")
        return "(%s)" % ", ".join(items).rstrip()
    return ("{%s}" if kind is dict else GROUPS[kind]) % ", ".join(items)


def shorten(shown: str) -> str:
    """Return at most about TEXT characters."""
    return shown if len(shown) <= TEXT + 10 else shown[:TEXT] + "..."
