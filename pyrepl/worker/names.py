"""The user's namespace, and the names in it.

The namespace is that of the interpreter's own __main__, so that pickle,
multiprocessing and `if __name__ == "__main__"` work."""

import sys

LIMIT = 10_000  # names told
LONG = 200  # characters of one
TOTAL = 1 << 18  # characters of all

modules = sys.modules  # user code may take the name away
module = modules["__main__"]
namespace = module.__dict__
dunders = dict(namespace)  # as the interpreter made them
told = []


def listed():
    """The user's names: no leading underscore."""
    return [name for name in list(namespace) if type(name) is str and name[:1] != "_"]


def news():
    """Returns the sorted names if the set of them has changed, else None."""
    global told
    names = listed()
    if names == told:
        return None
    told = names
    names = [shown(name) for name in sorted(names)[:LIMIT]]
    while sum(map(len, names)) > TOTAL:
        del names[len(names) // 2:]
    return names


def shown(name):
    """A name as it is told: of a very long one the beginning and the length, which nobody takes for another name."""
    return name if len(name) <= LONG else "%s\u2026 (%d characters)" % (name[:LONG], len(name))


def mend():
    """Gives __main__ back what user code took away."""
    if modules.get("__main__") is not module:
        modules["__main__"] = module
    if "__name__" not in namespace:
        for name, value in dunders.items():
            namespace.setdefault(name, value)
