"""Make threads and pools carry the job that they work for.

A thread is marked with the job that starts it; a pool's thread works for the job that submitted the
work. A thread that manages a pool of processes carries no job: what it prints is for the one that
runs. Only our variable travels: the user's context is as it would be without us.
"""

from __future__ import annotations

from _weakref import ref
from functools import wraps as copy_metadata

from .frames import breakable
from .streams import carried

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any, Callable, TypeVar

    from .streams import Streams

    Function = TypeVar("Function", bound=Callable[..., Any])


# The modules of pools of processes.
POOLS = {"multiprocessing.pool", "concurrent.futures.process", "loky.process_executor",
         "joblib.externals.loky.process_executor"}


def manages(thread: Any) -> bool:
    """Report whether a thread manages a pool of processes, for whatever job uses the pool.

    It runs the callbacks of that job, and joblib's reports of progress."""
    if type(thread).__module__ in POOLS:
        return True
    target = getattr(thread, "_target", None)
    return (getattr(target, "__module__", None) in POOLS
            and getattr(target, "__name__", "").startswith("_handle_"))


def threads(streams: Streams, module: ModuleType) -> None:
    """Mark each thread as it is started."""
    start = module.Thread.start

    @wraps(start)
    def marked_start(self: Any) -> None:
        if manages(self):
            start(self)
            return
        self._async_repl_job = streams.current()
        start(self)
        streams.marked.append(ref(self))

    module.Thread.start = marked_start
    streams.threads = module._active


def pools(streams: Streams, module: ModuleType) -> None:
    """Let each piece of work of a ThreadPoolExecutor carry its job.

    Our frames stand outside of the place where the pool catches what the work raises, so that they
    are in no traceback of it."""
    item = getattr(module, "_WorkItem", None)
    if item is None:
        return
    init, run = item.__init__, item.run

    @wraps(init)
    def marked_init(self: Any, *args: Any, **kwargs: Any) -> None:
        self._async_repl_job = streams.current()
        init(self, *args, **kwargs)

    @wraps(run)
    def carried_run(self: Any, *args: Any, **kwargs: Any) -> Any:
        token = carried.set(self.__dict__.pop("_async_repl_job", None))
        try:
            return run(self, *args, **kwargs)
        finally:
            carried.reset(token)

    item.__init__ = marked_init
    item.run = carried_run


def wraps(original: Callable[..., Any]) -> Callable[[Function], Function]:
    """Return a decorator for a breakable function that takes the place of original."""
    def decorate(function: Function) -> Function:
        return copy_metadata(original)(breakable(function))  # type: ignore[return-value]
    return decorate
