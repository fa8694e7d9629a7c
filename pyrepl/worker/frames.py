"""Our frames: how they are recognized, and which of them an interrupt may leave.

Every module of ours runs on a private copy of the builtins (see loader), by which its frames are
recognized wherever they stand on the stack. Plain imported, as by the tests, all frames look alike.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType, FrameType
    from typing import Any, TypeVar

    Marked = TypeVar("Marked", bound=Any)

PRIVATE = globals()["__builtins__"]

marked: set[CodeType] = set()  # the code of what may be left anywhere


def ours(frame: FrameType) -> bool:
    """Report whether a frame runs code of ours."""
    return frame.f_builtins is PRIVATE


def breakable(what: Marked) -> Marked:
    """Mark a function, or the methods of a class: an interrupt may leave it at any point.

    That holds for a function that calls user code, that waits, or that does no harm if it is left
    half done. In all other code of ours an interrupt is noted and raised later, see interrupts.
    """
    if isinstance(what, type):
        for each in vars(what).values():
            if type(each) is type(ours):
                marked.add(each.__code__)
    else:
        marked.add(what.__code__)
    return what


def innermost(frame: FrameType | None) -> FrameType | None:
    """Return the innermost frame of ours, on the stack from frame outwards."""
    while frame is not None and frame.f_builtins is not PRIVATE:
        frame = frame.f_back
    return frame
