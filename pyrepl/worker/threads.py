"""Decide whether the worker can be forked with the threads that it has.

A fork copies one thread. Locks that the others held stay locked
(https://man7.org/linux/man-pages/man2/fork.2.html), and work that is given to the others waits for
ever, unless their library starts them again in the child. The name of a thread says nothing about
its library, but the return addresses on its stack do. A GPU does not survive a fork at all.
"""

from __future__ import annotations

from _bisect import bisect_right
from posix import O_CLOEXEC, O_RDONLY, close, getpid, listdir, open as open_fd, pread, readlink
from time import sleep

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Mapping

    Regions = list[tuple[int, int, str]]  # start, end, path

# These start their threads again after a fork (OpenBLAS, Arrow and jemalloc: measured with Python
# 3.11). The last is a part of numba.
SAFE = "openblas", "arrow", "jemalloc", "pocketfft", "workqueue"
COMMON = (  # libraries on the stack of any thread
    "libc.so", "libc-2", "libpthread", "ld-linux", "ld-musl", "ld-2", "libstdc++", "libm.so",
    "libm-2", "libgcc_s", "librt", "libdl", "libgfortran", "libquadmath")
GPU = "/dev/nvidia", "/dev/dri/", "/dev/kfd"
STACK = 1 << 17  # bytes of a stack that are looked at
TASKS = "/proc/self/task/"
TRIES = 100  # attempts to find a thread at rest: some wait actively for a while after their work
PYTHON = "Python"
ENDED_BY = {  # calls that end the threads of a library
    PYTHON: "executor.shutdown(), Thread.join(), Pool.terminate()",
    "cv2": "cv2.setNumThreads(1)",
    "cygrpc": "server.stop(None).wait(), channel.close()",
    "duckdb": "con.close(), duckdb.default_connection().close()",
    "zmq": "context.destroy()"}
POOL = "ExecutorManagerThread"  # loky's thread for a pool; joblib and scikit-learn use loky
POOL_ENDED_BY = "get_reusable_executor().shutdown() (of joblib.externals.loky, or loky)"
INSTEAD = "run the code again in a new session, by from_job with rerun=true"


def refusal(python: Mapping[int, Any]) -> str | None:
    """Return why a fork would be unsafe, or None. python are the threads that threading knows."""
    regions = memory()
    device = gpu([path for _, _, path in regions]) or gpu(opened())
    if device:
        return "the GPU is open (%s), which a fork can't use; " % device + INSTEAD
    unsafe: dict[str, int] = {}
    for thread in listdir(TASKS):
        if int(thread) != getpid():
            library = owner(thread, regions)
            if library:
                unsafe[library] = unsafe.get(library, 0) + 1
    return reason(unsafe, [thread.name for thread in list(python.values())[1:11]])


def reason(unsafe: dict[str, int], names: list[object]) -> str | None:
    """Return why threads of these libraries forbid a fork, or None if there are none.

    names are the names of Python's threads."""
    if not unsafe:
        return None
    count = sum(unsafe.values())
    text = "a thread runs" if count == 1 else "%d threads run" % count
    named = [n.partition(".")[0] for n in unsafe if n != PYTHON]
    if PYTHON in unsafe:
        named += [str(name)[:40] for name in names]
    text += " that would be missing after a fork (%s); " % ", ".join(sorted(named))
    ways = [way for name, way in ENDED_BY.items() if [n for n in unsafe if name in n]]
    if PYTHON in unsafe and POOL in names:
        ways.insert(0, POOL_ENDED_BY)
    if ways:
        text += "end what runs by %s, or " % ", ".join(ways)
    return text + INSTEAD


def gpu(paths: list[str]) -> str | None:
    """Return the device of a GPU among paths, or None."""
    for path in paths:
        if path.startswith(GPU):
            return path
    return None


def opened() -> list[str]:
    """Return the paths of the open files."""
    paths = []
    for fd in listdir("/proc/self/fd"):
        try:
            paths.append(readlink("/proc/self/fd/" + fd))
        except OSError:  # the directory itself
            pass
    return paths


def memory() -> Regions:
    """Return the regions of memory, in order."""
    regions = []
    with open("/proc/self/maps", errors="replace") as file:
        for line in file:
            fields = line.split(None, 5)
            start, _, end = fields[0].partition("-")
            path = fields[5].strip() if len(fields) > 5 else ""
            if fields[1][2] != "x" and path[:1] == "/" and path[:5] != "/dev/":
                path = ""  # data of a library: no return address leads there
            regions.append((int(start, 16), int(end, 16), path))
    return regions


def owner(thread: str, regions: Regions) -> str | None:
    """Return the library that a thread works for, or None if it is made again after a fork."""
    call: list[str] = []
    for _ in range(TRIES):
        try:
            with open(TASKS + thread + "/syscall") as file:
                call = file.read().split()
        except (FileNotFoundError, ProcessLookupError):  # it has ended
            return None
        if len(call) > 2:
            break
        sleep(0.002)
    if len(call) < 3:
        return "one that is at work"
    found = on_stack(int(call[-2], 16), regions)
    program = readlink("/proc/self/exe")
    safe = False
    others = []
    for path in sorted(found):
        name = path.rpartition("/")[2]
        if path == program or name.startswith("libpython"):
            return PYTHON
        if [each for each in SAFE if each in name]:
            safe = True
        elif not name.startswith(COMMON):
            others.append(name)
    if others:
        return others[0]
    return None if safe else "of an unknown library"


def on_stack(pointer: int, regions: Regions) -> set[str]:
    """Return the files that addresses on the stack lead to, from the stack pointer outwards."""
    starts = [start for start, _, _ in regions]
    at = bisect_right(starts, pointer) - 1
    size = min(regions[at][1] - pointer, STACK) & ~7
    fd = open_fd("/proc/self/mem", O_RDONLY | O_CLOEXEC)
    try:
        words = memoryview(pread(fd, size, pointer)).cast("Q")
    finally:
        close(fd)
    found = set()
    for word in words:
        at = bisect_right(starts, word) - 1
        if at >= 0 and word < regions[at][1] and regions[at][2][:1] == "/":
            found.add(regions[at][2])
    return found
