"""The output of jobs: text goes to the job that it is written for.

The routers (see routers) give text to the C streams of one job: the job that the context carries
(tasks inherit it, threads and pools are made to, see carry), else the job that runs, else the last
one.

Each job has its own pipes. They stand on descriptors 1 and 2 until the next job starts, and on
private copies, made for the routers, for as long as a thread or a task carries the job. A forked
child has one job, and its routers write to descriptors 1 and 2, wherever they lead. Processes of
pools have pipes of the session there (see pools).
"""

from __future__ import annotations

import sys
from _contextvars import ContextVar
from _io import BufferedWriter, FileIO, TextIOWrapper
from _thread import _count, get_ident
from _weakref import ref
from posix import close, dup, dup2, fstat, write

from .descriptors import move_high
from .frames import breakable
from .routers import Router

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Mapping

    Files = dict[str, int]
    Settings = dict[str, dict[str, Any]]

NUMBERS = {"out": 1, "err": 2}  # descriptors
BUFFER = 8192  # bytes; from 3.14 on the default is 131,072, which is much when memory is short

carried: ContextVar[Job | None] = ContextVar("async_repl_job")


class Job:
    """A job's id and its streams. It lives while something carries it."""

    out: TextIOWrapper
    err: TextIOWrapper

    def __init__(self, id: str, files: Files, streams: Streams) -> None:
        """Write to the descriptors `files`, which streams closes when nothing needs them."""
        self.id = id
        self.files: Files | None = files
        self.streams = streams

    @breakable
    def __getattr__(self, name: str) -> Any:
        """Make the stream `out` or `err` on its first use."""
        if name not in ("out", "err"):
            raise AttributeError(name)
        if not self.files:  # closed, and yet something carried it
            return getattr(self.streams.running or self.streams.last, name)
        stream = open_stream(self.files[name], self.streams.settings[name])
        setattr(self, name, stream)
        return stream

    def flush(self) -> None:
        """Flush the streams that exist, and ignore failures."""
        made = self.__dict__
        for name in ("out", "err"):
            if name in made:
                try:
                    made[name].flush()
                except (OSError, ValueError):
                    pass

    def reopen(self, name: str) -> None:
        """Continue with descriptor 1 or 2 after user code closed our copy."""
        if self.files is not None:
            self.files[name] = move_high(dup(NUMBERS[name]))
        self.__dict__.pop(name, None)

    def retire(self) -> None:
        """Forget the descriptors, which are closed."""
        self.files = None
        self.__dict__.pop("out", None)
        self.__dict__.pop("err", None)


@breakable
def open_stream(fd: int, settings: dict[str, Any]) -> TextIOWrapper:
    """Return a line-buffered C text stream, which does not own fd."""
    raw = FileIO(fd, "w", closefd=False)
    stream = TextIOWrapper(BufferedWriter(raw, BUFFER), "utf-8", "backslashreplace", None, True)
    if settings:
        stream.reconfigure(**settings)
    return stream


