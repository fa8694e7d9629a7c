"""SIGINT: a KeyboardInterrupt in the code of the job that runs, or nothing.

The handler looks for the innermost frame of ours on the stack. Only if it
belongs to one of the few functions that call user code, or wait, or can be
left anywhere without harm (see `breakable`), does it raise. In other code of
ours it makes a note, and that code calls `deliver` where it goes back to user
code. Between jobs an interrupt is nobody's.

A SIGINT that arrives just before a call blocks is seen only once the call
returns: the interpreter has looked for signals already. So SIGURG is sent
after it until the job has ended. It does nothing, but it ends the call with
EINTR, and the interpreter looks again.
"""

from _signal import SIG_UNBLOCK, SIGINT, SIGURG, getsignal, pthread_sigmask, signal
from _thread import get_ident

main = get_ident()
rules = {}  # code object of a function that may be broken -> what is to be done
live = False  # a job has started and not ended
noted = False  # an interrupt waits for user code to come back
hit = False  # the running job was interrupted


def raise_here():
    """The rule of most functions."""
    raise KeyboardInterrupt


def breakable(function, rule=raise_here):
    """Marks a function of ours that an interrupt may leave anywhere."""
    rules[function.__code__] = rule
    return function


def handler(signum, frame):
    """Handles SIGINT while a job runs; see above."""
    global noted, hit
    if not live:
        return
    while frame is not None and frame.f_builtins is not __builtins__:
        frame = frame.f_back
    rule = frame is not None and rules.get(frame.f_code)
    if rule:
        hit = True
        rule()
    else:
        noted = True


def nudge(signum, frame):
    """Handles SIGURG: see above."""


def deliver():
    """Raises an interrupt that was noted. Only the main thread has interrupts."""
    global noted, hit
    if noted and get_ident() == main:
        noted = False
        hit = True
        raise KeyboardInterrupt


breakable(deliver)


def start():
    """From here on interrupts are the new job's."""
    global live, noted, hit
    install()
    pthread_sigmask(SIG_UNBLOCK, (SIGINT, SIGURG))
    noted = hit = False
    live = True


def install():
    """Takes the signals, whatever user code did with them."""
    for number, function in ((SIGINT, handler), (SIGURG, nudge)):
        if getsignal(number) is not function:
            signal(number, function)


def stop():
    """From here on interrupts are nobody's. Reports whether the job had one, or may have: user code put a handler of
    its own in place."""
    global live, noted
    live = noted = False
    return hit or getsignal(SIGINT) is not handler


install()
