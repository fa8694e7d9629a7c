"""Descriptors of ours, kept away from the low numbers that user code gets."""

from __future__ import annotations

from fcntl import F_DUPFD_CLOEXEC, fcntl
from posix import close, sysconf

HIGH = min(512, sysconf("SC_OPEN_MAX") // 2)


def move_high(fd: int) -> int:
    """Move fd to a high number that no child inherits, and return the number."""
    copy = copy_high(fd)
    close(fd)
    return copy


def copy_high(fd: int) -> int:
    """Copy fd to a high number that no child inherits, and return the number."""
    try:
        return fcntl(fd, F_DUPFD_CLOEXEC, HIGH)
    except OSError:  # all of them are taken
        return fcntl(fd, F_DUPFD_CLOEXEC, 3)
