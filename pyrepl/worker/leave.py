"""The exit of an idle worker, which the owner asks for and cuts off if it takes too long.

What would be lost comes first: files that are open, then the atexit handlers, among them those of
logging, of multiprocessing and of temporary directories. Threads are not waited for, and the
interpreter is not torn down.
"""

from __future__ import annotations

from _io import TextIOWrapper, _IOBase
from _thread import _count
from posix import _exit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Iterable, NoReturn

    from .session import Session


def leave(session: Session) -> NoReturn:
    """Do what Python does at its exit, and exit."""
    namespace = session.names.namespace
    attempt(lambda: flush(list(namespace.values())))
    attempt(run_handlers)
    if _count() == 0:  # else a thread would miss its names
        attempt(lambda: release(namespace))  # closes archives, deletes temporary files
    attempt(flush_all)
    attempt(session.streams.flush_all)
    _exit(0)


def attempt(step: Callable[[], object]) -> None:
    """Take a step of the exit. An exception ends no more than that."""
    try:
        step()
    except BaseException:
        pass


def release(namespace: dict[str, Any]) -> None:
    """Let go of the newest names first: finalizers use modules and classes, which came before."""
    while namespace:
        namespace.popitem()


def run_handlers() -> None:
    """Run the atexit handlers. Python reports what they raise."""
    import atexit
    atexit._run_exitfuncs()


def flush_all() -> None:
    """Flush every open file, wherever a reference to it is kept."""
    import gc
    flush(gc.get_objects())


def flush(objects: Iterable[Any]) -> None:
    """Flush the files among objects: text first, which a binary file below it takes."""
    files = [each for each in objects if issubclass(type(each), _IOBase)]
    for each in sorted(files, key=lambda file: type(file) is not TextIOWrapper):
        attempt(each.flush)