class Streams:
    """The streams of all jobs."""

    def __init__(self) -> None:
        self.running: Job | None = None
        self.last: Job | None = None  # the job that ran last, or runs
        self.threads: Mapping[int, Any] = {}  # ident -> Thread: threading's own, once imported
        self.marked: list[ref[Any]] = []  # the threads that carry a job
        self.pending_tasks: Callable[[], int] = int  # counts tasks that have not ended, see tasks
        self.settings: Settings = {"out": {}, "err": {}}  # user code's calls of reconfigure
        self.ask_to_flush: Callable[[str], bool] = bool  # see routers; set before install
        self.shown: Callable[[str], str] = str  # the same
        self._ended: list[tuple[ref[Job], Files | None]] = []  # jobs whose copies are open
        self._routers: list[Router] = []

    @breakable
    def current(self) -> Job:
        """Return the job that text of this thread or task is written for."""
        job = carried.get(None)
        if job is None:
            thread = self.threads.get(get_ident())
            job = getattr(thread, "_async_repl_job", None) or self.running or self.last
        return job  # type: ignore[return-value]  # nothing writes before the first job

    def begin(self, id: str, files: list[int]) -> None:
        """Make a job the running one; its pipes are now descriptors 1 and 2."""
        out, err = move_high(files[0]), move_high(files[1])
        previous, job = self.last, Job(id, {"out": out, "err": err}, self)
        dup2(out, 1)  # only now: what came in may itself be 1 or 2, if user code had closed them
        dup2(err, 2)
        self.running = self.last = job
        for router in self._routers:
            router.renew()
        carried.set(job)
        if previous is not None:
            previous.flush()
            self._ended.append((ref(previous), previous.files))

    def finish(self) -> None:
        """Flush the running job, which is now the last one."""
        if self.last is not None:
            self.last.flush()
        self.running = None

    def close_ended(self) -> None:
        """Close the copies of ended jobs that no thread or task carries.

        A job dies with the last thing that carries it. Its streams write what they hold when they
        die, so its descriptors are closed here only, later. Called when the next job is done: each
        close wakes the reader of the pipe, which takes time that no one waits for then."""
        if not self._ended:
            return
        idle = _count() == 0 and self.pending_tasks() == 0
        self._unmark()
        keep = []
        try:
            while self._ended:
                alive, files = self._ended.pop()
                job = alive()
                if job is not None:
                    if not idle:
                        keep.append((alive, files))
                        continue
                    job.flush()
                    job.retire()
                while files:  # each is forgotten before it is closed: it is closed only once
                    try:
                        close(files.popitem()[1])
                    except OSError:
                        pass
        finally:
            self._ended += keep

    def _unmark(self) -> None:
        """Let finished threads, which user code may keep, carry nothing."""
        if not self.marked:
            return
        alive, active = [], set(map(id, list(self.threads.values())))
        for mark in self.marked:
            thread = mark()
            if thread is None:
                continue
            if id(thread) in active:
                alive.append(mark)
            else:
                thread.__dict__.pop("_async_repl_job", None)
        self.marked[:] = alive

    def forked(self) -> None:
        """Have a forked child write to its descriptors 1 and 2.

        They must be the pipes of the job that it was forked in. If that is an earlier job than the
        last, they are put there now, unless something like forkpty has put others there."""
        last, job = self.last, self.current()
        if last is None:
            return
        for name, fd in NUMBERS.items():
            try:
                if job is not last and job.files and last.files and same(fd, last.files[name]):
                    dup2(job.files[name], fd)
            except OSError:  # closed by user code
                pass
            job.__dict__.pop(name, None)
        job.files = NUMBERS.copy()
        for router in self._routers:
            router.pieces = 0  # pieces would mix with the lines of others that share the pipe

    def branched(self, files: list[int]) -> None:
        """Leave all jobs to the parent, in a branch of the worker, and write to files.

        What a stream still holds, because it could not be flushed, is the parent's."""
        jobs = self._ended
        if self.last is not None:
            jobs = jobs + [(ref(self.last), self.last.files)]
        for alive, theirs in jobs:
            for fd in (theirs or {}).values():
                if fd > 2:
                    dup2(files[0], fd)  # the stream can hold text, and flushes it to fd
            job = alive()
            if job is not None:
                job.retire()
            for fd in (theirs or {}).values():
                if fd > 2:
                    close(fd)
        self._ended, self.last = [], None
        self.begin("", files)
        self.finish()

    def flush_all(self) -> None:
        """Flush the streams of all jobs."""
        if self.last is not None:
            self.last.flush()
        for alive, _ in self._ended:
            job = alive()
            if job is not None:
                job.flush()

    def flush_pieces(self) -> None:
        """Flush what the routers have held back; the owner asks for it, see routers."""
        for router in self._routers:
            router.renew()
        self.flush_all()

    @breakable
    def flush_foreign(self) -> None:
        """Flush what user code put in the place of our streams, or it would be a later job's."""
        for name in ("stdout", "stderr"):
            stream: Any = sys.__dict__.get(name)
            if type(stream) is not Router and hasattr(stream, "flush"):
                stream.flush()

    def report(self, text: str) -> None:
        """Write to the stderr of the last job, whatever sys.stderr is."""
        try:
            if self.last is not None:
                self.last.err.write(text)
                self.last.err.flush()
        except (OSError, ValueError):
            try:
                write(2, text.encode("utf-8", "backslashreplace"))
            except OSError:
                pass

    def install(self) -> None:
        """Put the routers in place of the interpreter's streams."""
        asked, shown = self.ask_to_flush, self.shown
        out: Any = Router(self.current, "out", 1, self.settings["out"], asked, shown)
        err: Any = Router(self.current, "err", 2, self.settings["err"], asked, shown)
        self._routers = [out, err]
        sys.stdout = sys.__stdout__ = out  # type: ignore[misc]
        sys.stderr = sys.__stderr__ = err  # type: ignore[misc]


def same(a: int, b: int) -> bool:
    """Report whether two descriptors lead to the same pipe."""
    first, second = fstat(a), fstat(b)
    return (first.st_dev, first.st_ino) == (second.st_dev, second.st_ino)
