"""Make packages importable that any installer has installed while the session runs.

Finders notice a change of a directory only if its clock is fine enough
(https://docs.python.org/3/library/importlib.html#importlib.invalidate_caches), and an interpreter
reads .pth files only when it starts (https://docs.python.org/3/library/site.html). So the
directories of packages are checked before each job, by their times, and the .pth files that are new
or have changed are read.
"""

from __future__ import annotations

import sys
from posix import scandir, stat
from time import time_ns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    Stamp = tuple[int, int, int]

# The time in ns in which a directory can change again and keep its modification time. The kernel
# stamps files by a tick of 10 ms or less, and some file systems keep whole seconds
# (https://man7.org/linux/man-pages/man7/inode.7.html). Such a directory is listed before each job.
TICK, WHOLE_SECONDS = 5 * 10**7, 2 * 10**9


def directories() -> list[str]:
    """Return the directories of packages that this interpreter uses."""
    from site import getsitepackages, getusersitepackages
    return [path for path in [*getsitepackages(), getusersitepackages()] if path in sys.path]


def harmless(call: Callable[..., Any], *args: Any) -> None:
    """Call a function and drop what it raises."""
    try:
        call(*args)
    except BaseException:
        pass


class Installed:
    """The state of the directories of packages when they were last checked."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._times = dict.fromkeys(paths, 0)  # directory -> time of modification; 0: unsure
        self._files: dict[str, Stamp] = {}  # the .pth files, by path
        self._changed()

    def refresh(self) -> None:
        """Make what was installed since the last call importable."""
        found = self._changed()
        if found is None:
            return
        from importlib import invalidate_caches
        from os.path import split
        from site import addpackage
        harmless(invalidate_caches)  # a finder can be the user's
        for path in found:
            harmless(addpackage, *split(path), None)  # a .pth file can have code

    def _changed(self) -> list[str] | None:
        """Return the new and changed .pth files, or None if no directory has changed."""
        found = None
        for directory, before in self._times.items():
            try:
                time = stat(directory).st_mtime_ns
                if time == before:
                    continue
                found = found or []
                recent = TICK if time % 10**9 else WHOLE_SECONDS
                self._times[directory] = time if time_ns() - time > recent else 0
                found += self._new(directory)
            except OSError:  # it is gone
                continue
        return found

    def _new(self, directory: str) -> list[str]:
        """Return the new and changed .pth files of a directory."""
        found = []
        with scandir(directory) as entries:
            for entry in entries:
                if not entry.name.endswith(".pth"):
                    continue
                try:
                    st = entry.stat()
                except OSError:  # it is gone, or leads nowhere
                    continue
                stamp = st.st_ino, st.st_mtime_ns, st.st_size
                if self._files.get(entry.path) != stamp:
                    self._files[entry.path] = stamp
                    found.append(entry.path)
        return sorted(found)
