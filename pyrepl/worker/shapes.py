"""The length or the shape of a value, without running any Python code.

A type is recognized by its name and module, which no metaclass can intercept here. What is read of
a value then comes from C code: a slot of a built-in type, a getset or a member of an extension. If
Python code would have to run, there is no answer.
"""

from __future__ import annotations

from _collections import deque  # type: ignore[import-not-found]
from types import BuiltinFunctionType

from .names import module_of, modules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    Shape = list[int]

# By the id of the type: a metaclass can have a __hash__ and an __eq__.
COUNTED = set(map(id, (
    str, bytes, bytearray, memoryview, list, tuple, range, dict, set, frozenset, deque)))
# The types of getsets and members.
C_ATTRIBUTES = set(map(id, map(type, map(type.__dict__.get, ("__dict__", "__basicsize__")))))
METHOD: Any = type(list.append)
NESTED = 5  # levels of objects in an index, at most
# Attributes in which an index keeps its parts, and in which these keep theirs.
PARTS = "_range", "_data", "_codes", "_pa_array", "_ndarray"


def name_of(kind: type) -> str:
    """Return a type's name without asking its metaclass."""
    return str.__str__(type.__dict__["__name__"].__get__(kind))


def library_of(kind: type) -> str:
    """Return the name of the package that a type says it comes from."""
    return module_of(kind).partition(".")[0]


def bases_of(kind: type) -> tuple[type, ...]:
    """Return a type and its bases, in the order in which attributes are looked up."""
    bases: tuple[type, ...] = type.__dict__["__mro__"].__get__(kind)
    return bases


def contents(kind: type) -> Any:
    """Return the attributes of the class itself."""
    return type.__dict__["__dict__"].__get__(kind)


def length(value: object) -> int | None:
    """Return the number of items that a built-in container holds, or a type derived from one."""
    for each in bases_of(type(value)):
        if "__len__" in contents(each):
            if id(each) in COUNTED:
                try:
                    count: int = contents(each)["__len__"](value)
                    return count
                except Exception:  # a released memoryview, a very long range
                    pass
            return None
    return None


def shape(value: object) -> Shape | None:
    """Return the shape of an array, a frame or a series of the libraries that are known."""
    reader = READERS.get((library_of(type(value)), name_of(type(value))))
    try:
        return None if reader is None else reader(value)
    except Exception:  # another version of the library
        return None


def attribute(value: object, name: str) -> Any:
    """Return an attribute that C code holds, or None."""
    for each in bases_of(type(value)):
        found = contents(each).get(name)
        if found is not None:
            if id(type(found)) in C_ATTRIBUTES:
                return found.__get__(value)
            getter: Any = found.fget if type(found) is property else None
            if library_of(type(getter)) == "nanobind":  # a function in C++
                return getter(value)
            return None
    return None


def numbers(found: Any) -> Shape | None:
    """Return a tuple's items if all are plain numbers."""
    if not issubclass(type(found), tuple):
        return None
    items = list(tuple.__iter__(found))
    return items if all([type(n) is int for n in items]) else None


def array_shape(value: object) -> Shape | None:
    """Return the shape of an array of numpy, or of a table of pyarrow."""
    return numbers(attribute(value, "shape"))


def tensor_shape(value: object) -> Shape | None:
    """Return the shape of a tensor of torch, unless a mode is active, whose code would run."""
    modes: Any = modules["torch._C"].__dict__.get("_len_torch_function_stack")
    return array_shape(value) if type(modes) is BuiltinFunctionType and modes() == 0 else None


def traced_shape(value: object) -> Shape | None:
    """Return the shape of an array of jax, which its abstract value holds."""
    return numbers(attribute(attribute(value, "aval"), "shape"))


def frame_shape(value: object) -> Shape | None:
    """Return the shape of a frame or a series of pandas: the lengths of its axes."""
    manager = attribute(value, "__dict__")["_mgr"]
    axes = attribute(manager, "axes") or attribute(manager, "__dict__")["axes"]
    found = [index_length(axis, NESTED) for axis in reversed(axes)]
    return None if None in found else found  # type: ignore[return-value]


def result(value: object, method: str) -> Any:
    """Return what a method in C code returns that has no arguments, or None."""
    found = contents(type(value)).get(method)
    return found(value) if type(found) is METHOD else None


def polars_shape(value: object) -> Shape | None:
    """Return the shape of a frame of polars, or of a series, as the object in Rust tells it."""
    held = attribute(value, "__dict__")
    if "_df" in held:
        return numbers(result(held["_df"], "shape"))
    return numbers((result(held["_s"], "len"),))


def index_length(value: Any, nested: int) -> int | None:
    """Return the length of an index of pandas, or of one of the objects that it is made of."""
    if type(value) is range:
        return len(value)
    known = array_shape(value)
    if known is not None:
        return known[0]
    if issubclass(type(value), list):  # the codes of a MultiIndex
        value = list.__getitem__(value, 0)
        return index_length(value, nested - 1) if nested else None
    held = attribute(value, "__dict__") or {}
    for name in PARTS:
        part = held.get(name)
        if part is None:
            part = attribute(value, name)
        if part is not None:
            return index_length(part, nested - 1) if nested else None
    count = contents(type(value)).get("__len__")
    if type(count) is type(list.__len__):  # an array of pyarrow
        found: int = count(value)
        return found
    return None


READERS: dict[tuple[str, str], Callable[[object], Shape | None]] = {
    ("numpy", "ndarray"): array_shape,
    ("numpy", "memmap"): array_shape,
    ("numpy", "matrix"): array_shape,
    ("pandas", "DataFrame"): frame_shape,
    ("pandas", "Series"): frame_shape,
    ("polars", "DataFrame"): polars_shape,
    ("polars", "Series"): polars_shape,
    ("pyarrow", "Table"): array_shape,
    ("pyarrow", "RecordBatch"): array_shape,
    ("torch", "Tensor"): tensor_shape,
    ("torch", "Parameter"): tensor_shape,
    ("jaxlib", "ArrayImpl"): traced_shape,
}
