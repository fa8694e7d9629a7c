"""Interrupts: a KeyboardInterrupt in the code of the job that runs, or nothing.

The handler of SIGINT checks the innermost frame of ours on the stack. Only if that may be left
anywhere (see frames) does it raise. In other code of ours it makes a note, and that code calls
`deliver` where it returns to user code. Between jobs an interrupt is dropped.

Go asks by SIGURG, which stands for one SIGINT a job, and repeats it until the job has ended. It
signals only between sending a job and syncing after it, so a SIGURG between jobs is either early,
for the job that has been sent, or late, and then the sync drops it.

A SIGINT itself could be lost. The C library ignores it while system runs
(https://man7.org/linux/man-pages/man3/system.3.html). If it arrives just before a call blocks, the
interpreter has checked for signals already and runs the handler only when the call returns
(https://docs.python.org/3/library/signal.html#execution-of-python-signal-handlers). The next SIGURG
ends such a call with EINTR, and the interpreter checks again.
It also renews an interrupt that was noted and not delivered yet, or that was raised where Python
swallows it: in a finalizer, in a callback of a weak reference, in a hook of a fork.

If the client asks again after the code has caught its KeyboardInterrupt, Go sends a SIGINT.

Go sends SIGIO to have text flushed that a router has said it holds back (see routers).
"""

from __future__ import annotations

import sys
from _signal import (  # type: ignore[import-not-found]
    SIG_UNBLOCK, SIGINT, SIGIO, SIGURG, default_int_handler, getsignal, pthread_sigmask, signal)
from _thread import get_ident
from time import monotonic

from .frames import breakable, innermost, marked

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Callable

    from .protocols import Loop


class Interrupts:
    """The handlers of signals, and what they know of the running job."""

    def __init__(self, on_raised: Callable[[bool], object], flush: Callable[[], object]) -> None:
        """Call on_raised when user code is interrupted, and flush for SIGIO.

        The argument of on_raised is True if the code's own handler gets the interrupt instead."""
        self.main = get_ident()
        self.live = False  # a job has started and not ended
        self.early = False  # Go has asked for an interrupt between jobs
        self.asked = False  # Go has asked for the job's interrupt
        self.noted = False  # an interrupt waits for user code to run again
        self.interrupted = False  # the running job was interrupted
        self.again_at = 0.0  # from then on a repeated request interrupts again; 0: never
        self.held = False  # interrupts are noted, whatever runs
        self.sending: Callable[[], bool] = bool  # whether a signal handler has broken into an event
        self.loop: Loop | None = None  # set by tasks, once asyncio is imported
        self._on_raised = on_raised
        self._flush = flush
        self._handlers = (
            (SIGINT, self._on_sigint), (SIGIO, self._on_sigio), (SIGURG, self._on_sigurg))

    def _on_sigint(self, signum: int, frame: FrameType | None) -> None:
        if not self.live:
            return
        ours = innermost(frame)
        if self.held or self.sending() or ours is None or ours.f_code not in marked:
            self.noted = True
            return
        loop = self.loop
        driven = loop is not None and loop.drives(ours)
        if loop is not None and not driven and loop.postpone(frame):
            self.asked = False  # the loop may end before: then the next SIGURG is another try
            return
        self.raised()
        if loop is None or not driven or loop.interrupt(frame):
            raise KeyboardInterrupt

    def _on_sigurg(self, signum: int, frame: FrameType | None) -> None:
        """Handle the first request of a job like a SIGINT, by the handler that it has now."""
        if not self.live:
            self.early = True
            return
        if self.asked and not self.noted and not 0 < self.again_at < monotonic():
            return
        self.asked, self.noted, self.again_at = True, False, 0.0
        current = getsignal(SIGINT)
        if current not in (self._handlers[0][1], default_int_handler) and not self.sending():
            self._on_raised(True)
        if callable(current):
            current(SIGINT, frame)

    def _on_sigio(self, signum: int, frame: FrameType | None) -> None:
        try:
            self._flush()
        except RuntimeError:  # it came in the middle of a write, which flushes or will
            pass

    def raised(self) -> None:
        """Note and report that user code is being interrupted: its children need no more of it."""
        self.interrupted = True
        self._on_raised(False)

    def _on_unraisable(self, unraisable: sys.UnraisableHookArgs) -> None:
        """Handle an exception that Python is about to swallow: an interrupt must come again."""
        if (self.live and self.interrupted and issubclass(unraisable.exc_type, KeyboardInterrupt)
                and get_ident() == self.main):
            self.asked = False
            return
        held, self.held = self.held, True  # else an interrupt could break off the report
        try:
            sys.__unraisablehook__(unraisable)
        finally:
            self.held = held

    @breakable
    def deliver(self) -> None:
        """Raise an interrupt that was noted. Only the main thread has interrupts.

        It would tear an event that a signal handler, which runs now, has broken into."""
        if self.noted and get_ident() == self.main and not self.sending():
            self.noted = False
            self.raised()
            raise KeyboardInterrupt

    def take(self) -> bool:
        """Take the interrupt that deliver would raise, for a caller that acts on it otherwise."""
        taken, self.noted = self.noted, False
        self.interrupted |= taken
        return taken

    def start(self) -> None:
        """Begin a job: from here on interrupts are its own."""
        self.install()
        pthread_sigmask(SIG_UNBLOCK, (SIGINT, SIGIO, SIGURG))
        self.asked = self.noted = self.interrupted = False
        self.again_at = 0.0
        self.live = True
        if self.early:  # raised before the code runs
            self.early = False
            self.asked = self.noted = True

    def sync(self) -> None:
        """Drop what was asked for between jobs: it came late, for a job that is over."""
        self.early = False

    def stop(self) -> bool:
        """Stop delivering interrupts and return whether the job had one, or may have had one.

        It may have had one if user code has set its own handler of SIGINT."""
        self.live = self.noted = False
        return self.interrupted or getsignal(SIGINT) is not self._handlers[0][1]

    def install(self) -> None:
        """Take the signals, whatever user code did with them."""
        for number, handler in self._handlers:
            if getsignal(number) is not handler:
                signal(number, handler)

    def hook_unraisable(self) -> None:
        """Take the hook for exceptions that Python swallows."""
        sys.unraisablehook = self._on_unraisable
