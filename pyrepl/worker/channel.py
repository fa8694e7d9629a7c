"""The socketpair between the worker and its owner, the Go side of the session.

A command is a line: its name, a blank and its fields in JSON; descriptors come by SCM_RIGHTS. Each
event goes out in one sendall as a newline, the token, a blank, its name, a blank, its fields in
JSON and a newline, so that nothing else that is written to the descriptor can pass for one. The
owner skips a line of more than 16 MiB: a sender bounds what it takes from user code. Descriptors
travel with the event's last byte: with all of it, or not at all if a signal handler of user code
tears it.

The main thread reads here between jobs, and any thread while it waits for an answer to a question.
A reader holds the lock `reading` for one message, and puts a message for another reader where that
one looks for it.

A message must not be lost to an interrupt, nor to a signal handler of user code that raises: the
wait for it (`wait`) consumes nothing and can be broken, `receive` can't. Nor must descriptors be
lost when user code has opened as many as it may: a few are held in reserve for them.
"""

from __future__ import annotations

from _signal import pause  # type: ignore[import-not-found]
from _socket import CMSG_SPACE, MSG_CMSG_CLOEXEC, MSG_DONTWAIT, MSG_PEEK, socket
from _thread import allocate_lock, get_ident
from posix import _exit, close
from sys import byteorder, exc_info

from .codec import decode, encode
from .descriptors import copy_high, move_high
from .frames import breakable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, NoReturn, Sequence

    from .protocols import Fields, Message

try:
    from _socket import SCM_RIGHTS, SOL_SOCKET
except ImportError:
    SCM_RIGHTS, SOL_SOCKET = 1, 1  # type: ignore[misc]

CHUNK = 1 << 16
RIGHTS = CMSG_SPACE(4 * 16)


