"""The state of a session, and the parts that share it."""

from __future__ import annotations

import builtins
import sys

from .console import Console
from .environment import install_size
from .frames import breakable
from .interrupts import Interrupts
from .names import Names, imitate
from .sources import Sources
from .terminal import Terminal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .channel import Channel
    from .display import Displays
    from .pools import Pools
    from .report import Reporter
    from .streams import Streams
    from .tasks import Tasks


class Session:
    """All that outlives a job. Each part owns its own state; none is global."""

    def __init__(self, channel: Channel, streams: Streams) -> None:
        self.channel, self.streams = channel, streams
        self.displayhook, self.excepthook = sys.displayhook, sys.excepthook  # Python's or a site's
        self.interrupts = Interrupts(self._on_raised, streams.flush_pieces)
        self.interrupts.sending = channel.interrupted
        streams.ask_to_flush = self._ask_to_flush
        self.sources = Sources()
        streams.shown = self.sources.shown
        self.names = Names(sys.modules["__main__"])
        self.terminal = Terminal()
        self.console = Console(channel, self.interrupts, streams)
        self.pools: Pools | None = None  # once multiprocessing is imported
        self.inherited: dict[str, int] = {}  # a branch's names, and the ids of their first values
        self.parents_files: dict[int, tuple[int, int]] = {}  # a branch's files, see shared
        self._displays: Displays | None = None
        self._tasks: Tasks | None = None
        self._reporter: Reporter | None = None

    def _on_raised(self, handler: bool) -> None:
        job = self.streams.running
        if job is not None:  # a forked child can have no job
            self.channel.send("raised", id=job.id, handler=handler)

    def _ask_to_flush(self, stream: str) -> bool:
        """Ask the owner to have a stream flushed (see routers), and return whether it was asked.

        It can't be asked while an event is being sent: a signal handler of user code, which prints
        here, may have interrupted that, and would wait for itself."""
        if self.channel.sending():
            return False
        self.channel.send("held", stream=stream)
        self.interrupts.deliver()
        return True

    def tasks(self) -> Tasks:
        """Return the event loop's side, loaded when it is first needed."""
        if self._tasks is None:
            from .tasks import Tasks
            self._tasks = Tasks(self.interrupts, self.streams,
                                lambda descriptor: self.channel.send("loop", fd=descriptor))
        return self._tasks

    def existing_tasks(self) -> Tasks | None:
        """Return the event loop's side, or None if it was never needed."""
        return self._tasks

    def reporter(self) -> Reporter:
        """Return the reporter of exceptions, loaded when it is first needed."""
        if self._reporter is None:
            from .report import Reporter
            self._reporter = Reporter(self.interrupts, self.sources, self.streams, self.excepthook)
        return self._reporter

    def displays(self) -> Displays:
        """Return what shows values, loaded when it is first needed."""
        if self._displays is None:
            from .display import Displays
            self._displays = Displays(self.channel, self.streams, self.interrupts)
        return self._displays

    def displays_left(self) -> int:
        """Return how many displays of the last job were left out."""
        return 0 if self._displays is None else self._displays.counts().left

    def end_figures(self) -> None:
        """Show and close the figures that the running job has left open."""
        job, displays = self.streams.running, self._displays
        if job is not None and displays is not None and displays.figures is not None:
            displays.figures.end(job.id)

    def _install_display(self) -> None:
        """Make display and display_figure built-in functions."""
        @breakable
        def display(*values: Any, include: Any = None, exclude: Any = None, metadata: Any = None,
                    transient: Any = None, display_id: Any = None, raw: bool = False,
                    clear: bool = False) -> Any:
            """Show values now: pictures as images, frames as tables, others as text.

            include and exclude choose among the MIME types of a value. With raw, the values are
            dicts by MIME type. With display_id, the result is a handle, whose update() shows a
            value below what was shown before. With clear, the values replace what the job has
            shown and printed. The other arguments change nothing here."""
            self.displays().display(values, include, exclude, raw, clear)
            if display_id is not None:
                from .handles import DisplayHandle
                return DisplayHandle(self.displays(), display_id)

        @breakable
        def display_figure(figure: Any = None) -> None:
            """Show a figure of matplotlib now, or pyplot's current one. It stays open."""
            self.displays().display_figure(figure)

        for function in (display, display_figure):
            imitate(function, "builtins", function)
            setattr(builtins, function.__name__, function)

    def install(self) -> None:
        """Put our streams, input and hooks in the place of the interpreter's."""
        install_size()
        self.streams.install()
        self.console.install()
        self._install_display()
        self.interrupts.install()
        self.interrupts.hook_unraisable()
