"""Standard input: every way to read it asks a question over the channel.

sys.stdin is an ordinary text stream whose raw end asks. input() and getpass() say what they ask for
and read through it. It is replaced before a job if user code closed it or read from it: no job gets
what an earlier one left in it. In a forked child standard input is descriptor 0.
"""

from __future__ import annotations

import builtins
import sys
from _io import BufferedReader, FileIO, TextIOWrapper, _RawIOBase
from _thread import get_ident
from posix import isatty

from .frames import breakable
from .names import imitate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any, Callable

    from .channel import Channel
    from .interrupts import Interrupts
    from .questions import Questions
    from .streams import Streams


@breakable
class Input(_RawIOBase):
    """The raw end of sys.stdin: each line that is not there yet is asked for."""

    name = "<stdin>"
    mode = "rb"

    def __init__(self, ask: Callable[[str, str, str], bytes], on_line: Callable[[], None]) -> None:
        """Get lines from ask; call on_line when one is kept and an interrupt loses nothing."""
        self.rest = b""  # the unread rest of the last answer
        self.used = False
        self.what: dict[int, tuple[str, str, str]] = {}  # thread -> kind, prompt and asker, if said
        self._ask, self._on_line = ask, on_line

    def readable(self) -> bool:
        return True

    def fileno(self) -> int:
        return 0

    def isatty(self) -> bool:
        return isatty(0)

    def readinto(self, into: Any) -> int:
        self.used = True
        if not self.rest:
            self.rest = self._ask(*self.what.pop(get_ident(), ("line", "", "sys.stdin")))
            self._on_line()
        data, self.rest = self.rest[:len(into)], self.rest[len(into):]
        into[:len(data)] = data
        return len(data)


class Console:
    """Standard input."""

    def __init__(self, channel: Channel, interrupts: Interrupts, streams: Streams) -> None:
        self.channel, self.interrupts, self.streams = channel, interrupts, streams
        self.stdin: Any = None  # ours: a text stream over Input; None in a forked child
        self._real_input = builtins.input
        self._questions: Questions | None = None

    def _ask(self, kind: str, prompt: str, by: str) -> bytes:
        """Ask for a line, by a module that is loaded when it is first needed."""
        if self._questions is None:
            from .questions import Questions
            self._questions = Questions(self.channel, self.interrupts, self.streams)
        return self._questions.ask(kind, prompt, by)

    def cancel_questions(self) -> None:
        """End the questions of other threads, whose job is over."""
        channel = self.channel
        for n in list(channel.unanswered):
            if channel.unanswered.pop(n, None) is not None:
                channel.answers[n] = {"eof": True}

    @breakable
    def _read_line(self, kind: str, prompt: str, by: str) -> str:
        """Read a line of sys.stdin; if it has to be asked for, kind, prompt and by say how."""
        what = self.stdin.buffer.raw.what
        what[get_ident()] = kind, prompt, by
        try:
            line: str = self.stdin.readline()
        finally:
            what.pop(get_ident(), None)
        if not line:
            raise EOFError("EOF when reading a line")
        return line[:-1] if line.endswith("\n") else line

    def install(self) -> None:
        """Put our standard input in place."""

        @breakable
        def input(prompt: object = "", /) -> str:
            if self.stdin is None or sys.stdin is not self.stdin:
                return self._real_input(prompt)
            prompt = str(prompt)
            if prompt:
                sys.stdout.write(prompt)
            return self._read_line("line", prompt, "input()")

        imitate(input, "builtins", self._real_input)
        builtins.input = input
        sys.stdin = sys.__stdin__ = self._make()  # type: ignore[misc]

    def hook_getpass(self, module: ModuleType) -> None:
        """Lead getpass to the channel, except in forked children."""
        real_getpass = module.getpass

        @breakable
        def getpass(prompt: object = "Password: ", stream: Any = None, **options: Any) -> str:
            if self.stdin is None:
                answer: str = real_getpass(prompt, stream, **options)
                return answer
            text = str(prompt)
            (stream or sys.stderr).write(text)
            (stream or sys.stderr).flush()
            return self._read_line("secret", text, "getpass()")

        imitate(getpass, "getpass", real_getpass)
        module.getpass = module.unix_getpass = getpass  # type: ignore[attr-defined]

    def _make(self) -> Any:
        """Make a standard input that holds nothing."""
        raw = Input(self._ask, self.interrupts.deliver)
        self.stdin = TextIOWrapper(BufferedReader(raw), "utf-8", "surrogateescape")
        return self.stdin

    def renew(self) -> None:
        """Make a new standard input if the old one was used or closed."""
        try:
            used = self.stdin.closed or self.stdin.buffer.raw.used
        except ValueError:  # detached
            used = True
        if used:
            ours = sys.__dict__.get("stdin") is self.stdin
            sys.__stdin__ = self._make()  # type: ignore[misc]
            if ours:
                sys.stdin = self.stdin

    def leave(self) -> None:
        """Let a forked child read descriptor 0."""
        ours = sys.__dict__.get("stdin") is self.stdin
        self.stdin = None
        raw = FileIO(0, closefd=False)
        stdin = TextIOWrapper(BufferedReader(raw), "utf-8", "surrogateescape")
        sys.__stdin__ = stdin  # type: ignore[misc]
        if ours:
            sys.stdin = stdin
