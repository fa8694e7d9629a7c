"""Have the module traceback, whoever uses it, name jobs where code has a file name, see sources."""

from __future__ import annotations

from .carry import wraps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    from .sources import Sources


def connect(sources: Sources, traceback: ModuleType) -> None:
    """Change the two classes that take over a file name."""
    init_frame, init = traceback.FrameSummary.__init__, traceback.TracebackException.__init__

    @wraps(init_frame)
    def named_frame(self: Any, filename: str, *args: Any, **options: Any) -> None:
        init_frame(self, sources.shown(filename), *args, **options)

    @wraps(init)
    def named_error(self: Any, *args: Any, **options: Any) -> None:
        init(self, *args, **options)
        if "filename" in self.__dict__:  # it describes a SyntaxError
            self.filename = sources.shown(self.filename)

    traceback.FrameSummary.__init__ = named_frame
    traceback.TracebackException.__init__ = named_error
