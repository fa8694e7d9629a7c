"""The workers of other sessions that this one is a branch of, and what /proc says of a process."""

from __future__ import annotations

from posix import listdir, makedev, stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterator, Tuple

    Key = Tuple[int, int]  # device and inode


class Relative:
    """The worker of another session, which this one is a branch of, directly or not."""

    def __init__(self, name: str, pid: int, start: int) -> None:
        self.name, self.pid, self.start = name, pid, start

    def lives(self) -> bool:
        """Report whether the process is still there."""
        return started(self.pid) == self.start

    def files(self) -> set[Key]:
        """Return what the process has open, and its shared memory."""
        keys = set(maps(self.pid).values())
        for fd in descriptors(self.pid):
            try:
                status = stat("/proc/%d/fd/%d" % (self.pid, fd))
                keys.add((status.st_dev, status.st_ino))
            except OSError:  # closed meanwhile
                pass
        return keys


def descriptors(of: object = "self") -> list[int]:
    """Return the numbers of the open files of a process."""
    try:
        return sorted(map(int, listdir("/proc/%s/fd" % of)))
    except OSError:  # it has ended
        return []


def maps(of: object = "self") -> dict[str, Key]:
    """Return the memory that a process shares for writing and the locks in it, as descriptions."""
    found = {}
    try:
        with open("/proc/%s/maps" % of, errors="replace") as file:
            for line in file:
                fields = line.split(None, 5)
                if fields[1][1] == "w" and fields[1][3] == "s":
                    path = fields[5].strip() if len(fields) > 5 else ""
                    major, minor = fields[3].split(":")
                    device = makedev(int(major, 16), int(minor, 16))
                    lock = path.startswith("/dev/shm/sem.")
                    text = ("multiprocessing lock " if lock else "shared memory ") + path
                    found[text] = device, int(fields[4])
    except OSError:  # it has ended
        pass
    return found


def started(pid: int) -> int:
    """Return when a process was started, or 0 if it has ended."""
    try:
        with open("/proc/%d/stat" % pid, errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return 0
    return 0 if fields[0] in "ZX" else int(fields[19])


def children(of: object = "self") -> Iterator[tuple[int, str]]:
    """Return the pids and the names of the children of a process."""
    try:
        threads = listdir("/proc/%s/task" % of)
    except OSError:  # it has ended
        return
    for thread in threads:
        with open("/proc/%s/task/%s/children" % (of, thread)) as file:
            pids = file.read().split()
        for pid in pids:
            try:
                with open("/proc/%s/comm" % pid, errors="replace") as file:
                    yield int(pid), file.read().strip()
            except OSError:  # reaped meanwhile
                pass
