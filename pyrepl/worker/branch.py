"""Fork the worker into the worker of another session, between two jobs.

The worker forks twice, and the process between exits, so that the owner, a child subreaper, becomes
the parent of the branch. Before it says hello, the branch replaces everything that no two sessions
may share: process session, terminal, channel, streams, file offsets, event loop. Handlers that its
parent has registered for its exit run in the parent only.
"""

from __future__ import annotations

import os
import sys
from _socket import MSG_DONTWAIT, MSG_PEEK, socket, socketpair, timeout
from fcntl import ioctl
from posix import (
    P_PID, WEXITED, WNOHANG, WNOWAIT, close, dup2, getpid, kill, killpg, setpgid, setsid,
    waitid, waitpid)
from termios import TIOCSCTTY
from time import monotonic

from .carry import wraps
from .channel import foreign
from .loader import genuine
from .names import modules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from .forks import Forks
    from .protocols import Fields
    from .relatives import Relative
    from .session import Session
    from .shared import Files

FULL = "the session has too many files open; restart it"
NO_PROCESS = "the limit of processes or of memory is reached"
LIMIT = 5.0  # seconds until the branch has to be ready: it takes milliseconds
PAUSE = 0.02  # seconds between two checks whether the owner has given up
LATE = ("the forked process was not ready after %d s and was killed: a hook of os.register_at_fork "
        "or a lock that was held at the fork blocks it; run the code again in a new session" % LIMIT)
ENDED = ("the forked process ended (%s) before it was ready: a hook of os.register_at_fork "
         "can do that; run the code again in a new session")
GIVEN_UP = "the fork was given up"
SCARCE = 113  # exit code of the process between if it can't fork


def fork(session: Session, forks: Forks, fields: Fields, files: list[int],
         on_error: Callable[[BaseException], object]) -> None:
    """Fork, and return twice: in the worker, which answers, and in the branch, which says hello.

    What user code raises meanwhile, in a signal handler, goes to on_error."""
    from . import shared
    send, n = session.channel.send, fields["n"]
    error = FULL if len(files) < 4 else refusal(session)
    if not error:
        kept = shared.Files(session, forks, fields["session"], files)
        names = dict(session.names.namespace)
        attempt(lambda: flush(names))  # or both would write what is held
        state = random_state()
        ready: list[socket] = []
        error = split(session, forks, files[0], ready, on_error)
        if error is None:
            try:
                become(session, forks, fields, files, kept)
                restore_random(state)
                session.inherited = {name: id(value) for name, value in names.items()}
                session.parents_files = kept.known
                del names
                ready[0].send(b"1")
                ready[0].close()
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
    from . import idle, threads
    try:
        tasks = session.existing_tasks()
        reason = None if tasks is None else tasks.refusal()
        if reason:
            return reason
        idle.end(session.streams.threads, None if tasks is None else tasks.loop)
        return threads.refusal(session.streams.threads)
    except OSError as error:
        return "the process can't be inspected: %s" % error


def split(session: Session, forks: Forks, sock: int, ready: list[socket],
          on_error: Callable[[BaseException], object]) -> str | None:
    """Fork twice. Return None in the branch; in the worker "", or why there is no branch.

    The branch sends a byte over the socket in ready when it is one. Until then the process between
    stays, so that the worker can find both and kill them. The other end of sock, the branch's
    channel, is closed if the owner stops waiting."""
    try:
        ours, theirs = socketpair()
    except OSError:
        return FULL
    try:
        session.streams.flush_all()
        forks.branching = True
        middle = forks.real_fork()
        if not middle:
            split_again(forks)
            ready.append(theirs)
            return None
        theirs.close()
        try:
            setpgid(middle, middle)  # here too: a hook can block it before it does so
        except OSError:  # it has ended
            pass
        return outcome(middle, ours, sock, on_error)
    except OSError:
        return NO_PROCESS
    finally:
        forks.branching = False
        ours.close()
        if not ready:
            theirs.close()


def split_again(forks: Forks) -> None:
    """Fork the branch, and return in it. The process between ends as the branch does."""
    try:
        setpgid(0, 0)  # so that one signal reaches both
        child = forks.real_fork()
        if not child:
            return
        status = waitpid(child, 0)[1]
        if os.WIFSIGNALED(status):
            kill(getpid(), os.WTERMSIG(status))
        forks.real_exit(os.WEXITSTATUS(status))
    except OSError:
        forks.real_exit(SCARCE)
    except BaseException:
        forks.real_exit(1)


def outcome(middle: int, ours: socket, sock: int,
            on_error: Callable[[BaseException], object]) -> str:
    """Wait until the branch is ready, and end the process between, whose child it is.

    Return "", or why there is no branch: then nothing of it is left."""
    error, late = "", monotonic() + LIMIT
    channel = socket(fileno=sock)
    ours.settimeout(PAUSE)
    while not error:
        try:
            if ours.recv(1, MSG_PEEK):
                break
            error = verdict(reap(middle, on_error))
        except BaseException as raised:
            if type(raised) is not timeout or foreign():
                on_error(raised)
            error = GIVEN_UP if gone(channel) else LATE if monotonic() > late else ""
    channel.detach()
    if own(middle):  # user code has not reaped it
        if error:
            end_group(middle)
        else:
            kill(middle, 9)
    reap(middle, on_error)
    return error


def end_group(middle: int) -> None:
    """Kill the process between and its child, which may have left its process group."""
    from .relatives import children
    pids = list(children(middle))
    killpg(middle, 9)
    for pid, _ in pids:
        try:
            kill(pid, 9)
        except OSError:  # it was in the group
            pass


def reap(pid: int, on_error: Callable[[BaseException], object]) -> int:
    """Wait for the end of a child, and return its wait status."""
    while True:
        try:
            return waitpid(pid, 0)[1]
        except ChildProcessError:  # user code has reaped it
            return 0
        except BaseException as error:
            on_error(error)


def gone(channel: socket) -> bool:
    """Report whether the other end of a socket is closed."""
    try:
        return not channel.recv(1, MSG_PEEK | MSG_DONTWAIT)
    except BlockingIOError:
        return False


def verdict(status: int) -> str:
    """Return why there is no branch, by the wait status of the process between."""
    if os.WIFSIGNALED(status):
        return ENDED % ("signal %d" % os.WTERMSIG(status))
    code = os.WEXITSTATUS(status)
    return NO_PROCESS if code == SCARCE else ENDED % ("exit %d" % code)


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
    if session.pools is not None:
        session.pools.forget()
    session.interrupts.sync()
    session.interrupts.stop()
    forks.pid = getpid()
    kept.reopen()
    environ: Any = os.environ
    attempt(lambda: environ.__setitem__("ASYNC_REPL_JOB", fields["mark"]))
    tasks = session.existing_tasks()
    if tasks is not None:
        tasks.renew()
    forks.relatives.append(kept.worker)
    forks.foreign.update((pid, kept.worker) for pid in kept.children)
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


def checked(method: Callable[..., Any], foreign: dict[int, Relative]) -> Callable[..., Any]:
    """Return a method of Popen that raises for a child of another session."""
    @wraps(method)
    def for_own_child(self: Any, *args: Any, **options: Any) -> Any:
        pid = self.__dict__.get("pid")
        if pid in foreign and self.returncode is None and not own(pid):
            parent = foreign[pid]
            text = "belongs to session %s" if parent.lives() else (
                "belonged to the Python of session %s, which has ended")
            raise ChildProcessError("pid %d " % pid + text % parent.name)
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
