"""The source of jobs, for tracebacks, inspect and the debugger.

Entries of linecache without a time are not dropped by its checkcache. A file that a job runs has
none until the next job: a traceback shows what ran, although the file may have changed since. Until
linecache is imported the sources wait here. Together they are bounded: in a very long session the
oldest go.
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
        self._size = 0

    def add(self, name: str, source: str, stamp: tuple[int, float] | None = None) -> None:
        """Register a source under its file name; a real file has a stamp, see linecache."""
        texts, cache = self.texts, self.cache
        self._size += len(source) - len(texts.pop(name, ""))
        texts[name] = source
        self._stamps.pop(name, None)
        if stamp is not None:
            self._running[name] = stamp
        while len(texts) > COUNT or self._size > LIMIT and len(texts) > 1:
            oldest = next(iter(texts))
            self._size -= len(texts.pop(oldest))
            self._stamps.pop(oldest, None)
            if cache is not None:
                cache.pop(oldest, None)
        if cache is not None:
            self._enter(cache, name, source)

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
        cache[name] = (size, time, [line + "\n" for line in split(source)], name)

    def line(self, name: str, number: int | None) -> str | None:
        """Return one line of a job's source, or None."""
        lines = split(self.texts.get(name, ""))
        return lines[number - 1] if number and 0 < number <= len(lines) else None


def filename(job: str) -> str:
    """Return the file name of a job's code."""
    return "<job %s>" % job


def split(source: str) -> list[str]:
    """Return the lines as the compiler counts them."""
    return source.replace("\r\n", "\n").replace("\r", "\n").split("\n")
