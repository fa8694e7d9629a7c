"""Complete code without running any of the user's.

Names and attributes are looked up where the interpreter keeps them: in the dictionaries of the
namespace, of modules, of instances and of classes. A property is not read, a __getattr__ and a
__dir__ are not called. Modules that are not imported are found by the files on sys.path.
"""

from __future__ import annotations

import builtins
import re
import sys
from keyword import kwlist
from posix import scandir
from types import FunctionType, MemberDescriptorType, ModuleType

from .loader import known_names
from .names import Refused, modules, shown
from .shapes import bases_of, contents
from .variables import missing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterable

LIMIT = 100  # completions that are listed
LINE = 1000  # characters before the place that are looked at
FILES = 5000  # entries of one directory that are read
NAME = r"[^\W\d]\w*"
# Strings and comments. A string that is closed has a group of its closing quotes.
TEXTS = re.compile(r'#[^\n]*|("""|\'\'\')(?:\\.?|(?!\1).)*(\1)?'
                   r'|"(?:\\.?|[^"\\\n])*(")?|\'(?:\\.?|[^\'\\\n])*(\')?', re.S)
FROM = re.compile(r"(?:\A|:)\s*from\s+(%s(?:\.%s)*)\s+import\s+\(?[\w\s,]*?(\w*)\Z" % (NAME, NAME))
IMPORT = re.compile(
    r"(?:\A|:)\s*(?:import|from)\s+(?:[\w.\s]+,\s*)?((?:%s\.)*)(\w*)\Z" % NAME)
RELATIVE = re.compile(r"(?:\A|:)\s*from\s*\.")
DOTTED = re.compile(r"(?<![\w.)\]}'])((?:%s\s*\.\s*)*)((?:%s)?)\Z" % (NAME, NAME))
MODULE_DICT = ModuleType.__dict__["__dict__"]  # type: ignore[index]
DICTS = type(MODULE_DICT), type(type.__dict__["__dict__"])  # a __dict__ is behind one of these


class Computed(Exception):
    """Raised if completing would run code; the text names the code."""


def completions(namespace: dict[str, Any], source: str, at: int) -> str:
    """Return the names that can stand at a place of a source, one a line."""
    try:
        return candidates(namespace, source, at)
    except Computed as computed:
        return "(no completions: %s)" % computed


def candidates(namespace: dict[str, Any], source: str, at: int) -> str:
    """Return what completions returns, or raise Computed."""
    before = source[:at]
    for text in TEXTS.finditer(before):
        if text.end() == len(before) and not (text[2] or text[3] or text[4]):
            return "(no completions in a string or a comment)"
    line = TEXTS.sub("''", before).rpartition("\n")[2].rpartition(";")[2][-LINE:]
    statement = FROM.search(line)
    if statement:
        return shortlist(statement[2], members(statement[1]))
    statement = IMPORT.search(line)
    if statement:
        path = statement[1].rstrip(".")
        return shortlist(statement[2], submodules(path) if path else top_level())
    if RELATIVE.search(line):
        return "(no completions: a session is in no package)"
    dotted = DOTTED.search(line)
    if dotted is None:
        raise Computed("what stands before would have to run")
    if not dotted[1]:
        errors = [name for name, value in list(builtins.__dict__.items()) if is_exception(value)]
        others = {*builtins.__dict__, *kwlist}.difference(errors)
        return shortlist(dotted[2], namespace, others, errors)
    path = [part.strip() for part in dotted[1].split(".")[:-1]]
    return shortlist(dotted[2], attributes(resolve(namespace, path)))


def is_exception(value: Any) -> bool:
    """Return whether a value is a class of exceptions."""
    return type(value) is type and any([each is BaseException for each in bases_of(value)])


def shortlist(prefix: str, *groups: Iterable[Any]) -> str:
    """Return the names that begin with prefix, group by group.

    Hidden ones are listed if the prefix says so."""
    hidden = prefix[:1] == "_"
    found: list[str] = []
    for group in groups:
        names = {name for name in list(group) if type(name) is str and name.startswith(prefix)
                 and name.isidentifier() and (hidden or name[:1] != "_")}
        found += sorted(names.difference(found))
    if not found:
        return "(no completions)"
    lines = [shown(name) for name in found[:LIMIT]]
    if len(found) > LIMIT:
        lines.append("(%d more: type more letters)" % (len(found) - LIMIT))
    return "\n".join(lines)


