"""End, before a fork, idle threads that their library starts again when it needs them.

A fork would lose them, and only their library can start others. Each is ended as its library does
it, so that the library's users notice nothing. A thread that is still at work stays.
"""

from __future__ import annotations

from posix import listdir
from sys import getrefcount
from time import monotonic, sleep

from .names import modules
from .threads import TASKS, memory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Mapping

    from .threads import Regions

SOFT = 1  # omp_pause_soft
LOKY = "joblib.externals.loky.reusable_executor", "loky.reusable_executor"
PATIENCE = 1  # seconds, for a thread that may be at work
TRIES = 25  # attempts to find a pool that nothing else uses


def end(python: Mapping[int, Any], loop: Any) -> None:
    """End what is idle; python are the threads that threading knows, loop is ours or None."""
    if len(listdir(TASKS)) == 1:
        return
    loky = [modules[name] for name in LOKY if name in modules]
    steps: list[tuple[Callable[[Any], object], object]] = [
        (end_monitors, list(python.values())), (end_pools, loky), (end_executor, loop),
        (end_openmp, memory())]
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


def end_pools(loky: list[Any]) -> None:
    """End the pools of processes that loky keeps for joblib and the n_jobs of scikit-learn.

    The next call starts another. One that a variable holds stays: it could not be used again."""
    for module in loky:
        threads: list[Any] = []
        for _ in range(TRIES):  # the pool's thread holds the lock for a moment after each result
            if module._executor_lock.acquire(blocking=False):  # or another thread is there
                try:
                    if end_pool(module, threads):
                        break
                finally:
                    module._executor_lock.release()
            sleep(0.002)
        for thread in threads:
            thread.join(2 * PATIENCE)  # it waits for the processes


def end_pool(module: Any, threads: list[Any]) -> bool:
    """Have the pool of a copy of loky end if it is idle, and report whether it is.

    Its thread, if it has one, is added to threads."""
    store = getattr(module, "_executor_storage", None)  # loky 3.7 keeps a pool for each thread
    place, name = (module, "_executor") if store is None else (store, "executor")
    if getrefcount(getattr(place, name)) > getrefcount(getattr(Held, "once")):
        return getattr(place, name) is None
    pool = getattr(place, name)
    if pool._pending_work_items:
        return False
    if pool._executor_manager_thread:
        threads.append(pool._executor_manager_thread)
        pool.shutdown(wait=False)
    return True


class Held:
    once = object()  # the class is its only holder


def end_executor(loop: Any) -> None:
    """End the threads of asyncio.to_thread. The next call starts others.

    Work that nothing awaits runs to its end, but keeps its thread."""
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
