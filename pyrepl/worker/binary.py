"""sys.stdout.buffer and sys.stderr.buffer: bytes, in order with the text."""

from __future__ import annotations

from io import BufferedIOBase

from .frames import breakable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterable

    from .protocols import TextRouter


@breakable
class Binary(BufferedIOBase):
    """The bytes of one router."""

    closed = False
    mode = "wb"

    def __init__(self, router: TextRouter) -> None:
        self.router = router
        self.name = router.name

    @property
    @breakable
    def raw(self) -> Any:
        """Return the file itself, after writing out everything that is buffered."""
        self.flush()
        return self.router.stream().buffer.raw

    def write(self, data: Any) -> int:
        stream = self.router.stream()
        stream.flush()
        count: int = stream.buffer.write(data)
        stream.buffer.flush()
        return count

    def writelines(self, lines: Iterable[Any]) -> None:
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        self.router.flush()

    def fileno(self) -> int:
        return self.router.fileno()

    def isatty(self) -> bool:
        return False

    def readable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def close(self) -> None:
        self.flush()
