"""Touches modules of the standard library when user code imports them.

A finder in front of sys.meta_path knows the few names below and costs the
others one look into a dictionary. The real loader executes the module; ours
only comes after it. A user's module of such a name is left alone.
"""

import sys

from . import finders, genuine, real
from .interrupts import breakable, deliver


def threading(module):
    from . import carry
    carry.threads(module)


def pools(module):
    from . import carry
    carry.pools(module)


def linecache(module):
    from . import sources
    sources.connect(module)


def getpass(module):
    from . import console
    console.connect_getpass(module)


def tasks(module):
    from . import tasks
    tasks.connect(module)


def debugger(module):
    from . import debugger
    debugger.connect(module)


def prompt(module):
    from . import debugger
    debugger.ask_by_input(module)


def contexts(module):
    from . import processes
    processes.default(module)


def reduction(module):
    from . import processes
    processes.reduction(module)


def process_pool(module):
    from . import processes
    processes.pool(module)


def executor(module):
    from . import processes
    processes.executor(module)


hooks = {
    "threading": threading,
    "concurrent.futures.thread": pools,
    "linecache": linecache,
    "getpass": getpass,
    "asyncio.tasks": tasks,
    "bdb": debugger,
    "pdb": prompt,
    "multiprocessing.context": contexts,
    "multiprocessing.reduction": reduction,
    "multiprocessing.pool": process_pool,
    "concurrent.futures.process": executor,
}


class Finder:
    """Finds a module as the others do, and hooks into its loading."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        hook = hooks.get(name)
        if hook is None:
            return None
        for finder in sys.meta_path:
            if finder is not Finder and hasattr(finder, "find_spec"):
                spec = finder.find_spec(name, path, target)
                if spec is not None:
                    return attach(spec, hook)
        return None


def attach(spec, hook):
    """Makes the loader of a module of the standard library call hook."""
    loader = spec.loader
    if real(spec.origin or "") and hasattr(loader, "exec_module"):
        execute = loader.exec_module

        def exec_module(module):
            loader.__dict__.pop("exec_module", None)
            execute(module)
            hook(module)
            deliver()

        loader.exec_module = breakable(exec_module)
    deliver()
    return spec


breakable(attach)
breakable(Finder.find_spec)


def install():
    """Hooks into what site has imported already, and all that is to come."""
    for name, hook in hooks.items():
        module = sys.modules.get(name)
        if module is not None and genuine(module):
            hook(module)
    finders.append(Finder)
    sys.meta_path.insert(0, Finder)
