"""Ends, before a fork, idle threads that their library starts again when it needs them.

A fork would lose them, and only their library can start others. What ends them is that library's
own way, so whoever uses it notices nothing. A thread that is still at work stays.
"""

from __future__ import annotations

from posix import listdir
from time import monotonic

from .threads import TASKS, memory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Mapping

    from .threads import Regions

SOFT = 1  # omp_pause_soft
PATIENCE = 1  # seconds, for a thread that may be at work


def end(python: Mapping[int, Any], loop: Any) -> None:
    """End what is idle; python are the threads that threading knows, loop is ours or None."""
    if len(listdir(TASKS)) == 1:
        return
    steps = (end_monitors, list(python.values())), (end_executor, loop), (end_openmp, memory())
    for step, arguments in steps:
        try:
            step(arguments)
        except BaseException:  # another version of the library: its threads stay
            pass


def end_monitors(threads: list[Any]) -> None:
    """End the threads that watch tqdm's bars. The next bar starts another."""
    for thread in threads:
        if type(thread).__module__ == "tqdm._monitor":
            thread.was_killed.set()
            thread.join(PATIENCE)


def end_executor(loop: Any) -> None:
    """End the threads of asyncio.to_thread. The next call starts others.

    Work that nobody awaits runs to its end, but keeps its thread."""
    executor = loop and loop._default_executor
    if executor and executor._thread_name_prefix == "asyncio":  # or it is the user's
        loop._default_executor = None
        executor.shutdown(wait=False)
        until = monotonic() + PATIENCE
        for thread in executor._threads:
            thread.join(max(0, until - monotonic()))


def end_openmp(regions: Regions) -> None:
    """End the threads of GNU's OpenMP, of which each library can bring its own copy.

    The next parallel region starts others."""
    for path in {path for _, _, path in regions}:
        if path.rpartition("/")[2].startswith("libgomp"):
            from ctypes import CDLL
            CDLL(path).omp_pause_resource_all(SOFT)
