"""The exit of an idle worker, which the owner asks for and cuts off if it takes too long.

What would be lost comes first: the user's open files, then the atexit handlers, among them those
of logging, multiprocessing and temporary directories. The exit neither waits for threads nor tears
the interpreter down.
"""

from __future__ import annotations

from _io import TextIOWrapper, _IOBase
from _thread import _count
from posix import _exit, fstat

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
        attempt(lambda: release(namespace, session.inherited))  # closes archives, for example
    attempt(lambda: flush_all(session.parents_files))
    attempt(session.streams.flush_all)
    _exit(0)


def attempt(step: Callable[[], object]) -> None:
    """Take a step of the exit and drop what it raises: the next steps follow."""
    try:
        step()
    except BaseException:
        pass


def release(namespace: dict[str, Any], inherited: dict[str, int]) -> None:
    """Remove all names, the newest first: finalizers use modules and classes, which are older.

    A branch keeps its parent's values: the parent needs the files that a finalizer deletes."""
    for name in reversed(list(namespace)):
        if inherited.get(name) != id(namespace.get(name)):
            namespace.pop(name, None)


def run_handlers() -> None:
    """Run the atexit handlers. Python reports what they raise."""
    import atexit
    atexit._run_exitfuncs()


def flush_all(known: dict[int, tuple[int, int]]) -> None:
    """Flush every open file, wherever a reference to it is kept.

    A branch skips the hidden files that it knows from its parent: the parent flushes them."""
    import gc
    flush([each for each in gc.get_objects() if issubclass(type(each), _IOBase)
           and not (known and theirs(each, known))])


def theirs(file: Any, known: dict[int, tuple[int, int]]) -> bool:
    """Report whether a file was open before the branch."""
    try:
        fd = file.fileno()
        status = fstat(fd)
        return known.get(fd) == (status.st_dev, status.st_ino)
    except Exception:
        return False


def flush(objects: Iterable[Any]) -> None:
    """Flush the files among objects: text files first, because they write to binary ones."""
    files = [each for each in objects if issubclass(type(each), _IOBase)]
    for each in sorted(files, key=lambda file: type(file) is not TextIOWrapper):
        attempt(each.flush)
