"""The things that a branch shares with its parent, and the files that it must not share.

A fork shares the offset of an open file, for reading too: the branch opens regular files again,
with the offset that they had. Two processes can't both use a connection, and can't wait for the
same child: that is listed, for the reply about the branch.
"""

from __future__ import annotations

import sys
from _socket import SO_ACCEPTCONN, SOL_SOCKET, socket
from _stat import S_ISREG, S_ISSOCK
from fcntl import F_GETFD, F_GETFL, fcntl
from posix import (
    O_ACCMODE, O_CLOEXEC, O_CREAT, O_EXCL, O_RDONLY, O_TRUNC, O_WRONLY, close, dup, dup2, fstat,
    getpid, lseek, open as open_fd, pread, readlink)

from .relatives import Relative, children, descriptors, maps, started

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .forks import Forks
    from .relatives import Key
    from .session import Session

LISTED = 20  # things that are shared
LONG = 120  # characters of one
FILES = "/proc/self/fd/"


class Files:
    """The open files of the worker as they stood before the fork."""

    def __init__(self, session: Session, forks: Forks, parent: str, ours: list[int]) -> None:
        """Check all files but the session's own and those in ours. parent is the session's name."""
        ours = ours + [session.channel.sock.fileno(), 0, 1, 2]
        tasks = session.existing_tasks()
        if tasks is not None:
            ours += tasks.self_pipe()
        self.regular: list[tuple[int, int, int]] = []  # descriptor, flags and offset
        self.known: dict[int, Key] = {}  # descriptor -> device and inode
        self.worker = Relative(parent, getpid(), started(getpid()))
        self.children = dict(children())
        sockets: dict[str, Key] = {}
        files: dict[str, Key] = {}
        memory = maps()
        for fd in descriptors():
            if fd in ours:
                continue
            try:
                status = fstat(fd)
                key = status.st_dev, status.st_ino
                if S_ISSOCK(status.st_mode):
                    sockets[describe(fd)] = key
                elif S_ISREG(status.st_mode):
                    flags = fcntl(fd, F_GETFL)
                    self.regular.append((fd, flags, lseek(fd, 0, 1)))
                    self.known[fd] = key
                    if key not in memory.values():
                        files.update((text, key) for text in kind(fd, flags))
            except OSError:  # closed meanwhile, or a path only
                pass
        others = [each for each in forks.relatives if each.name != parent and each.lives()]
        found = sharers({**sockets, **files, **memory}, others)
        found += ["child %d (%s)" % each for each in self.children.items()]
        for other in others:
            found += ["child %d (%s) of session %s" % (*each, other.name)
                      for each in children(other.pid) if each[0] in forks.foreign]
        self.shared = found[:LISTED]
        if len(found) > LISTED:
            self.shared.append("%d more" % (len(found) - LISTED))

    def reopen(self) -> None:
        """Open the regular files again, in the branch. One that can't be opened stays shared."""
        for fd, flags, offset in self.regular:
            try:
                new = open_fd(FILES + str(fd), flags & ~(O_CREAT | O_EXCL | O_TRUNC) | O_CLOEXEC)
                try:
                    lseek(new, offset, 0)
                    dup2(new, fd, not fcntl(fd, F_GETFD))
                finally:
                    close(new)
            except OSError:
                pass


def describe(fd: int) -> str:
    """Return a description of a socket."""
    sock = socket(fileno=dup(fd))
    try:
        try:
            return "socket connected to " + address(sock.getpeername())
        except OSError:
            listens = sock.getsockopt(SOL_SOCKET, SO_ACCEPTCONN)
            return ("socket listening on " if listens else "socket ") + address(sock.getsockname())
    finally:
        sock.close()


def address(name: object) -> str:
    """Return the address of a socket as people write it."""
    if isinstance(name, tuple) and len(name) > 1:
        return "%s:%s" % name[:2]
    return str(name) if name else "a process"


def kind(fd: int, flags: int) -> list[str]:
    """Return how a regular file is shared, although its offset is not."""
    path, access = readlink(FILES + str(fd)), flags & O_ACCMODE
    if ("sqlite3" in sys.modules and access != O_WRONLY
            and pread(fd, 16, 0) == b"SQLite format 3\0"):
        return ["SQLite database " + path]
    return [] if access == O_RDONLY else ["file %s, open for writing" % path]


def sharers(found: dict[str, Key], others: list[Relative]) -> list[str]:
    """Return the shared things, and which other sessions have them too."""
    files = [(other.name, other.files()) for other in others]
    texts = []
    for text, key in found.items():
        names = [name for name, keys in files if key in keys]
        texts.append(text[:LONG] + ("; also with " + ", ".join(names) if names else ""))
    return texts