class Channel:
    """Our end of the socketpair."""

    def __init__(self, sock: socket, token: str, on_broken: Callable[[], object]) -> None:
        """Speak over sock; call on_broken before the worker ends because its owner is gone."""
        self.sock = sock  # None in a forked child, which has no part in the channel
        self.on_broken = on_broken
        self.unanswered: dict[int, str] = {}  # number of a question -> its job
        self.answers: dict[int, Fields] = {}  # number of a question -> its answer
        self.reading = allocate_lock()
        self._begin = "\n" + token + " "
        self._sending = allocate_lock()  # keeps the events of two threads apart
        self._senders: list[int] = []  # the threads that hold it, or will or did in a moment
        self._buffer = bytearray()  # the beginning of the next line
        self._reserve: list[int] = []  # descriptors held while user code runs
        self._files: list[int] = []  # descriptors whose message has not been handed out
        self._mail: list[Message] = []  # messages that the main thread must read

    def send(self, event: str, files: Sequence[int] = (), **fields: object) -> None:
        """Send an event and copies of files (16 at most), unless this is a forked child.

        An interrupt must not break it."""
        if self.sock is None:
            return
        thread, senders = get_ident(), self._senders
        try:
            senders.append(thread)  # first, or a signal handler could wait for its own thread
            with self._sending:
                line = ("%s%s %s\n" % (self._begin, event, encode(fields))).encode("ascii")
                if files:
                    self.sock.sendall(line[:-1])
                    numbers = b"".join([fd.to_bytes(4, byteorder) for fd in files])
                    rights = (SOL_SOCKET, SCM_RIGHTS, numbers)
                    self.sock.sendmsg((line[-1:],), (rights,))
                else:
                    self.sock.sendall(line)
        except OSError as error:  # user code closed the descriptor: the owner sees it and ends us
            if foreign():
                raise
            if type(error) is BrokenPipeError:
                self._end()
            self.on_broken()
            while True:
                pause()
        finally:
            if thread in senders:
                senders.remove(thread)

    def sending(self) -> bool:
        """Report whether an event is being sent."""
        return self._sending.locked()

    def interrupted(self) -> bool:
        """Report whether this thread runs a signal handler that came while it was sending.

        It can't send then: it would wait for itself. The lock counts too, because a handler that
        raises may leave the thread among the senders."""
        return get_ident() in self._senders and self._sending.locked()

    def _end(self) -> NoReturn:
        """End the worker, whose owner has gone or can't be reached any more."""
        self.on_broken()
        _exit(1)

    @breakable
    def wait(self) -> None:
        """Wait until `receive` will not block for long. It takes nothing, so it can be broken."""
        try:
            self.sock.recv(1, MSG_PEEK)
        except OSError:
            if foreign():
                raise
            self._end()

    def ready(self) -> bool:
        """Report whether there is something to read."""
        try:
            return self.sock.recv(1, MSG_PEEK | MSG_DONTWAIT) is not None
        except BlockingIOError:
            return False
        except OSError:
            if foreign():
                raise
            self._end()

    def receive(self) -> Message:
        """Read one message. Its descriptors go to _files."""
        start = 0
        while True:
            end = self._buffer.find(b"\n", start)
            if end >= 0:
                line = bytes(self._buffer[:end])
                del self._buffer[:end + 1]
                op, _, fields = line.decode("utf-8", "replace").partition(" ")
                return op, decode(fields)
            start = len(self._buffer)
            try:
                data, ancillary, _, _ = self.sock.recvmsg(CHUNK, RIGHTS, MSG_CMSG_CLOEXEC)
            except OSError:
                if foreign():
                    raise
                self._end()
            if not data:
                _exit(0)
            self._buffer.extend(data)
            for level, kind, rights in ancillary:
                if level == SOL_SOCKET and kind == SCM_RIGHTS:
                    self._files.extend(memoryview(rights[:len(rights) & ~3]).cast("i"))

    def post(self, message: Message) -> None:
        """Put a message where its reader looks for it."""
        op, fields = message
        if op != "input":
            self._mail.append(message)
            return
        n = fields["n"]
        job = self.unanswered.pop(n, None)
        if job is not None:  # else the question was withdrawn
            self.send("taken", id=job, n=n)
            self.answers[n] = fields

    def take(self, on_error: Callable[[BaseException], object]) -> Message:
        """Return the next message for the main thread, with room for its descriptors.

        What a signal handler of user code raises meanwhile goes to on_error."""
        while self._reserve:
            close(self._reserve.pop())
        while not self._mail:
            with self.reading:
                if not self._mail:
                    self._await_line(on_error)
                    self.post(self.receive())
        return self._mail.pop(0)

    def _await_line(self, on_error: Callable[[BaseException], object]) -> None:
        while b"\n" not in self._buffer:
            try:
                return self.wait()
            except BaseException as error:
                on_error(error)

    def hold_reserve(self) -> None:
        """Hold descriptors for the next job: two that come in, and one to move them with."""
        try:
            while len(self._reserve) < 3:
                self._reserve.append(copy_high(self.sock.fileno()))
        except OSError:  # there are no more
            pass

    def rights(self, fields: Fields) -> list[int]:
        """Return the descriptors that came with a message of these fields."""
        count = fields.get("fds", 0)
        taken, self._files[:count] = self._files[:count], []
        return taken

    def move(self, fd: int, token: str) -> None:
        """Continue over another socket, in a branch of the worker."""
        close(self.sock.detach())
        self.sock, self._begin = socket(fileno=move_high(fd)), "\n" + token + " "
        self._buffer.clear()
        for forgotten in (self._files, self._mail, self.unanswered, self.answers):
            forgotten.clear()

    def leave(self) -> None:
        """Leave the channel to the parent, in a forked child."""
        while self._reserve:
            close(self._reserve.pop())
        if self.sock is not None:
            close(self.sock.detach())
            self.sock = None  # type: ignore[assignment]  # only send and leave are called then


def foreign() -> bool:
    """Report whether the error at hand was raised in a frame beyond the caller's.

    It is not the socket's then: a signal handler of user code raised it, a TimeoutError mostly."""
    trace = exc_info()[2]
    return trace is not None and trace.tb_next is not None
