"""The exit of an idle worker, which the owner asks for and cuts off if it takes too long.

What would be lost comes first: the user's open files, then the atexit handlers, among them those
of logging, multiprocessing and temporary directories. The exit neither waits for threads nor tears
the interpreter down.
"""

from __future__ import annotations

from _io import TextIOWrapper, _IOBase
from _thread import _count
from posix import _exit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Iterable, NoReturn

    from .session import Session


def exit_cleanly(session: Session) -> NoReturn:
    """Run the atexit handlers, flush what is open, and exit."""
    namespace = session.names.namespace
    attempt(lambda: flush(list(namespace.values())))
    attempt(run_handlers)
    if _count() == 0:  # else a thread would miss the names
        attempt(lambda: release(namespace))  # closes archives, deletes temporary files
    attempt(flush_all)
    attempt(session.streams.flush_all)
    _exit(0)


def attempt(step: Callable[[], object]) -> None:
    """Take a step of the exit and drop what it raises: the next steps follow."""
    try:
        step()
    except BaseException:
        pass


def release(namespace: dict[str, Any]) -> None:
    """Remove all names, the newest first: finalizers use modules and classes, which are older."""
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
    """Flush the files among objects: text files first, because they write to binary ones."""
    files = [each for each in objects if issubclass(type(each), _IOBase)]
    for each in sorted(files, key=lambda file: type(file) is not TextIOWrapper):
        attempt(each.flush)
