"""pyplot's figures: plt.show, or the end of their job, shows them once and closes them."""

from __future__ import annotations

import os
from _weakref import ref
from time import monotonic

from .carry import wraps
from .frames import breakable
from .names import modules
from .views import text_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any, Callable

    from .display import Displays
    from .interrupts import Interrupts

AGAIN = 2  # seconds that an interrupted job may draw before it is interrupted again


class Figures:
    """The figures that pyplot has open."""

    def __init__(self, displays: Displays, interrupts: Interrupts, pyplot: ModuleType) -> None:
        self.displays, self.interrupts = displays, interrupts
        self._managers: dict[Any, Any] = modules["matplotlib._pylab_helpers"].Gcf.figs
        self._close: Callable[[Any], None] = pyplot.close
        self._shown: list[ref[Any]] = []  # figures that this job has shown and left open
        self._connect(pyplot)

    def _connect(self, pyplot: Any) -> None:
        """Take over plt.show, and note which job makes a figure."""
        if "MPLBACKEND" not in os.environ:
            dict.__setitem__(pyplot.rcParams, "backend", "agg")

        @wraps(pyplot.show)
        def show(*args: Any, **options: Any) -> None:
            if not paused(pyplot):
                self._show_each(list(self._managers), True)
                self.interrupts.deliver()

        @wraps(pyplot.new_figure_manager)
        def new_figure_manager(*args: Any, **options: Any) -> Any:
            manager = make(*args, **options)
            manager.__dict__["_async_repl_job"] = self.displays.streams.current().id
            return manager

        make = pyplot.new_figure_manager
        pyplot.show, pyplot.new_figure_manager = show, new_figure_manager

    def current(self) -> Any:
        """Return pyplot's current figure, or None if none is open."""
        for number in reversed(list(self._managers)):
            return self._managers[number].canvas.figure
        return None

    def note_shown(self, figure: Any) -> None:
        """Note that a figure was shown as it is now."""
        self._shown.append(ref(figure))

    @breakable
    def _show_each(self, numbers: list[Any], asked: bool = False) -> None:
        """Show figures and close them. Of an empty one the name is printed if user code asked."""
        for number in numbers:
            manager = self._managers.get(number)
            if manager is None:
                continue
            figure = manager.canvas.figure
            if empty(figure):
                if asked:
                    print(text_of(figure))
            elif not self._seen(figure):
                self.displays.display((figure,))
            self._close(number)

    def _seen(self, figure: Any) -> bool:
        """Report whether a figure was shown by this job and has not changed."""
        return not figure.stale and any([each() is figure for each in self._shown])

    def end(self, job: str) -> None:
        """Show and close the figures that a job has left open.

        A figure that a thread of an earlier job makes is not shown: it is not this job's."""
        if not self._managers and not self._shown:
            return
        numbers = [number for number, manager in list(self._managers.items())
                   if manager.__dict__.get("_async_repl_job", job) == job]
        if self.interrupts.interrupted:
            self.interrupts.again_at = monotonic() + AGAIN
        try:
            if self.displays.channel.sock is not None:
                self._show_each(numbers)
        finally:
            self.interrupts.again_at = 0.0
            self._shown.clear()
            for number in numbers:  # these figures could not be shown
                self._managers.pop(number, None)


def empty(figure: Any) -> bool:
    """Report whether a figure has nothing but its background."""
    return len(figure.get_children()) <= 1


def paused(pyplot: Any) -> bool:
    """Report whether plt.pause is what calls plt.show: more is to be drawn."""
    import sys
    frame = sys._getframe(2)
    return frame.f_code is getattr(pyplot.pause, "__code__", None)
