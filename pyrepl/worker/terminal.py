"""The controlling terminal, which is descriptor 0.

After each job it is as it was: descriptor 0 itself, the foreground group, the modes, and no input
that was typed and not read. All of it goes by a private copy of the descriptor. TCFLSH must go to
this side: on the other it would throw away the program's output.
"""

from __future__ import annotations

from _signal import (  # type: ignore[import-not-found]
    SIG_BLOCK, SIG_SETMASK, SIGTTOU, pthread_sigmask)
from posix import close, dup, dup2, getpgrp, isatty, tcgetpgrp, tcsetpgrp
from termios import TCIFLUSH, TCSANOW, error, tcflush, tcgetattr, tcsetattr

from .descriptors import move_high


class Terminal:
    """The terminal as it was before the first job."""

    def __init__(self) -> None:
        self.take()

    def take(self) -> None:
        """Take the terminal on descriptor 0 as it is."""
        self._tty = move_high(dup(0)) if isatty(0) else -1  # the private copy; -1: no terminal
        self._modes = tcgetattr(self._tty) if self._tty >= 0 else []

    def restore(self) -> None:
        """Put everything back as it was."""
        tty = self._tty
        if tty < 0:
            return
        try:
            dup2(tty, 0)
            if tcgetpgrp(tty) != getpgrp():
                self._take_foreground()
            if tcgetattr(tty) != self._modes:
                tcsetattr(tty, TCSANOW, self._modes)
            tcflush(tty, TCIFLUSH)
        except (OSError, error):  # hung up, or closed by user code
            pass

    def _take_foreground(self) -> None:
        """Make our group the foreground group; SIGTTOU would stop that from the background."""
        blocked = pthread_sigmask(SIG_BLOCK, (SIGTTOU,))
        try:
            tcsetpgrp(self._tty, getpgrp())
        finally:
            pthread_sigmask(SIG_SETMASK, blocked)

    def leave(self) -> None:
        """Close the copy, in a forked child."""
        if self._tty >= 0:
            close(self._tty)
            self._tty = -1
