"""Load the worker's modules, and the standard library for them.

The rules that make the worker immune to what user code does:

- Our modules run on a copy of the builtins, made before any user code ran. A frame of ours is
  recognized by it (see frames). They are not in sys.modules.
- Our modules import by the __import__ of that copy. `from .channel import Channel` and
  `from . import carry` load a module of the package on its first use; anything else comes from the
  standard library, whatever stands on sys.path, in sys.modules or in sys.meta_path. Dotted names
  are imported by `from a.b import c` only.
- What a module of ours needs of the C modules (posix, _socket, ...) it takes by name at its import,
  so that user code that replaces os.write replaces nothing of ours. What is shared with user code
  (asyncio, linecache) is the module in sys.modules, if that is the real one.
"""

import sys  # nothing of __future__, which is the one module that Python would have to look for
from posix import chdir, environ, listdir

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any, Sequence

NAME = "async_repl"  # the name of the package in a worker
AT_START = "_socket", "fcntl", "_contextvars", "_ast", "termios", "_json"
FUTURE = 0x1000000  # the compiler's flag for `from __future__ import annotations`

# Directories of the standard library; site-packages may be below them.
HOME = sys.modules["encodings"].__spec__.origin.rsplit("/", 2)[0]  # type: ignore[union-attr]
PATH = [p for p in sys.path if p == HOME or p.rpartition("/")[2] == "lib-dynload"] or [HOME]

# Finders as the interpreter had them: in builtins, frozen, on the path.
FINDERS = [f for f in sys.meta_path
           if isinstance(f, type) and f.__module__.startswith("_frozen_importlib")]

# Python 3.15 can make all imports lazy (https://peps.python.org/pep-0810/). Our own imports, and
# the imports of the standard library for us, stay eager.
get_lazy: "Any" = getattr(sys, "get_lazy_imports", str)
set_lazy: "Any" = getattr(sys, "set_lazy_imports", str)

modules = sys.modules  # user code may take the name away
finders: "list[Any]" = []  # ours, before those, see hooks


def genuine(module: "Any") -> bool:
    """Report whether a module is the standard library's own."""
    try:
        spec = module.__spec__
        return real(spec.origin or spec.submodule_search_locations[0])
    except Exception:
        return False


def real(origin: str) -> bool:
    """Report whether a module from origin is the standard library's own."""
    if origin in ("built-in", "frozen"):
        return True
    return any(origin.startswith(p + "/") and "-packages/" not in origin[len(p):] for p in PATH)


def known_names() -> "frozenset[str] | set[str]":
    """Return the top-level names of the standard library."""
    if sys.version_info >= (3, 10):
        return sys.stdlib_module_names
    return {f.partition(".")[0] for p in PATH for f in listdir(p)}.union(sys.builtin_module_names)


class Loader:
    """Our package, out of the texts of its modules."""

    def __init__(self, sources: "dict[str, str]", private: "dict[str, Any]") -> None:
        """Load modules from sources (file name -> text) that run on the builtins in private."""
        self.package = type(sys)(NAME)
        self.package.__dict__["annotations"] = None  # the package passes for __future__ too
        self._sources, self._private = dict(sources), private
        self._real_import = private["__import__"]
        self._kept: "dict[str, Any]" = {"__future__": self.package}  # our modules' imports
        private["__import__"] = private["__lazy_import__"] = self.load

    def load(self, name: str, globals: "Any" = None, locals: "Any" = None,
             fromlist: "Sequence[str]" = (), level: int = 0) -> "ModuleType":
        """Import a module for our modules. It is their __import__."""
        if level:
            if name:
                return self.own(name)
            for each in fromlist:
                self.own(each)
            return self.package
        module: "ModuleType | None" = self._kept.get(name)
        if module is None:
            module = self._kept[name] = self._standard(name)
        return module

    def own(self, name: str) -> "ModuleType":
        """Return a module of the package."""
        known = self.package.__dict__
        module: "ModuleType | None" = known.get(name)
        if module is None:
            known[name] = module = type(sys)(NAME + "." + name)
            module.__dict__["__builtins__"] = self._private
            try:
                text, path = self._sources[name + ".py"], "<async-repl/%s.py>" % name
                exec(compile(text, path, "exec", FUTURE, True, 2), module.__dict__)
            except BaseException:
                del known[name]
                raise
            del self._sources[name + ".py"]
        return module

    def preload(self) -> None:
        """Import what the worker needs at its start together: to hide the user's modules takes as
        long as to import one of these."""
        try:
            self._standard(*AT_START)
        except ImportError:  # the module that needs it finds out, and may know a way
            pass

    def _standard(self, *names: str) -> "ModuleType":
        """Import modules of the standard library and return the last.

        The user's modules of such names are out of the way meanwhile, or the real asyncio would
        find the user's socket.py."""
        missing = [n for n in names if not genuine(modules.get(n))]
        if not missing:
            return modules[names[-1]]
        known = known_names()
        hidden = {n: m for n, m in list(modules.items())
                  if type(n) is str and n.partition(".")[0] in known and not genuine(m)}
        state = sys.__dict__
        saved, lazy = {k: state.get(k) for k in ("path", "meta_path")}, get_lazy()
        try:
            set_lazy("normal")
            for n in hidden:
                del modules[n]
            state["path"] = PATH[:]
            state["meta_path"] = finders + FINDERS
            for n in missing:
                self._real_import(n, None, None, ("*",), 0)
            return modules[names[-1]]
        finally:
            state.update(saved)
            set_lazy(lazy)
            for n in hidden:
                self._kept[n] = modules.get(n)
            modules.update(hidden)


def start(module: "ModuleType", token: str, sources: "dict[str, str]") -> None:
    """Run the worker out of its sources, by file name; module is this one."""
    try:
        chdir(environ[b"PWD"])  # in bytes, because the locale may not know all of its characters
    except OSError as error:
        raise SystemExit("going to the workspace: %s" % error)
    loader = Loader(sources, module.__dict__["__builtins__"])
    loader.package.__dict__["loader"] = module
    loader.preload()
    namespace = modules["__main__"].__dict__
    for name in [n for n in namespace if not n.startswith("__")]:  # bootstrap.py has left them
        del namespace[name]
    sys.argv[:] = [""]
    main: "Any" = loader.own("main")
    main.run(token)
