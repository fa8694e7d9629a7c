"""sys.stdout and sys.stderr: text streams that hand each text to the streams of one job.

Under a router no Python line stands between write(2) and its bookkeeping, so that an interrupt of a
blocked write tears and doubles nothing, and may come anywhere.

The C streams hold text until a newline comes. A router still writes a piece of a line out at once,
because the code may now compute in C for minutes, where no signal handler and no thread gets a
turn. A program that prints many pieces in a short time would spend that time on writes. Of those
the router writes only the first PIECES out, and asks the owner, who waits until the stream is
silent, to have the rest flushed.

The interpreter writes some tracebacks itself, line by line: of a thread before 3.13, and what it
ignores. They name jobs, as the others do (see tracebacks).
"""

from __future__ import annotations

from io import TextIOBase
from time import monotonic

from .frames import breakable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Iterable, NoReturn

    from .binary import Binary
    from .protocols import Output

EBADF = 9
FILE, CODE = '  File "', "<code "  # begin a line of a traceback, and the file name of code
PIECES, SHORT = 50, 0.05  # so many pieces are written out within so many seconds


@breakable
class Router(TextIOBase):
    """sys.stdout or sys.stderr."""

    closed = False
    newlines = None

    def __init__(self, current: Callable[[], Output], which: str, fd: int,
                 settings: dict[str, Any], ask: Callable[[str], bool],
                 shown: Callable[[str], str]) -> None:
        """Write to the stream `which` of the current job; keep in settings what user code sets.

        ask(which) asks the owner to have the stream flushed; it returns False if it can't now.
        shown returns the name that tracebacks show in place of a file name."""
        self.current, self.which, self.fd, self.settings = current, which, fd, settings
        self.ask, self.pieces, self.since = ask, PIECES, 0.0
        self.shown = shown
        self.name = "<std%s>" % which
        self.mode = "w"
        self._binary: Binary | None = None

    def stream(self) -> Any:
        """Return the stream of the current job."""
        return getattr(self.current(), self.which)

    def write(self, text: str) -> Any:
        if type(text) is str and text.startswith(FILE + CODE):
            name, *rest = text[len(FILE):].split('"', 1)
            text = FILE + '"'.join([self.shown(name), *rest])
        try:
            count = getattr(self.current(), self.which).write(text)
            if self.pieces and "\n" not in text:
                self._show_piece()
            return count
        except OSError as error:
            if error.errno != EBADF:  # else user code closed it
                raise
            self.current().reopen(self.which)
            return self.stream().write(text)

    def _show_piece(self) -> None:
        """Write out a piece of a line; after the last of PIECES have the owner flush the rest."""
        self.pieces -= 1
        if not self.pieces:
            now = monotonic()
            if now - self.since > SHORT:
                self.pieces, self.since = PIECES, now
            elif not self.ask(self.which):
                self.pieces = 1  # the next piece asks again
        self.stream().flush()

    def renew(self) -> None:
        """Write out pieces of lines again, after the stream was flushed."""
        self.pieces, self.since = PIECES, monotonic()

    def writelines(self, lines: Iterable[Any]) -> None:
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        self.stream().flush()

    def close(self) -> None:
        """Flush only: there is a next job."""
        self.flush()

    @property
    def buffer(self) -> Binary:
        """The stream of bytes, loaded when it is first needed."""
        if self._binary is None:
            from .binary import Binary
            self._binary = Binary(self)
        return self._binary

    def detach(self) -> Any:
        """Give the buffer away and keep working: there is a next job."""
        self.flush()
        return self.buffer

    def reconfigure(self, **how: Any) -> None:
        """Change the stream of this job and of the next ones."""
        self.stream().reconfigure(**how)
        self.settings.update({k: v for k, v in how.items() if v is not None})

    def fileno(self) -> int:
        return self.fd

    def isatty(self) -> bool:
        return False

    def readable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    encoding = property(lambda self: self.stream().encoding)
    errors = property(lambda self: self.stream().errors)
    line_buffering = property(lambda self: self.stream().line_buffering)
    write_through = property(lambda self: self.stream().write_through)

    def __repr__(self) -> str:
        return "<async_repl stream name=%r encoding=%r>" % (self.name, self.encoding)

    def __reduce__(self) -> NoReturn:
        raise TypeError("cannot pickle %r object" % self.name)
