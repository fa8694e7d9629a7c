"""Loads the worker's modules, and the standard library for them.

The rules that make the worker immune to what user code does:

- Our modules run on a copy of the builtins, made before any user code ran. A
  frame of ours is told by it (see interrupts). They are not in sys.modules.
- Our modules import by the __import__ of that copy. `from .channel import
  send` and `from . import channel` load a module of the bundle, on its first
  use; anything else comes from the standard library, whatever stands on
  sys.path, in sys.modules or in sys.meta_path. Dotted names are imported by
  `from a.b import c` only.
- What a module of ours needs of the C modules (posix, _socket, ...) it takes
  by name at its import, so that user code that replaces os.write replaces
  nothing of ours. What is shared with user code (asyncio, linecache) is the
  module in sys.modules, if that is the real one.
"""

import sys
from posix import chdir, environ, listdir

if sys.implementation.name != "cpython":  # others do not honour a frame's own builtins
    raise SystemExit("sessions need CPython, and this is %s" % sys.implementation.name)
if sys.version_info < (3, 9):
    raise SystemExit("sessions need Python 3.9 or newer, and this is %d.%d" % sys.version_info[:2])

ModuleType = type(sys)

# Directories of the standard library; site-packages may lie below them.
HOME = sys.modules["encodings"].__spec__.origin.rsplit("/", 2)[0]
PATH = [p for p in sys.path if p == HOME or p.rpartition("/")[2] == "lib-dynload"] or [HOME]

# Finders as the interpreter had them: in builtins, frozen, on the path.
FINDERS = [f for f in sys.meta_path if isinstance(f, type) and f.__module__.startswith("_frozen_importlib")]

private = __builtins__
modules = sys.modules  # user code may take the name away
real_import = private["__import__"]
sources = dict(bundle["files"])
package = ModuleType("async_repl")
kept = {}  # modules of the standard library that ours have imported


def genuine(module):
    """Reports whether a module is the standard library's own."""
    try:
        spec = module.__spec__
        return real(spec.origin or spec.submodule_search_locations[0])
    except Exception:
        return False


def real(origin):
    """Reports whether a module from origin is the standard library's own."""
    if origin in ("built-in", "frozen"):
        return True
    return any(origin.startswith(p + "/") and "-packages/" not in origin[len(p):] for p in PATH)


def known_names():
    """Top-level names of the standard library."""
    names = getattr(sys, "stdlib_module_names", None)
    if names is None:  # 3.9
        names = {f.partition(".")[0] for p in PATH for f in listdir(p)}.union(sys.builtin_module_names)
    return names


def own(name):
    """Returns a module of the bundle."""
    module = package.__dict__.get(name)
    if module is None:
        module = ModuleType("async_repl." + name)
        module.__dict__["__builtins__"] = private
        package.__dict__[name] = module
        try:
            exec(compile(sources[name + ".py"], "<async-repl/%s.py>" % name, "exec", 0, True), module.__dict__)
        except BaseException:
            del package.__dict__[name]
            raise
        del sources[name + ".py"]
    return module


def standard(name):
    """Imports a module of the standard library.

    The user's modules of such names are out of the way meanwhile, or the real
    asyncio would find the user's socket.py.
    """
    module = modules.get(name)
    if module is not None and genuine(module):
        return module
    names = known_names()
    hidden = {n: m for n, m in list(modules.items())
              if type(n) is str and n.partition(".")[0] in names and not genuine(m)}
    state = sys.__dict__
    saved = {k: state.get(k) for k in ("path", "meta_path")}
    try:
        for n in hidden:
            del modules[n]
        state["path"] = PATH[:]
        state["meta_path"] = package.finders + FINDERS
        real_import(name, None, None, ("*",), 0)
        return modules[name]
    finally:
        state.update(saved)
        for n in hidden:
            kept[n] = modules.get(n)
        modules.update(hidden)


def importer(name, globals=None, locals=None, fromlist=(), level=0):
    """The __import__ of our modules."""
    if level:
        if name:
            return own(name)
        for each in fromlist:
            own(each)
        return package
    module = kept.get(name)
    if module is None:
        module = kept[name] = standard(name)
    return module


def clean_main():
    """Takes the bootstrap's names out of the user's namespace."""
    namespace = sys.modules["__main__"].__dict__
    for name in [n for n in namespace if not n.startswith("__")]:
        del namespace[name]
    sys.argv[:] = [""]


try:
    chdir(environ[b"PWD"])  # as bytes: the locale may not know all of its characters
except OSError as error:
    raise SystemExit("going to the workspace: %s" % error)
private["__import__"] = importer
package.token = bundle["token"]
package.genuine, package.real, package.finders = genuine, real, []
clean_main()
own("main").run()
