"""Every road to standard input leads to a question over the channel.

sys.stdin is an ordinary text stream whose raw end asks. input() and getpass()
say what they ask for and read through it. It is renewed before a job if user
code closed it or read from it: what an earlier job left in it is nobody's.
In a forked child standard input is descriptor 0.
"""

import builtins
import sys
from _io import BufferedReader, FileIO, TextIOWrapper, _RawIOBase
from _thread import get_ident
from posix import isatty
from time import sleep

from . import channel, interrupts, streams
from .interrupts import breakable

PROMPT = 4096  # characters of a prompt that are told: its end is what is shown

real_input = builtins.input
asked = 0  # questions so far
stdin = None  # ours; None in a forked child


class Questions(_RawIOBase):
    """The raw end of sys.stdin: each line that is not there yet is asked for."""

    name = "<stdin>"
    mode = "rb"

    def __init__(self):
        self.rest = b""  # of the last answer
        self.used = False
        self.what = {}  # thread -> kind, prompt and asker, if it said them

    def readable(self):
        return True

    def fileno(self):
        return 0

    def isatty(self):
        return isatty(0)

    def readinto(self, into):
        self.used = True
        if not self.rest:
            line = ask(*self.what.pop(get_ident(), ("line", "", "sys.stdin")))
            self.rest = line.encode("utf-8", "surrogateescape")
            interrupts.deliver()  # the line stays
        data, self.rest = self.rest[:len(into)], self.rest[len(into):]
        into[:len(data)] = data
        return len(data)


def ask(kind, prompt, by):
    """Asks for a line and waits for it. The end of file is ''."""
    global asked
    prompt = str.__getitem__(prompt, slice(-PROMPT, None))
    job = streams.running
    if job is None:
        return ""  # a thread whose job is over: there is nobody to ask
    streams.flush_all()
    interrupts.deliver()
    asked = n = asked + 1
    channel.answers[n] = None
    try:
        channel.send(ev="input", id=job.id, n=n, kind=kind, prompt=prompt, by=by)
        await_answer(n)
    except BaseException:
        if channel.answers.pop(n, None) is None:
            channel.send(ev="resumed", id=job.id, n=n)
        raise
    answer = channel.answers.pop(n)
    line = answer.get("line") or ""
    if answer.get("eof") and not line:
        return ""
    return line if line.endswith("\n") else line + "\n"


def await_answer(n):
    """Reads the channel until the answer is there, here or in another thread."""
    while channel.answers[n] is None:
        interrupts.deliver()
        if channel.reading.acquire(True, 0.02):
            try:
                if channel.answers[n] is None:
                    read_one()
            finally:
                channel.reading.release()


def read_one():
    """Reads one message. Only the main thread may block: others leave it the channel."""
    if get_ident() == interrupts.main:
        wait()
    elif not channel.ready():
        sleep(0.02)
        return
    channel.post(channel.receive())


def wait():
    """Waits for the channel; here an interrupt finds nothing half done."""
    interrupts.deliver()
    channel.wait()


def give_up():
    """Ends the questions of other threads, whose job is over."""
    for n, answer in list(channel.answers.items()):
        if answer is None:
            channel.answers[n] = {"eof": True}


def input(prompt="", /):
    """Read a string from standard input.  The trailing newline is stripped.

    The prompt string, if given, is printed to standard output without a
    trailing newline before reading input.

    If the user hits EOF, raise EOFError.
    """
    if stdin is None or sys.stdin is not stdin:
        return real_input(prompt)
    prompt = str(prompt)
    if prompt:
        sys.stdout.write(prompt)
    return read_line("line", prompt, "input()")


def getpass(prompt="Password: ", stream=None, **_):
    """Prompt for a password. It is not echoed, stored or logged."""
    prompt = str(prompt)
    (stream or sys.stderr).write(prompt)
    (stream or sys.stderr).flush()
    return read_line("secret", prompt, "getpass()")


def read_line(kind, prompt, by):
    """Reads a line of sys.stdin; what is asked for, if nothing lies there, is said by the caller."""
    what = stdin.buffer.raw.what
    what[get_ident()] = kind, prompt, by
    try:
        line = stdin.readline()
    finally:
        what.pop(get_ident(), None)
    if not line:
        raise EOFError("EOF when reading a line")
    return line[:-1] if line.endswith("\n") else line


def connect_getpass(module):
    """Leads getpass to the channel, except in forked children."""
    real_getpass = module.getpass

    def either(prompt="Password: ", stream=None, **options):
        return (real_getpass if stdin is None else getpass)(prompt, stream, **options)

    either.__name__ = either.__qualname__ = "getpass"
    either.__module__ = "getpass"
    either.__doc__ = real_getpass.__doc__
    module.getpass = module.unix_getpass = breakable(either)


def install():
    """Puts our standard input in place."""
    input.__module__ = "builtins"
    builtins.input = input
    sys.stdin = sys.__stdin__ = make()


def make():
    """Makes a standard input that holds nothing."""
    global stdin
    stdin = TextIOWrapper(BufferedReader(Questions()), "utf-8", "surrogateescape")
    return stdin


def renew():
    """Makes a new standard input if the old one was used or closed."""
    try:
        used = stdin.closed or stdin.buffer.raw.used
    except ValueError:  # detached
        used = True
    if used:
        ours = sys.__dict__.get("stdin") is stdin
        sys.__stdin__ = make()
        if ours:
            sys.stdin = stdin


def forked():
    """Lets a child read descriptor 0."""
    global stdin
    ours = sys.__dict__.get("stdin") is stdin
    stdin = None
    sys.__stdin__ = TextIOWrapper(BufferedReader(FileIO(0, closefd=False)), "utf-8", "surrogateescape")
    if ours:
        sys.stdin = sys.__stdin__


for _each in (Questions.readinto, Questions.readable, Questions.fileno, Questions.isatty,
              input, getpass, read_line, wait, channel.wait):
    breakable(_each)
