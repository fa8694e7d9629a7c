"""Forked children of user code.

A child keeps the job that it was forked in, writes to its descriptors 1 and 2,
and leaves the channel and the terminal's copy to the parent. When it runs off the end of the user's code it ends there:
it is not another worker.
"""

import os
import posix
import sys
from posix import getpid

from . import channel, console, interrupts, streams, terminal

real_exit, real_fork = posix._exit, posix.fork
pid = getpid()  # of the worker itself


def before():
    """Leaves nothing in buffers that both sides would write."""
    streams.flush_all()


def in_child():
    """Makes a child of the worker an ordinary process."""
    interrupts.noted = False
    channel.forked()
    console.forked()
    streams.forked()
    terminal.leave()


def exit(status):
    """Exit to the system with specified status, without normal exit processing."""
    streams.flush_all()
    real_exit(status)


def fork():
    """Fork a child process.

    Return 0 to child process and PID of child to parent process.
    """
    child = real_fork()
    if getpid() == pid:
        interrupts.deliver()  # what came while hooks of forks ran would have been swallowed there
    return child


def end(error):
    """Ends a child that has run off the end of the user's code."""
    code = 0
    try:
        interrupts.stop()
        if error is not None:
            from . import report
            code = report.ending(error).get("code") or (0 if issubclass(type(error), SystemExit) else 1)
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    except BaseException:
        pass
    finally:
        streams.flush_all()
        real_exit(code & 0xFF)


def install():
    """Hooks into forks and exits."""
    posix.register_at_fork(before=before, after_in_child=in_child)
    for name, function in (("_exit", exit), ("fork", fork)):
        function.__name__ = function.__qualname__ = name
        function.__module__ = "posix"
        setattr(os, name, function)
