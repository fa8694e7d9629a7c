"""The handle that display() returns if it is given a display_id, as IPython's display does."""

from __future__ import annotations

from .frames import breakable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .display import Displays


@breakable
class DisplayHandle:
    """Shows values in the place of others where output can change. Here they come below."""

    def __init__(self, displays: Displays, display_id: Any) -> None:
        """Take display_id as the handle's id, or make a new id if it is True."""
        self._displays = displays
        self.display_id = "%032x" % id(self) if display_id is True else display_id

    def __repr__(self) -> str:
        return "<DisplayHandle display_id=%s>" % self.display_id

    def display(self, value: Any, include: Any = None, exclude: Any = None, metadata: Any = None,
                transient: Any = None, raw: bool = False, clear: bool = False) -> None:
        """Show a value."""
        self._displays.display((value,), include, exclude, raw, clear)

    update = display