def resolve(namespace: dict[str, Any], path: list[str]) -> Any:
    """Return the value of a dotted name."""
    for holder in (namespace, builtins.__dict__):
        if path[0] in holder:
            value = holder[path[0]]
            break
    else:
        raise Refused(missing([path[0]], namespace, builtins.__dict__))
    for i, name in enumerate(path[1:], 1):
        value = static(value, name, ".".join(path[:i]))
    return value


def dictionaries(value: Any) -> list[Any]:
    """Return the dictionaries in which the attributes of a value are found, its own first."""
    bases = bases_of(type(value))
    if any([each is type for each in bases]):
        return [contents(each) for each in bases_of(value)]
    of_type = [contents(each) for each in bases]
    if any([each is ModuleType for each in bases]):
        return [MODULE_DICT.__get__(value), *of_type]
    for each in of_type:
        found = each.get("__dict__")
        if found is not None:
            held = found.__get__(value) if type(found) in DICTS else None
            return [held, *of_type] if type(held) is dict else of_type
    return of_type


def attributes(value: Any) -> list[Any]:
    """Return the names of a value's attributes."""
    return [name for each in dictionaries(value) for name in list(each)]


def static(value: Any, name: str, path: str) -> Any:
    """Return an attribute, if it can be read without running code."""
    for each in dictionaries(value):
        if name not in each:
            continue
        found = each[name]
        if type(found) is MemberDescriptorType:  # a slot
            try:
                return found.__get__(value)
            except AttributeError:
                break
        if type(found) is staticmethod or type(found) is classmethod:
            return found.__func__
        plain = type(found) is FunctionType or not any(
            ["__get__" in contents(base) for base in bases_of(type(found))])
        if plain or issubclass(type(value), (type, ModuleType)):
            return found
        raise Computed("%s.%s is computed, which would run code" % (shown(path), shown(name)))
    if any(["__getattr__" in each for each in dictionaries(value)]):
        raise Computed("%s.%s can be computed only, which would run code"
                       % (shown(path), shown(name)))
    raise Refused("%s has no attribute %s" % (shown(path), shown(name)))


def members(path: str) -> list[Any]:
    """Return what can be imported from a module."""
    module = modules.get(path)
    names = list(MODULE_DICT.__get__(module)) if issubclass(type(module), ModuleType) else []
    return names + list(submodules(path))


def top_level() -> set[str]:
    """Return the names of modules that can be imported."""
    found = {name for name in list(modules) if type(name) is str and "." not in name}
    path = sys.__dict__.get("path")
    return found.union(known_names(), *[within(each) for each in directories(path)])


def submodules(path: str) -> set[str]:
    """Return the names of the modules below a module, which need not be imported."""
    below = path + "."  # os.path is one, and os is no package
    found = {name[len(below):].partition(".")[0] for name in list(modules)
             if type(name) is str and name.startswith(below)}
    module = modules.get(path)
    if issubclass(type(module), ModuleType):
        for each in directories(MODULE_DICT.__get__(module).get("__path__")):
            found |= within(each)
        return found
    for each in directories(sys.__dict__.get("path")):
        found |= within(each + "/" + path.replace(".", "/"))
    return found


def directories(path: Any) -> list[str]:
    """Return the directories on a path of exact types."""
    if type(path) is not list:
        return []
    return [each or "." for each in list(path) if type(each) is str]


def within(directory: str) -> set[str]:
    """Return the names of the modules in a directory."""
    found: set[str] = set()
    try:
        with scandir(directory) as entries:
            for count, entry in enumerate(entries):
                if count == FILES:
                    break
                name, _, ending = entry.name.partition(".")
                if name.isidentifier() and (
                        ending == "py" or ending.endswith("so") or not ending and entry.is_dir()):
                    found.add(name)
    except OSError:  # no directory, or not ours to read
        pass
    return found - {"__pycache__", "__init__"}
