"""Interrupts: a KeyboardInterrupt in the code of the job that runs, or nothing.

The handler looks for the innermost frame of ours on the stack. Only if it
belongs to one of the few functions that call user code, or wait, or can be
left anywhere without harm (see `breakable`), does it raise. In other code of
ours it makes a note, and that code calls `deliver` where it goes back to user
code. Between jobs an interrupt is nobody's.

Go asks by SIGURG, which stands for one SIGINT a job, and repeats it until the
job has ended. A SIGINT itself could be lost: the C library ignores it while
system(3) runs, and one that arrives just before a call blocks is seen only
once that returns, for the interpreter has looked for signals already. The
next SIGURG ends such a call with EINTR, and the interpreter looks again. It
also renews an interrupt that was noted and has not been delivered yet, or that
was raised where Python swallows it: in a finalizer, in a callback of a weak
reference, in a hook of a fork.

By SIGIO Go asks for what was printed and not flushed: a program reads the
terminal, and what it asks may stand there.
"""

import sys
from _signal import SIG_UNBLOCK, SIGINT, SIGIO, SIGURG, getsignal, pthread_sigmask, signal
from _thread import get_ident

main = get_ident()
modules = sys.modules  # user code may take the name away
rules = {}  # code of functions that may be broken -> what is done instead; true: raise after all
live = False  # a job has started and not ended
asked = False  # Go has asked for the job's interrupt
noted = False  # an interrupt waits for user code to come back
hit = False  # the running job was interrupted


def breakable(function, instead=None):
    """Marks a function of ours that an interrupt may leave anywhere, or in which something is done instead: that is
    called with the interrupted frame."""
    rules[function.__code__] = instead
    return function


def handler(signum, frame):
    """Handles SIGINT while a job runs; see above."""
    global asked, noted
    if not live:
        return
    ours = frame
    while ours is not None and ours.f_builtins is not __builtins__:
        ours = ours.f_back
    if ours is None or ours.f_code not in rules:
        noted = True
        return
    instead = rules[ours.f_code]
    if instead is None and "asyncio.events" in modules:
        from . import tasks
        if tasks.postpone(frame):
            asked = False  # the loop may end before: then the next SIGURG is another try
            return
    struck()
    if instead is None or instead(frame):
        raise KeyboardInterrupt


def struck():
    """Notes and tells that user code is being interrupted: its children need no more of it."""
    global hit
    hit = True
    from . import channel, streams
    if streams.running is not None:  # in a forked child it may be
        channel.send(ev="hit", id=streams.running.id)


def request(signum, frame):
    """Handles SIGURG: the first of a job is a SIGINT, to whom user code gave those."""
    global asked, noted
    if not live or asked and not noted:
        return
    asked, noted = True, False
    current = getsignal(SIGINT)
    if callable(current):
        current(SIGINT, frame)


def flush(signum, frame):
    """Handles SIGIO: see above."""
    from . import streams
    try:
        streams.flush_all()
    except RuntimeError:  # it came in the middle of a write, which flushes or will
        pass


def unraisable(what):
    """Handles an exception that Python is about to swallow; of an interrupt it is not told what it interrupted."""
    global asked
    if live and hit and issubclass(what.exc_type, KeyboardInterrupt) and get_ident() == main:
        asked = False
    else:
        sys.__unraisablehook__(what)


def deliver():
    """Raises an interrupt that was noted. Only the main thread has interrupts."""
    global noted
    if noted and get_ident() == main:
        noted = False
        struck()
        raise KeyboardInterrupt


def take():
    """Takes what deliver would raise, for who does something else with it."""
    global noted, hit
    taken, noted = noted, False
    hit |= taken
    return taken


breakable(deliver)


def start():
    """From here on interrupts are the new job's."""
    global live, asked, noted, hit
    install()
    pthread_sigmask(SIG_UNBLOCK, (SIGINT, SIGIO, SIGURG))
    asked = noted = hit = False
    live = True


def install():
    """Takes the signals, whatever user code did with them."""
    for number, function in ((SIGINT, handler), (SIGIO, flush), (SIGURG, request)):
        if getsignal(number) is not function:
            signal(number, function)


def stop():
    """From here on interrupts are nobody's. Reports whether the job had one, or may have: user code put a handler of
    its own in place."""
    global live, noted
    live = noted = False
    return hit or getsignal(SIGINT) is not handler


install()
sys.unraisablehook = unraisable
