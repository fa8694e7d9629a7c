"""Top-level await: one event loop, which lives as long as the worker.

It runs only while a job awaits; tasks that a job leaves continue at the next await. An interrupt
raises in the code that runs if that is the job's own, else it cancels the job's task from within
the loop: a task of an earlier job is never hit. The CancelledError that then comes out is shown as
a KeyboardInterrupt.

asyncio is imported where it is used: this module may be loaded from the middle of asyncio's own
import, by the hook that calls `connect`.
"""

from __future__ import annotations

import sys
from _signal import set_wakeup_fd  # type: ignore[import-not-found]
from _thread import get_ident

from .frames import breakable
from .names import imitate
from .streams import carried

TYPE_CHECKING = False
if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Task
    from types import FrameType, ModuleType
    from typing import Any, Callable, Coroutine

    from .interrupts import Interrupts
    from .streams import Job, Streams

COROUTINES = 0x380  # CO_COROUTINE | CO_ITERABLE_COROUTINE | CO_ASYNC_GENERATOR, see inspect

modules = sys.modules  # user code may take the name away


class Tasks:
    """Our event loop, and the task of the job that awaits."""

    # asyncio's own, whatever user code puts in their place.
    _all_tasks: Callable[[AbstractEventLoop], set[Task[Any]]]
    _current_task: Callable[[AbstractEventLoop], Task[Any] | None]
    _running_loop: Callable[[], AbstractEventLoop | None]

    def __init__(self, interrupts: Interrupts, streams: Streams,
                 on_loop: Callable[[int], None]) -> None:
        """Call on_loop with the descriptor by which the loop waits, whenever that is another one."""
        self.interrupts, self.streams, self._on_loop = interrupts, streams, on_loop
        self._descriptor = 0
        self.loop: AbstractEventLoop | None = None
        self.task: Task[Any] | None = None  # the running job's task
        self.cancelled = False  # an interrupt has cancelled the task

    def persistent(self) -> AbstractEventLoop:
        """Return the loop, a new one if user code closed it."""
        import asyncio
        if self.loop is None or self.loop.is_closed():
            shadow = modules.get("asyncio")
            modules["asyncio"] = asyncio  # it looks for itself there
            try:
                self.loop = asyncio.new_event_loop()
                asyncio.set_event_loop(self.loop)
            finally:
                modules["asyncio"] = shadow  # type: ignore[assignment]
            self.streams.pending_tasks = self._pending
        descriptor = descriptor_of(self.loop)
        if descriptor != self._descriptor:
            self._descriptor = descriptor
            self._on_loop(descriptor)
        return self.loop

    def _pending(self) -> int:
        """Count the tasks that have not ended. Loop and tasks may be of classes of the user's."""
        loop = self.loop
        try:
            return 0 if loop is None or loop.is_closed() else len(self._all_tasks(loop))
        except BaseException:
            return 0

    def refusal(self) -> str | None:
        """Return why the loop can't be in two processes, or None."""
        loop: Any = self.loop
        if loop is None or loop.is_closed():
            return None
        pending = self._pending()
        if pending:
            return "unfinished tasks of the event loop: %d; await or cancel them" % pending
        try:
            handles = [each for each in (*loop._ready, *loop._scheduled) if not each.cancelled()]
            if handles or len(loop._selector.get_map()) > loop._internal_fds:
                return "the event loop has timers, servers or connections; close them"
        except AttributeError:
            return "the event loop is of a kind that can't be forked; close it"
        return None

    def self_pipe(self) -> list[int]:
        """Return the descriptors of the loop's self-pipe, which renew replaces."""
        loop: Any = self.loop
        if loop is None or loop.is_closed():
            return []
        return [loop._ssock.fileno(), loop._csock.fileno()]

    def renew(self) -> None:
        """Give the idle loop a new selector and a new self-pipe, in a branch of the worker."""
        loop: Any = self.loop
        if loop is None or loop.is_closed():
            return
        from selectors import DefaultSelector
        loop._selector.close()
        loop._selector = DefaultSelector()
        loop._ssock.close()
        loop._csock.close()
        loop._internal_fds -= 1
        loop._make_self_pipe()
        if getattr(loop, "_signal_handlers", None):
            set_wakeup_fd(loop._csock.fileno())

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine of the job to its end."""
        from asyncio.exceptions import CancelledError
        loop = self.persistent()
        self.task = task = loop.create_task(coroutine)
        self.cancelled = False
        try:
            if self.interrupts.take():
                self._cancel()
            while not task.done():
                try:
                    drive(loop, task)
                except (CancelledError, KeyboardInterrupt):
                    if not task.done():  # it was another task of the job: this one ends too
                        self._cancel()
            if task.cancelled() and self.cancelled:
                raise_interrupt(task)
            return task.result()
        finally:
            self.task = None

    def _cancel(self) -> None:
        """Cancel the job's task from within the loop."""
        loop, task = self.loop, self.task
        self.cancelled = True
        if loop is not None and task is not None:
            loop.call_soon_threadsafe(task.cancel)

    def drives(self, frame: FrameType) -> bool:
        """Report whether our own loop is at work, or frame, of ours, is about to run it."""
        return (frame.f_code is drive.__code__
                or self.loop is not None and self._running_loop() is self.loop)

    def interrupt(self, frame: FrameType | None) -> bool:
        """Interrupt the job in our own loop; report whether to raise, as its own code is what runs.

        A task is current also while the loop wakes it and notes its end. An exception raised there
        leaves it half done, and the order to stop the loop stays in the queue for the next job."""
        loop = self.loop
        if (loop is not None and self._current_task(loop) is not None
                and carried.get(None) is self.streams.running and in_coroutine(frame)):
            return True
        self._cancel()
        return False

    def postpone(self, frame: FrameType | None) -> bool:
        """Have a loop that user code runs raise the interrupt between two of its callbacks.

        Report whether one is at work. An exception raised while it takes a callback out of its
        queue loses that: the task that it wakes would never end, and asyncio.run waits for it. One
        raised while it starts or stops leaves it neither running nor not."""
        base = modules.get("asyncio.base_events")
        try:
            forever = base.BaseEventLoop.run_forever.__code__  # type: ignore[union-attr]
            running = self._running_loop()
        except (AttributeError, TypeError):  # asyncio is being imported
            return False
        while frame is not None and frame.f_code is not forever:
            if frame.f_code.co_flags & COROUTINES:
                return False
            frame = frame.f_back
        if frame is None:
            return False
        if running is not None:
            running.call_soon_threadsafe(self._raise_now, self.streams.running)
        return True

    @breakable
    def _raise_now(self, job: Job | None) -> None:
        """Raise the interrupt that was postponed, if it is not too late."""
        if self.streams.running is job and not self.interrupts.interrupted:
            self.interrupts.asked = True
            self.interrupts.raised()
            raise KeyboardInterrupt

    def connect(self, module: ModuleType) -> None:
        """Let create_task, outside of a running loop, leave a task to ours."""
        self._all_tasks, self._current_task = module.all_tasks, module.current_task
        self._running_loop = module.events._get_running_loop
        self.interrupts.loop = self
        real_create_task = module.create_task

        @breakable
        def create_task(coro: Any, **options: Any) -> Any:
            try:
                return real_create_task(coro, **options)
            except RuntimeError:
                if get_ident() != self.interrupts.main or self._running_loop() is not None:
                    raise
                return self.persistent().create_task(coro, **options)

        imitate(create_task, real_create_task.__module__, real_create_task)
        module.create_task = create_task  # type: ignore[attr-defined]


def descriptor_of(loop: Any) -> int:
    """Return the descriptor by which a loop waits, or 0. Of another kind of loop uvloop's is known."""
    try:
        selector = getattr(loop, "_selector", None)
        descriptor: int = loop._get_backend_id() if selector is None else selector.fileno()
        return descriptor
    except Exception:
        return 0


@breakable
def drive(loop: AbstractEventLoop, task: Task[Any]) -> None:
    """Run the loop until the task is done. Tasks.interrupt decides what an interrupt does here."""
    loop.run_until_complete(task)


def raise_interrupt(task: Task[Any]) -> None:
    """Show a cancelled task as interrupted where it was cancelled."""
    try:
        task.result()
    except BaseException as error:  # the CancelledError
        raise KeyboardInterrupt().with_traceback(error.__traceback__) from None


def in_coroutine(frame: FrameType | None) -> bool:
    """Report whether a coroutine runs in frame or below it, above drive."""
    while frame is not None and frame.f_code is not drive.__code__:
        if frame.f_code.co_flags & COROUTINES:
            return True
        frame = frame.f_back
    return False
