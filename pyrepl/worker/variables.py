"""List the user's variables without running any of the user's code.

Values are shown of exact built-in types only, nested ones included, bounded in length, depth and
number; of anything else its type and, if it is known, its length or shape (see shapes). Modules,
functions and classes are listed by name.
"""

from __future__ import annotations

from itertools import islice
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType

from .names import shown
from .shapes import bases_of, length, name_of, shape

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterable

    from .names import Names
    from .protocols import Fields

LIMIT = 1_000  # names in one list
TEXT, DEPTH, ITEMS = 200, 3, 20  # characters, nested containers and items shown of a value
DIGITS = 600  # bits of an int that is shown
NAMES = 20  # names that a message lists
TYPED = 64  # characters of a name that may have a typing error

# By the id of the type: a metaclass can have a __hash__ and an __eq__.
ATOMS = set(map(id, (int, float, complex, bool, type(None), range)))
TEXTS = set(map(id, (str, bytes)))
GROUPS = {id(list): "[%s]", id(tuple): "(%s)", id(set): "{%s}", id(frozenset): "frozenset({%s})",
          id(dict): "{%s}"}
FUNCTIONS = set(map(id, (FunctionType, BuiltinFunctionType, MethodType)))


def listing(names: Names, pattern: str = "") -> Fields:
    """Return the variables, the names of modules, functions and classes, and the number of all.

    A pattern that is not empty selects names."""
    found = sorted(names.listed())
    if pattern:
        from fnmatch import fnmatchcase
        found = [name for name in found if fnmatchcase(name, pattern)]
    listed: dict[str, list[Any]] = {"vars": [], "modules": [], "functions": [], "classes": []}
    known: dict[int, str] = {}  # id of a type -> list that its values belong to
    for name in found:
        try:
            value = names.namespace[name]
        except KeyError:  # a thread has deleted it
            continue
        kind = type(value)
        group = known.get(id(kind))
        if group is None:
            group = known[id(kind)] = group_of(kind)
        if len(listed[group]) < LIMIT:
            listed[group].append(describe(name, value) if group == "vars" else shown(name))
    return {**listed, "total": len(found)}


def group_of(kind: type) -> str:
    """Return the list that values of a type belong to."""
    bases = bases_of(kind)
    if any([each is ModuleType for each in bases]):
        return "modules"
    if any([each is type for each in bases]):
        return "classes"
    if id(kind) in FUNCTIONS or name_of(kind) == "_lru_cache_wrapper":
        return "functions"
    return "vars"


def describe(name: str, value: object) -> Fields:
    """Return the fields that describe one variable."""
    kind = type(value)
    described: Fields = {"name": shown(name), "type": shown(name_of(kind))}
    if id(kind) in ATOMS or id(kind) in TEXTS or id(kind) in GROUPS:
        described["value"] = shorten(text(value, DEPTH))
    count = length(value)
    if count is None:
        dimensions = shape(value)
        if dimensions is not None:
            described["shape"] = dimensions
    elif id(kind) not in TEXTS or count > TEXT:  # else the value shows it
        described["len"] = count
    return described


def text(value: Any, depth: int) -> str:
    """Return the repr of a built-in value, and <type> for the rest."""
    kind = type(value)
    if kind is int and value.bit_length() > DIGITS:
        return "<int of %d bits>" % value.bit_length()
    if id(kind) in TEXTS:
        return repr(value[:TEXT]) + ("..." if len(value) > TEXT else "")
    if kind is range:
        limits = value.start, value.stop, value.step
        if any(abs(n).bit_length() > DIGITS for n in limits):
            return "<range>"
    if id(kind) in ATOMS:
        return repr(value)
    if id(kind) not in GROUPS:
        return "<%s>" % name_of(kind)
    if not value and (kind is set or kind is frozenset):
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
    return GROUPS[id(kind)] % ", ".join(items)


def shorten(shown: str) -> str:
    """Return at most about TEXT characters."""
    return shown if len(shown) <= TEXT + 10 else shown[:TEXT] + "..."


def missing(wanted: list[str], *known: Iterable[Any]) -> str:
    """Say that there are no such variables, and which known names are near the first.

    Names of a later group are named only if none of an earlier one is near."""
    first = wanted[0]
    text = "there is no variable " + listed(wanted)
    near: list[str] = []
    if len(first) <= TYPED:
        from difflib import get_close_matches
        for group in known:
            short = [name for name in list(group) if type(name) is str and len(name) <= TYPED]
            near = near or get_close_matches(first, short, 3)
    return text + "; did you mean %s?" % " or ".join(near) if near else text


def listed(names: list[str]) -> str:
    """Return the first names of a list, and the number of the others."""
    text = ", ".join([shown(name) for name in names[:NAMES]])
    return text if len(names) <= NAMES else "%s and %d more" % (text, len(names) - NAMES)
