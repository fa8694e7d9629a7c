"""Ask the owner for a line over the channel, and wait for it."""

from __future__ import annotations

from _thread import get_ident
from time import sleep

from .frames import breakable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .channel import Channel
    from .interrupts import Interrupts
    from .streams import Streams

PROMPT = 4096  # characters of a prompt that are sent: its end is what is shown


class Questions:
    """The questions of all jobs."""

    def __init__(self, channel: Channel, interrupts: Interrupts, streams: Streams) -> None:
        self.channel, self.interrupts, self.streams = channel, interrupts, streams
        self._asked = 0  # so far

    def ask(self, kind: str, prompt: str, by: str) -> bytes:
        """Ask for a line and wait for it. Return b"" at the end of file."""
        prompt = str.__getitem__(prompt, slice(-PROMPT, None))
        job, channel = self.streams.running, self.channel
        if channel.interrupted():
            raise RuntimeError("%s can't ask in a signal handler that came while the session sent "
                               "an event; ask outside of the handler" % by)
        if job is None:
            return b""  # a thread whose job is over: no one would answer
        self.streams.flush_all()
        self.interrupts.deliver()
        self._asked = n = self._asked + 1
        channel.unanswered[n] = job.id
        if self.streams.running is not job:  # it has ended meanwhile
            channel.unanswered.pop(n, None)
            channel.answers.pop(n, None)
            return b""
        try:
            channel.send("input", id=job.id, n=n, kind=kind, prompt=prompt, by=by)
            self._await_answer(n)
        except BaseException:
            if channel.unanswered.pop(n, None) is not None:
                channel.send("resumed", id=job.id, n=n)
            channel.answers.pop(n, None)
            raise
        answer = channel.answers.pop(n)
        line: str = answer.get("line") or ""
        if not line and answer.get("eof"):
            return b""
        if not line.endswith("\n"):
            line += "\n"
        return line.encode("utf-8", "surrogateescape")

    def _await_answer(self, n: int) -> None:
        """Read the channel until the answer is there, here or in another thread."""
        answers, reading = self.channel.answers, self.channel.reading
        while n not in answers:
            self.interrupts.deliver()
            if reading.acquire(True, 0.02):
                try:
                    if n not in answers:
                        self._read_one()
                finally:
                    reading.release()

    def _read_one(self) -> None:
        """Read one message. Only the main thread may block: others leave it the channel."""
        if get_ident() == self.interrupts.main:
            self._wait()
        elif not self.channel.ready():
            sleep(0.02)
            return
        self.channel.post(self.channel.receive())

    @breakable
    def _wait(self) -> None:
        """Wait for the channel; here an interrupt finds nothing half done."""
        self.interrupts.deliver()
        self.channel.wait()
