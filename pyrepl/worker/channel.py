"""The socketpair between the worker and its owner.

Commands come as JSON lines, their descriptors by SCM_RIGHTS. Each event goes
out in one sendall as a newline, the token, a blank, JSON and a newline, so
that nothing else that is written to the descriptor can pass for one. The owner
skips a line of more than 16 MiB: who sends bounds what it takes from user code.

The main thread reads here between jobs, and any thread while it waits for an
answer to a question. Who reads holds the lock `reading` for one message, and
puts what is not its own where the other looks for it.

A message must not be lost to an interrupt, nor to a signal handler of user
code that raises: the wait for it (`wait`) consumes nothing and can be broken,
`receive` can't. Nor may descriptors be lost when user code has opened as many
as it may: a few are held in reserve for them.
"""

from _signal import pause
from _socket import CMSG_SPACE, MSG_CMSG_CLOEXEC, MSG_DONTWAIT, MSG_PEEK, socket
from _thread import allocate_lock
from fcntl import F_DUPFD_CLOEXEC, fcntl
from posix import _exit, close, sysconf
from sys import exc_info

from .codec import decode, encode
from . import token

try:
    from _socket import SCM_RIGHTS, SOL_SOCKET
except ImportError:
    SCM_RIGHTS, SOL_SOCKET = 1, 1

CHUNK = 1 << 16
RIGHTS = CMSG_SPACE(4 * 16)
FRAME = "\n" + token + " "

# Descriptors of ours stay away from the numbers that user code gets.
HIGH = min(512, sysconf("SC_OPEN_MAX") // 2)


def high(fd):
    """Moves fd to a high number that no child inherits."""
    copy = copied(fd)
    close(fd)
    return copy


def copied(fd):
    """Copies fd to a high number that no child inherits."""
    try:
        return fcntl(fd, F_DUPFD_CLOEXEC, HIGH)
    except OSError:  # all of them taken
        return fcntl(fd, F_DUPFD_CLOEXEC, 3)


sock = socket(fileno=high(3))
sending = allocate_lock()  # keeps the events of two threads apart
reading = allocate_lock()
buffer = bytearray()  # the beginning of the next line
spare = []  # descriptors held in reserve while user code runs
files = []  # descriptors whose message has not been handed out
mail = []  # messages for the main thread
answers = {}  # number of a question -> its answer; None while it is open


def send(**event):
    """Tells the owner, who is the parent's only in a forked child. Not to be broken by an interrupt."""
    if sock is None:
        return
    try:
        with sending:
            sock.sendall((FRAME + encode(event) + "\n").encode("ascii"))
    except OSError as error:  # user code closed the descriptor: the owner sees it, says so, and ends the worker
        if foreign():
            raise
        if type(error) is BrokenPipeError:
            gone()
        from . import streams
        streams.flush_all()
        while True:
            pause()


def foreign():
    """Reports whether the error at hand is not the socket's: a signal handler of user code raised it, a TimeoutError
    mostly, in a frame of its own."""
    return exc_info()[2].tb_next is not None


def gone():
    """Ends the worker, whose owner has gone or can't be reached any more."""
    from . import streams
    streams.flush_all()
    _exit(1)


def wait():
    """Waits for something to read, so that `receive` will not block for long.

    May be broken by an interrupt: it takes nothing."""
    try:
        sock.recv(1, MSG_PEEK)
    except OSError:
        if foreign():
            raise
        gone()


def ready():
    """Reports whether there is something to read."""
    try:
        return sock.recv(1, MSG_PEEK | MSG_DONTWAIT) is not None
    except BlockingIOError:
        return False
    except OSError:
        if foreign():
            raise
        gone()


def receive():
    """Reads one message."""
    start = 0
    while True:
        end = buffer.find(b"\n", start)
        if end >= 0:
            line = bytes(buffer[:end])
            del buffer[:end + 1]
            return decode(line.decode("utf-8", "replace"))
        start = len(buffer)
        try:
            data, ancillary, _, _ = sock.recvmsg(CHUNK, RIGHTS, MSG_CMSG_CLOEXEC)
        except OSError:
            if foreign():
                raise
            gone()
        if not data:
            _exit(0)
        buffer.extend(data)
        for level, kind, rights in ancillary:
            if level == SOL_SOCKET and kind == SCM_RIGHTS:
                files.extend(memoryview(rights[:len(rights) & ~3]).cast("i"))


def post(message):
    """Puts a message where its addressee looks for it."""
    if message.get("op") != "input":
        mail.append(message)
    elif message.get("n") in answers:  # else the question was given up
        answers[message["n"]] = message


def take():
    """Returns the next message for the main thread, with room for its descriptors."""
    while spare:
        close(spare.pop())
    while not mail:
        with reading:
            if not mail:
                await_message()
                post(receive())
    return mail.pop(0)


def await_message():
    """Waits for a message between jobs. What a signal handler of user code raises meanwhile is no job's: it is reported
    where the last one wrote."""
    while b"\n" not in buffer:
        try:
            return wait()
        except BaseException as error:
            from . import execute
            execute.ending_of(error)


def reserve():
    """Holds descriptors for the next job: two that come in, and one to move them with."""
    try:
        while len(spare) < 3:
            spare.append(copied(sock.fileno()))
    except OSError:  # there are no more
        pass


def rights(message):
    """Returns the descriptors that came with a message."""
    count = message.get("fds", 0)
    taken, files[:count] = files[:count], []
    return taken


def forked():
    """Leaves the channel to the parent."""
    global sock
    while spare:
        close(spare.pop())
    if sock is not None:
        close(sock.detach())
        sock = None
