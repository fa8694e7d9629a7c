"""Makes threads and pools carry the job that they work for.

A thread is marked with the job that starts it; a pool's thread works for the
job that submitted the work. Only our variable travels: the user's context is
as it would be without us.
"""

from _weakref import ref
from functools import wraps

from . import streams
from .interrupts import breakable


def threads(module):
    """Marks each thread as it is started."""
    start = module.Thread.start

    def marked_start(self):
        self._async_repl_job = streams.current()
        start(self)
        streams.marked.append(ref(self))

    module.Thread.start = like(start, marked_start)
    streams.threads = module._active


def pools(module):
    """Lets each piece of work of a ThreadPoolExecutor carry its job.

    Our frames stand outside of the place where the pool catches what the work
    raises, so that they are in no traceback of it."""
    item = getattr(module, "_WorkItem", None)
    if item is None:
        return
    init, run = item.__init__, item.run

    def marked_init(self, *args, **kwargs):
        self._async_repl_job = streams.current()
        init(self, *args, **kwargs)

    def carried_run(self, *args, **kwargs):
        token = streams.carried.set(self.__dict__.pop("_async_repl_job", None))
        try:
            return run(self, *args, **kwargs)
        finally:
            streams.carried.reset(token)

    item.__init__ = like(init, marked_init)
    item.run = like(run, carried_run)


def like(original, function):
    """Gives function the looks of the one it stands in for."""
    breakable(function)
    return wraps(original)(function)
