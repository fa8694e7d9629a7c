"""Forked children of user code.

A child keeps the job that it was forked in, writes to its descriptors 1 and 2, and leaves the
channel and the terminal's copy to the parent. When it runs off the end of the user's code it ends
there: it is not another worker.
"""

from __future__ import annotations

import os
import posix
import sys
from posix import getpid

from .names import imitate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from .relatives import Relative
    from .session import Session


class Forks:
    """The hooks into forks and exits."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.pid = getpid()  # the worker's own pid, which a forked child does not have
        self.real_exit, self.real_fork = posix._exit, posix.fork
        self.branching = False  # the child will be a worker too, see branch
        self.relatives: list[Relative] = []  # a branch's ancestors, the oldest first
        self.foreign: dict[int, Relative] = {}  # the pids of the ancestors' children
        self.disowning: object = None  # the Popen that refuses to wait for these children

    def _in_child(self) -> None:
        """Make a child of the worker an ordinary process."""
        if self.branching:
            return
        session = self.session
        session.interrupts.noted = False
        session.channel.leave()
        session.console.leave()
        if session.pools is not None:
            session.pools.forked()
        session.streams.forked()
        session.terminal.leave()

    def end(self, error: BaseException | None) -> NoReturn:
        """End a child that has run off the end of the user's code."""
        session, code = self.session, 0
        try:
            session.interrupts.stop()
            if error is not None:
                code = session.reporter().ending(error).get("code", 1)
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
        except BaseException:
            pass
        finally:
            session.streams.flush_all()
            self.real_exit(code & 0xFF)

    def install(self) -> None:
        """Hook into forks and exits."""
        flush, deliver = self.session.streams.flush_all, self.session.interrupts.deliver
        # Flushed before, or parent and child would both write what is held.
        posix.register_at_fork(before=flush, after_in_child=self._in_child)

        def _exit(status: int) -> NoReturn:
            flush()
            self.real_exit(status)

        def fork() -> int:
            child = self.real_fork()
            if getpid() == self.pid:
                deliver()  # hooks of forks would have swallowed an interrupt that came in them
            return child

        imitate(_exit, "posix", posix._exit)
        imitate(fork, "posix", posix.fork)
        os._exit, os.fork = _exit, fork
