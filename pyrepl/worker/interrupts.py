"""SIGINT: a KeyboardInterrupt in the code of the job that runs, or nothing.

The handler looks for the innermost frame of ours on the stack. Only if it
belongs to one of the few functions that call user code, or wait, or can be
left anywhere without harm (@breakable), does it raise. In other code of ours
it makes a note, and that code calls `deliver` where it goes back to user code.
Between jobs an interrupt is nobody's.
"""

from _signal import SIG_UNBLOCK, SIGINT, getsignal, pthread_sigmask, signal

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


def deliver():
    """Raises an interrupt that was noted."""
    global noted, hit
    if noted:
        noted = False
        hit = True
        raise KeyboardInterrupt


breakable(deliver)


def start():
    """From here on interrupts are the new job's."""
    global live, noted, hit
    if getsignal(SIGINT) is not handler:
        signal(SIGINT, handler)
    pthread_sigmask(SIG_UNBLOCK, (SIGINT,))
    noted = hit = False
    live = True


def stop():
    """From here on interrupts are nobody's. Reports whether there was one."""
    global live, noted
    live = noted = False
    return hit


signal(SIGINT, handler)
