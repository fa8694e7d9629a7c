"""Change modules of the standard library, and a few others, when user code imports them.

A finder in front of sys.meta_path knows the few names below and costs the others one look into a
dictionary. The real loader executes the module; our change comes after it. A user's module of a
name in the standard library is left alone.
"""

from __future__ import annotations

import sys

from .frames import breakable
from .loader import finders, genuine, real

TYPE_CHECKING = False
if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

    from .session import Session


def change(session: Session, module: ModuleType, name: str) -> None:
    """Make our change to a module."""
    if name in LIBRARIES:
        from . import libraries
        libraries.change(session, module, name)
    elif name == "threading":
        from . import carry
        carry.threads(session.streams, module)
    elif name == "concurrent.futures.thread":
        from . import carry
        carry.pools(session.streams, module)
    elif name == "multiprocessing.process":
        from .pools import Pools
        session.pools = Pools(session.channel)
        session.pools.connect(module)
    elif name == "linecache":
        session.sources.connect(module)
    elif name == "traceback":
        from . import tracebacks
        tracebacks.connect(session.sources, module)
    elif name == "inspect":
        from . import classes
        classes.connect(session.sources, module)
    elif name == "getpass":
        session.console.hook_getpass(module)
    elif name == "webbrowser":
        from . import libraries
        libraries.no_browser(module)
    elif name == "asyncio.tasks":
        session.tasks().connect(module)
    elif name == "bdb":
        from . import debugger
        debugger.hide_frames(module, session.interrupts.deliver)
    elif name == "pdb":
        from . import debugger
        debugger.ask_by_input(module)
    else:
        from . import processes
        processes.changes[name](session.names, module)


# Not of the standard library, see libraries.
LIBRARIES = {"matplotlib.pyplot", "IPython.core.display_functions", "plotly.io._renderers",
             "PIL.ImageShow", "tqdm.notebook", "rich.progress"}

names = LIBRARIES | {
    "threading", "concurrent.futures.thread", "linecache", "traceback", "inspect", "getpass",
    "webbrowser", "asyncio.tasks", "bdb", "pdb", "multiprocessing.context",
    "multiprocessing.reduction",
    "multiprocessing.pool", "multiprocessing.process", "multiprocessing.spawn",
    "multiprocessing.forkserver", "concurrent.futures.process",
}


class Finder:
    """Finds a module as the others do, and hooks into its loading."""

    def __init__(self, session: Session) -> None:
        self.session = session

    @breakable
    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name not in names:
            return None
        for finder in sys.meta_path:
            if finder is not self and hasattr(finder, "find_spec"):
                spec = finder.find_spec(name, path, target)
                if spec is not None:
                    return self._attach(spec, name)
        return None

    @breakable
    def _attach(self, spec: ModuleSpec, name: str) -> ModuleSpec:
        """Have the loader of a module make our change to it, if it is the one that we know."""
        loader: Any = spec.loader
        deliver = self.session.interrupts.deliver
        known = name in LIBRARIES or real(spec.origin or "")
        if known and hasattr(loader, "exec_module"):
            execute = loader.exec_module

            @breakable
            def exec_module(module: ModuleType) -> None:
                loader.__dict__.pop("exec_module", None)
                execute(module)
                change(self.session, module, name)
                deliver()

            loader.exec_module = exec_module
        deliver()
        return spec


def install(session: Session) -> None:
    """Change what site has imported already, and hook into all imports to come."""
    for name in names:
        module = sys.modules.get(name)
        if module is not None and (name in LIBRARIES or genuine(module)):
            change(session, module, name)
    finder = Finder(session)
    finders.append(finder)
    sys.meta_path.insert(0, finder)
