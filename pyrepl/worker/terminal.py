"""The controlling terminal, which is descriptor 0.

After each job it is as it was: descriptor 0 itself, the foreground group, the
modes, and nothing typed that nobody has read. All of it goes by a private copy
of the descriptor. TCFLSH must go to this side: on the other it would throw away
the program's output.
"""

from _signal import SIG_BLOCK, SIG_SETMASK, SIGTTOU, pthread_sigmask
from posix import close, dup, dup2, getpgrp, isatty, tcgetpgrp, tcsetpgrp
from termios import TCIFLUSH, TCSANOW, error, tcflush, tcgetattr, tcsetattr

from .channel import high

tty = -1  # the private copy; -1: there is no terminal
modes = None


def keep():
    """Notes the terminal as it is."""
    global tty, modes
    if isatty(0):
        tty = high(dup(0))
        modes = tcgetattr(tty)


def restore():
    """Puts everything back as it was."""
    if tty < 0:
        return
    try:
        dup2(tty, 0)
        if tcgetpgrp(tty) != getpgrp():
            take_foreground()
        if tcgetattr(tty) != modes:
            tcsetattr(tty, TCSANOW, modes)
        tcflush(tty, TCIFLUSH)
    except (OSError, error):  # hung up, or closed by user code
        pass


def take_foreground():
    """Makes our group the foreground group; from the background that is stopped by SIGTTOU."""
    blocked = pthread_sigmask(SIG_BLOCK, (SIGTTOU,))
    try:
        tcsetpgrp(tty, getpgrp())
    finally:
        pthread_sigmask(SIG_SETMASK, blocked)


def leave():
    """Closes the copy in a forked child."""
    global tty
    if tty >= 0:
        close(tty)
        tty = -1
