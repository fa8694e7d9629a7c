"""Keep debuggers out of our frames: they step over them and don't list them."""

from __future__ import annotations

from .carry import wraps
from .frames import ours

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType, ModuleType
    from typing import Any, Callable

OURS = __name__.partition(".")[0] + ".*"  # modules, as a pattern


def hide_frames(bdb: ModuleType, deliver: Callable[[], None]) -> None:
    """Change bdb.Bdb, the base of pdb."""
    init, get_stack = bdb.Bdb.__init__, bdb.Bdb.get_stack

    @wraps(init)
    def skipping_init(self: Any, skip: Any = None, *args: Any, **options: Any) -> None:
        init(self, [*(skip or ()), OURS], *args, **options)

    @wraps(get_stack)
    def user_stack(self: Any, frame: Any, tb: Any) -> tuple[list[Any], int]:
        frames, index = get_stack(self, frame, tb)
        shown = [f for f in frames if not hidden(f[0])]
        index -= sum([hidden(f[0]) for f in frames[:index + 1]])
        deliver()
        return shown, index

    bdb.Bdb.__init__ = skipping_init
    bdb.Bdb.get_stack = user_stack


def ask_by_input(pdb: ModuleType) -> None:
    """Have pdb ask by input(): from 3.15 on it would draw its prompt on the terminal itself."""
    if hasattr(pdb, "_pyrepl_available"):
        setattr(pdb, "_pyrepl_available", bool)  # returns False


def hidden(frame: FrameType) -> bool:
    """Report whether a frame is ours, or the bootstrap's below them."""
    return ours(frame) or frame.f_back is None and frame.f_code.co_filename == "<string>"
