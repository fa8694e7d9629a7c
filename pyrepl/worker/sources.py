"""The source of jobs, for tracebacks, inspect and the debugger.

Entries of linecache without a time are not dropped by its checkcache. A file that a job runs has
none until the next job: a traceback shows what ran, although the file may have changed since. Until
linecache is imported the sources wait here. Together they are bounded: in a very long session the
oldest go.

The same code has the same file name in every job and in every worker, because a name is part of
the key of some caches (joblib's, see get_func_name in
https://github.com/joblib/joblib/blob/main/joblib/func_inspect.py). Tracebacks name the newest job
that ran the code instead. linecache knows it by both names.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

LIMIT = 16 << 20  # characters
COUNT = 10_000  # jobs


class Sources:
    """The sources of the newest jobs."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}  # file name -> source
        self.cache: dict[str, Any] | None = None  # linecache.cache
        self._stamps: dict[str, tuple[int, float]] = {}  # real file -> its size and time
        self._running: dict[str, tuple[int, float]] = {}  # the same for files the last job ran
        self._jobs: dict[str, str] = {}  # file name of code -> the name of its newest job
        self._size = 0

    def add(self, name: str, source: str, stamp: tuple[int, float] | None = None,
            job: str = "") -> None:
        """Register a source under its file name; a real file has a stamp, see linecache.

        job is the id of the job whose code it is, or empty."""
        texts = self.texts
        if name in texts:
            self._drop(name)
        self._size += len(source)
        texts[name] = source
        if job:
            self._jobs[name] = "<job %s>" % job
        if stamp is not None:
            self._running[name] = stamp
        while len(texts) > COUNT or self._size > LIMIT and len(texts) > 1:
            self._drop(next(iter(texts)))
        if self.cache is not None:
            self._enter(self.cache, name, source)

    def _drop(self, name: str) -> None:
        """Forget a source."""
        self._size -= len(self.texts.pop(name))
        self._stamps.pop(name, None)
        for each in name, self._jobs.pop(name, name):
            if self.cache is not None:
                self.cache.pop(each, None)

    def settle(self) -> None:
        """Let linecache drop the files that the last job ran once they have changed."""
        cache, stamps = self.cache, self._running
        self._running = {}
        for name in stamps.keys() & self.texts.keys():
            self._stamps[name] = stamps[name]
            if cache is not None:
                self._enter(cache, name, self.texts[name])

    def connect(self, linecache: ModuleType) -> None:
        """Enter all sources into linecache, the later ones too."""
        self.cache = cache = linecache.cache
        for name, source in self.texts.items():
            self._enter(cache, name, source)

    def _enter(self, cache: dict[str, Any], name: str, source: str) -> None:
        """Enter one source into linecache's cache."""
        size, time = self._stamps.get(name, (len(source), None))
        cache[name] = cache[self.shown(name)] = (
            size, time, [line + "\n" for line in split(source)], name)

    def shown(self, name: str) -> str:
        """Return the name that tracebacks show in place of a file name."""
        return self._jobs.get(name, name)

    def line(self, name: str, number: int | None) -> str | None:
        """Return one line of a job's source, or None."""
        lines = split(self.texts.get(name, ""))
        return lines[number - 1] if number and 0 < number <= len(lines) else None


def split(source: str) -> list[str]:
    """Return the lines as the compiler counts them."""
    return source.replace("\r\n", "\n").replace("\r", "\n").split("\n")
