"""Processes of pools write to the job that runs, because a session reuses them in later jobs.

A pool's processes get pipes of the session in place of the job's, whatever starts them: a fork, or
a new interpreter. The call that starts one is recognized by our frame on the stack, so there is no
state that an interrupt could leave behind. Other processes keep the pipes of their job.
"""

from __future__ import annotations

import sys
from posix import close, dup2, pipe

from .carry import POOLS, wraps
from .descriptors import copy_high
from .frames import breakable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType, FrameType, ModuleType
    from typing import Any

    from .channel import Channel

OUT, ERR = 9, 11  # arguments of fork_exec: what becomes stdout and stderr, or -1


class Pools:
    """The session's pipes for the processes of pools."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.files: tuple[int, int] | None = None  # once a pool has been started
        self._start: CodeType | None = None
        self._hooked = False  # into the start of interpreters

    def connect(self, module: ModuleType) -> None:
        """Recognize the processes of pools, in multiprocessing.process, when they are started."""
        start = module.BaseProcess.start

        @wraps(start)
        def pool_start(self_: Any) -> None:
            start(self_)

        @wraps(start)
        def any_start(self_: Any) -> None:
            target = getattr(self_, "_target", None)
            # The server of forkserver is started with the first process, and serves all later ones.
            if (getattr(target, "__module__", None) in POOLS
                    or getattr(self_, "_start_method", None) == "forkserver") and self._open():
                pool_start(self_)
            else:
                start(self_)

        self._start = pool_start.__code__
        module.BaseProcess.start = any_start

    def _open(self) -> bool:
        """Return whether there are pipes; make them when they are first needed."""
        if self.files is None and self.channel.sock is not None:
            ends: list[int] = []
            try:
                ends += pipe()
                ends += pipe()
                self.files = copy_high(ends[1]), copy_high(ends[3])
                self.channel.send("pools", files=[ends[0], ends[2]])
            except OSError:  # there are no more descriptors: they get the job's pipes
                return False
            finally:
                for fd in ends:
                    close(fd)
            self._hook()
        return self.files is not None

    def _hook(self) -> None:
        """Give a new interpreter the pipes, too."""
        if self._hooked:
            return
        self._hooked = True
        import _posixsubprocess
        fork_exec = _posixsubprocess.fork_exec

        @wraps(fork_exec)
        def fork_exec_in(*args: Any) -> int:
            files = self.files
            if files is not None and args[OUT] == args[ERR] == -1 and self._starting():
                args = (*args[:OUT], files[0], args[OUT + 1], files[1], *args[ERR + 1:])
            return fork_exec(*args)

        _posixsubprocess.fork_exec = fork_exec_in

    @breakable
    def _starting(self) -> bool:
        """Report whether a process of a pool is being started on this stack."""
        frame: FrameType | None = sys._getframe()
        while frame is not None and frame.f_code is not self._start:
            frame = frame.f_back
        return frame is not None

    def forked(self) -> None:
        """Have a forked process of a pool write to the pipes."""
        if self.files is not None and self._starting():
            out, err = self.files
            dup2(out, 1)
            dup2(err, 2)

    def forget(self) -> None:
        """Leave the pipes to the parent, in a branch of the worker."""
        if self.files is not None:
            for fd in self.files:
                close(fd)
            self.files = None
