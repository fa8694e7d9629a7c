"""Describe an object: its type, signature and documentation, or its source."""

from __future__ import annotations

import sys
from inspect import getdoc, getsourcefile, getsourcelines, signature, unwrap
from types import CodeType, FunctionType, ModuleType

from .frames import breakable
from .shapes import bases_of, contents, name_of
from .variables import describe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from .sources import Sources

LINE = 2000  # characters of a signature
ANNOTATED = 500  # characters of a signature that has its annotations
DOC = 1 << 16  # characters of a documentation


@breakable
def details(value: Any, sources: Sources, with_source: bool) -> str:
    """Describe an object in lines "Name: value", then its documentation or, if that is asked for
    and known, its source."""
    import linecache
    sources.connect(linecache)
    kind = type(value)
    described = describe("", value)
    lines = ["Type: " + described["type"]]
    if "value" in described:
        lines.append("Value: " + described["value"])
    if "len" in described:
        lines.append("Length: %d" % described["len"])
    if "shape" in described:
        lines.append("Shape: (%s)" % ", ".join(map(str, described["shape"])))
    if any([each is type for each in bases_of(kind)]):
        lines.append("Bases: " + ", ".join([name_of(each) for each in bases_of(value)[1:]]))
    if callable(value):
        text = attempt(signature_of, value)
        if type(text) is str:
            name = attempt(getattr, value, "__name__")
            lines.append("Signature: " + ((name if type(name) is str else "") + text)[:LINE])
    file, source = code(value, sources)
    if file:
        lines.append("File: " + file)
    if with_source and source:
        return "\n".join(lines) + "\nSource:\n" + indented(source)
    doc = attempt(getdoc, value)
    if type(doc) is str and doc:
        lines.append("Documentation:\n" + indented(doc[:DOC]))
    return "\n".join(lines)


@breakable
def signature_of(value: Callable[..., Any]) -> str:
    """Return the signature of a callable.

    From 3.14 on its annotations are evaluated only here. Those that fail are shown as written. A
    long signature is shown without them."""
    try:
        found = signature(value)
        text = str(found)
        if len(text) > ANNOTATED:
            bare = [each.replace(annotation=each.empty) for each in found.parameters.values()]
            text = str(found.replace(parameters=bare, return_annotation=found.empty))
        return text
    except Exception:
        if sys.version_info >= (3, 14):
            from annotationlib import Format
            written = signature(value, annotation_format=Format.STRING)
            return written.format(quote_annotation_strings=False)
        raise


def indented(text: str) -> str:
    """Return a text without blank lines at its ends, its lines indented."""
    return "\n".join(["    " + line if line else "" for line in text.strip("\n").split("\n")])


@breakable
def attempt(function: Callable[..., Any], *arguments: object) -> Any:
    """Call a function that runs user code and return its result, or None if it fails."""
    try:
        return function(*arguments)
    except Exception:
        return None


@breakable
def code(value: Any, sources: Sources) -> tuple[str, str]:
    """Return the file that defines an object, with its line, and its source."""
    inner = attempt(unwrap, value)
    value = value if inner is None else inner
    if issubclass(type(value), ModuleType):
        file = attempt(getattr, value, "__file__")
        return file if type(file) is str else "", ""
    if any([each is type for each in bases_of(type(value))]):
        found = class_source(value, sources)
        if found is not None:
            return found
    lines, file = attempt(getsourcelines, value), attempt(getsourcefile, value)
    if lines is None or type(file) is not str:
        return "", ""
    return "%s, line %d" % (sources.shown(file), lines[1] or 1), "".join(lines[0])


@breakable
def class_source(value: type, sources: Sources) -> tuple[str, str] | None:
    """Return file and source of a class that a job has defined.

    inspect looks for the file of its module, and __main__ has none. A method of the class knows the
    job; without one it is the newest job with such a class."""
    if contents(value).get("__module__") != "__main__":
        return None
    from ast import get_source_segment, parse
    name = str.__str__(type.__dict__["__qualname__"].__get__(value))
    known = [each.__code__.co_filename for each in list(contents(value).values())
             if type(each) is FunctionType and type(each.__code__) is CodeType]
    word = "class " + name.rpartition(".")[2]
    for file in [f for f in known if f in sources.texts] + list(reversed(sources.texts)):
        text = sources.texts[file]
        if word in text:
            node = class_node(attempt(parse, text), name)
            if node is not None:
                first = min([node.lineno] + [each.lineno for each in node.decorator_list])
                node.lineno, node.col_offset = first, 0
                source = get_source_segment(text, node) or ""
                return "%s, line %d" % (sources.shown(file), first), source
    return None


def class_node(tree: Any, name: str) -> Any:
    """Return the last definition of a class by its qualified name, or None."""
    from ast import AsyncFunctionDef, ClassDef, FunctionDef, iter_child_nodes
    found = None
    left = [(tree, "")] if tree is not None else []
    while left:
        node, within = left.pop(0)
        for each in iter_child_nodes(node):
            if isinstance(each, ClassDef):
                if within + each.name == name:
                    found = each
                left.append((each, within + each.name + "."))
            elif isinstance(each, (FunctionDef, AsyncFunctionDef)):
                left.append((each, within + each.name + ".<locals>."))
            else:
                left.append((each, within))
    return found
