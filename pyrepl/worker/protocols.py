"""Types for the type checker only: no worker loads this module."""

from __future__ import annotations

from types import FrameType
from typing import Any, Protocol, TextIO

Fields = dict[str, Any]  # the fields of a command or an event
Message = tuple[str, Fields]  # a command's name and its fields


class Loop(Protocol):
    """The event loops as interrupts see them, see tasks."""

    def drives(self, frame: FrameType) -> bool:
        """Report whether our own loop is at work, or frame, of ours, is about to run it."""

    def interrupt(self, frame: FrameType | None) -> bool:
        """Interrupt the job in our own loop; report whether the caller must raise."""

    def postpone(self, frame: FrameType | None) -> bool:
        """Let a loop of user code raise the interrupt itself, if one is at work."""


class Output(Protocol):
    """A job as a router sees it, see streams."""

    @property
    def out(self) -> TextIO: ...
    @property
    def err(self) -> TextIO: ...
    def reopen(self, name: str) -> None: ...


class TextRouter(Protocol):
    """A router as the stream of its bytes sees it, see binary."""

    name: str

    def stream(self) -> Any: ...
    def flush(self) -> None: ...
    def fileno(self) -> int: ...


class OpenFigures(Protocol):
    """The figures that pyplot has open, as display sees them, see figures."""

    def current(self) -> Any: ...
    def note_shown(self, figure: Any) -> None: ...
    def end(self, job: str) -> None: ...
