"""The fork of the worker into one of another session, between two jobs.

The worker forks twice, and the process between exits, so that the branch comes to the owner. Before
it says hello, the branch takes what no two sessions may share: process session, terminal, channel,
streams, file offsets, event loop. What runs at the end of its parent does not run at its own.
"""

from __future__ import annotations

import os
import sys
from fcntl import ioctl
from posix import (
    P_PID, WEXITED, WNOHANG, WNOWAIT, close, dup2, getpid, setsid, waitid, waitpid)
from termios import TIOCSCTTY

from .carry import wraps
from .loader import genuine
from .names import modules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from .forks import Forks
    from .protocols import Fields
    from .session import Session
    from .shared import Files

FULL = "the session has too many files open; restart it"
NO_PROCESS = "the limit of processes or of memory is reached"


def fork(session: Session, forks: Forks, fields: Fields, files: list[int],
         on_error: Callable[[BaseException], object]) -> None:
    """Fork, and return twice: in the worker, which answers, and in the branch, which says hello.

    What user code raises meanwhile, in a signal handler, goes to on_error."""
    from . import shared
    send, n = session.channel.send, fields["n"]
    error = FULL if len(files) < 4 else refusal(session)
    if not error:
        kept = shared.Files(session, files)
        names = dict(session.names.namespace)
        attempt(lambda: flush(names))  # or both would write what is held
        state = random_state()
        error = split(session, forks, on_error)
        if error is None:
            try:
                become(session, forks, fields, files, kept)
                restore_random(state)
                session.inherited = {name: id(value) for name, value in names.items()}
                session.parents_files = kept.known
                del names
                send("hello", version="%d.%d.%d" % sys.version_info[:3])
            except BaseException:
                forks.real_exit(1)
            return
    for fd in files:
        close(fd)
    if error:
        send("forked", n=n, error=error)
    else:
        send("forked", n=n, shared=kept.shared)


def refusal(session: Session) -> str | None:
    """Return why the worker can't be forked now, or None."""
    from . import threads
    try:
        tasks = session.existing_tasks()
        reason = None if tasks is None else tasks.refusal()
        return reason or threads.refusal(session.streams.threads)
    except OSError as error:
        return "the process can't be inspected: %s" % error


def split(session: Session, forks: Forks,
          on_error: Callable[[BaseException], object]) -> str | None:
    """Fork twice. Return None in the branch; in the worker "", or why there is no branch."""
    session.streams.flush_all()
    forks.branching = True
    try:
        middle = forks.real_fork()
        if not middle:
            try:
                child = forks.real_fork()
            except BaseException:
                forks.real_exit(1)
            if child:
                forks.real_exit(0)
            return None
    except OSError:
        return NO_PROCESS
    finally:
        forks.branching = False
    while True:
        try:
            return NO_PROCESS if waitpid(middle, 0)[1] else ""
        except ChildProcessError:  # user code has reaped it
            return ""
        except BaseException as error:
            on_error(error)


def become(session: Session, forks: Forks, fields: Fields, files: list[int], kept: Files) -> None:
    """Make this process, which was just forked, the worker of another session."""
    sock, slave, out, err = files
    session.channel.move(sock, fields["token"])
    setsid()
    ioctl(slave, TIOCSCTTY, 0)
    dup2(slave, 0)
    close(slave)
    session.terminal.leave()
    session.terminal.take()
    session.streams.branched([out, err])
    session.interrupts.sync()
    session.interrupts.stop()
    forks.pid = getpid()
    kept.reopen()
    environ: Any = os.environ
    attempt(lambda: environ.__setitem__("ASYNC_REPL_JOB", fields["mark"]))
    tasks = session.existing_tasks()
    if tasks is not None:
        tasks.renew()
    forks.foreign.update((pid, fields["session"]) for pid in kept.children)
    disown(forks)
    drop_handlers()


def disown(forks: Forks) -> None:
    """Have no Popen wait for a child of another session: Python would take it for ended."""
    if not genuine(modules.get("subprocess")):
        return
    from subprocess import Popen
    if Popen is forks.disowning:
        return
    forks.disowning = Popen
    for name in ("poll", "wait", "communicate"):
        setattr(Popen, name, checked(getattr(Popen, name), forks.foreign))


def checked(method: Callable[..., Any], foreign: dict[int, str]) -> Callable[..., Any]:
    """Return a method of Popen that raises for a child of another session."""
    @wraps(method)
    def for_own_child(self: Any, *args: Any, **options: Any) -> Any:
        pid = self.__dict__.get("pid")
        if pid in foreign and self.returncode is None and not own(pid):
            raise ChildProcessError("pid %d belongs to session %s" % (pid, foreign[pid]))
        return method(self, *args, **options)

    return for_own_child


def own(pid: int) -> bool:
    """Report whether pid is a child of this process, which may have ended."""
    try:
        waitid(P_PID, pid, WEXITED | WNOHANG | WNOWAIT)
        return True
    except OSError:
        return False


def drop_handlers() -> None:
    """Forget what the parent has to do at its end: atexit handlers and finalizers."""
    import atexit
    atexit._clear()
    if genuine(modules.get("weakref")):
        from weakref import finalize
        registry: dict[Any, Any] = finalize._registry  # type: ignore[attr-defined]
        registry.clear()
        finalize._registered_with_atexit = False  # type: ignore[attr-defined]


def random_state() -> Any:
    """Return the state of `random`, which a fork changes, or None."""
    if not genuine(modules.get("random")):
        return None
    from random import getstate
    return getstate()


def restore_random(state: Any) -> None:
    """Continue with the random numbers of the parent."""
    if state is not None:
        from random import setstate
        setstate(state)


def flush(names: dict[str, Any]) -> None:
    """Flush the files among the values of the namespace."""
    from .exit import flush
    flush(names.values())


def attempt(step: Callable[[], object]) -> None:
    """Take a step that may run user code, and drop what it raises."""
    try:
        step()
    except BaseException:
        pass
