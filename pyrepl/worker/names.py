"""The user's namespace, and the names in it.

The namespace belongs to the interpreter's own __main__, so that pickle, multiprocessing and
`if __name__ == "__main__"` work.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    from .protocols import Fields

LIMIT = 10_000  # names that are reported
LONG = 200  # characters of one
TOTAL = 1 << 18  # characters of all
NEWS = 20  # names that are reported as new, or as gone

modules = sys.modules  # user code may take the name away


class Names:
    """The namespace of __main__, and the names in it that were reported last."""

    def __init__(self, module: ModuleType) -> None:
        self.module = module
        self.namespace = module.__dict__
        self.dunders = dict(self.namespace)  # the names that the interpreter has made
        self._reported: list[str] = []
        # The functions and classes when the file that runs began; None: no file runs. See scripts.
        self.before_file: dict[str, Any] | None = None

    def listed(self) -> list[str]:
        """Return the user's names: those without a leading underscore."""
        return [name for name in list(self.namespace) if type(name) is str and name[:1] != "_"]

    def hidden(self) -> int:
        """Return how many names with a leading underscore user code has made."""
        return len([name for name in list(self.namespace) if type(name) is str and name[:1] == "_"
                    and name != "_" and name[-2:] != "__"])

    def functions(self) -> dict[str, Any]:
        """Return the functions and classes in the namespace. Other values can be large."""
        return {name: value for name, value in list(self.namespace.items())
                if issubclass(type(value), (type(shown), type))}

    def spawnable(self, value: Any) -> bool:
        """Report whether a function or class of __main__ is of the file that runs.

        A process that multiprocessing spawns imports that file, and finds it there."""
        name = value.__qualname__.partition(".")[0]
        return (self.before_file is not None
                and self.namespace.get(name) is not self.before_file.get(name, self))

    def changed(self) -> Fields:
        """Return the sorted names, the new ones and those that are gone, as fields of `done`.

        There are none if the names are the same as at the last call, in the same order."""
        names, before = self.listed(), self._reported
        if names == before:
            return {}
        self._reported = names
        known, kept = set(before), set(names)
        new = [name for name in names if name not in known]
        gone = [name for name in before if name not in kept]
        names = [shown(name) for name in sorted(names)[:LIMIT]]
        while sum(map(len, names)) > TOTAL:
            del names[len(names) // 2:]
        return {"names": names, "new": [shown(name) for name in new[:NEWS]], "new_count": len(new),
                "gone": [shown(name) for name in gone[:NEWS]], "gone_count": len(gone)}

    def restore(self) -> None:
        """Give __main__ back what user code took away, and have each job warn again.

        Python would show a warning once for its text and the number of its line, in whatever job.
        IPython does the same (https://github.com/ipython/ipython/issues/6611)."""
        self.namespace.pop("__warningregistry__", None)
        if modules.get("__main__") is not self.module:
            modules["__main__"] = self.module
        if "__name__" not in self.namespace:
            for name, value in self.dunders.items():
                self.namespace.setdefault(name, value)


class Refused(Exception):
    """Raised to end a job that answers a request about the namespace; the text says why."""


def shown(name: str) -> str:
    """Return a name, or the beginning and length of a very long one, which passes for no other."""
    return name if len(name) <= LONG else "%s\u2026 (%d characters)" % (name[:LONG], len(name))


def module_of(kind: type) -> str:
    """Return the name of the module that a type says it comes from, or ""."""
    module = type.__dict__["__module__"].__get__(kind)
    return module if type(module) is str else ""


def error_name(error: BaseException) -> str:
    """Return the name of an exception's type, with its module if it is not built in."""
    kind = type(error)
    name = str.__str__(type.__dict__["__qualname__"].__get__(kind))[:LONG]
    module = module_of(kind)
    if module in ("", "__main__", "builtins"):
        return name
    return module[:LONG] + "." + name


def imitate(function: Any, module: str, original: Any) -> None:
    """Give a function of ours the place and the docstring of the one it stands in for."""
    function.__qualname__ = function.__name__
    function.__module__, function.__doc__ = module, original.__doc__
