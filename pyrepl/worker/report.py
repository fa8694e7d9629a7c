"""How a job ended: the traceback on its stderr, and the words for `done`.

Tracebacks show the user's frames and none of ours: ours are cut out of the traceback objects
themselves, so that the user's excepthook and pdb.pm() see the same. Whatever user code did to
traceback or linecache, or does in a __str__, something is reported: as a last resort, by
format_bare.
"""

from __future__ import annotations

import builtins
import sys

from .frames import breakable, ours
from .names import error_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any, Callable

    from .interrupts import Interrupts
    from .protocols import Fields
    from .sources import Sources
    from .streams import Streams

LENGTH = 300  # characters of the error in a line
FRAMES = 200  # frames of a traceback that is formatted here
LAST, FIRST = 1000, 5  # frames shown of a deep traceback; the interpreter shows the last
HEADER = "Traceback (most recent call last):\n"

BaseExceptionGroup: Any = getattr(builtins, "BaseExceptionGroup", ())

# An exception's own attributes, whatever its class has in their place.
args_of, cause_of, context_of, traceback_of = [
    BaseException.__dict__[name] for name in ("args", "__cause__", "__context__", "__traceback__")]


class Reporter:
    """Reports the exceptions that end jobs."""

    def __init__(self, interrupts: Interrupts, sources: Sources, streams: Streams,
                 excepthook: object) -> None:
        """Report to streams; excepthook is the interpreter's own, which does less than we do."""
        self.interrupts, self.sources, self.streams = interrupts, sources, streams
        self._excepthook = excepthook
        self._shown = ""  # the traceback that was reported last

    def ending(self, error: BaseException) -> Fields:
        """Report an exception that ended a job and return the fields of `done`."""
        if issubclass(type(error), SystemExit):
            return {"end": "exit", "code": self._exit_code(error)}
        interrupts = self.interrupts
        if issubclass(type(error), KeyboardInterrupt):
            interrupts.take()  # C code has raised it, and Python's handler of the signal came later
        before, interrupts.interrupted = interrupts.interrupted, False
        shown, message, hint = False, "", {}
        try:
            self._clean(error)
            message = self._message(error)
            line = self._summary(error, message)
            hint = self._hint(error)
            self._show(error)
            shown = True
        except BaseException:  # an interrupt, or a __str__ that fails in its own way
            line = error_name(error)
        if not shown:
            self.streams.report(self._format_bare(error))
        elif not interrupts.interrupted:
            hint.update(self._data(error, message))
        if interrupts.interrupted:  # traceback swallows an interrupt that hits a __str__
            line = "KeyboardInterrupt"
        interrupts.interrupted |= before
        return {"end": "raised", "error": line, **hint}

    def _data(self, error: BaseException, message: str) -> Fields:
        """Return the exception as data, as a field of `done`."""
        from .errors import describe
        shown, self._shown = self._shown, ""
        try:
            return {"exception": describe(error, message, shown, self.sources, self._text_of)}
        except BaseException:  # an interrupt of a __str__, or linecache is not what it was
            return {}

    def _hint(self, error: BaseException) -> Fields:
        """Return the hint that an exception gives, as fields of `done`."""
        if not issubclass(type(error), (ModuleNotFoundError, SyntaxError)):
            return {}
        from .hints import of
        try:
            return of(error, self.sources)
        except Exception:  # user code put an odd value into sys.modules or the exception
            return {}

    def _was_interrupted(self, second: BaseException) -> bool:
        """Report whether a report was interrupted and did not fail by itself."""
        return self.interrupts.interrupted and issubclass(type(second), KeyboardInterrupt)

    def _exit_code(self, error: Any) -> int:
        """Return the exit code of a SystemExit, as the interpreter reads it."""
        try:
            code = error.code
            if code is None:
                return 0
            if isinstance(code, int):
                return int(code) if -1 << 31 <= code < 1 << 31 else -1
            self.streams.report(self._text_of(code) + "\n")
        except BaseException:
            pass
        return 1

    def _clean(self, error: Any) -> None:
        """Cut our frames out of an exception and out of the exceptions it is linked to."""
        seen, left = set(), [error]
        while left:
            each = left.pop()
            if each is None or id(each) in seen:
                continue
            seen.add(id(each))
            self._trim(each, each is error)
            left += (cause_of.__get__(each), context_of.__get__(each))
            if BaseExceptionGroup and issubclass(type(each), BaseExceptionGroup):
                left += each.exceptions

    def _trim(self, error: BaseException, first: bool) -> None:
        """Cut our frames out of one traceback; the first one also begins in user code."""
        frames: list[TracebackType] = []
        tb = traceback_of.__get__(error)
        while tb is not None:
            if not ours(tb.tb_frame):
                frames.append(tb)
            tb = tb.tb_next
        if first:
            for i, tb in enumerate(frames):
                if tb.tb_frame.f_code.co_filename in self.sources.texts:
                    frames = frames[i:]
                    break
            else:
                if issubclass(type(error), SyntaxError):
                    frames = []
        relink(frames)
        traceback_of.__set__(error, frames[0] if frames else None)

    def _show(self, error: BaseException) -> None:
        """Show an exception, by the user's excepthook if there is one."""
        kind, tb = type(error), traceback_of.__get__(error)
        sys.last_type, sys.last_value, sys.last_traceback = kind, error, tb
        sys.last_exc = error  # type: ignore[attr-defined, unused-ignore]  # of 3.12
        hook = sys.__dict__.get("excepthook")
        if hook is self._excepthook or hook is None:
            self._shown = self._format(error)
            self.streams.report(self._shown)
            return
        try:
            self._call(hook, kind, error, tb)
        except BaseException as second:
            if self._was_interrupted(second):
                raise
            self._clean(second)
            self.streams.report("Error in sys.excepthook:\n" + self._format(second) +
                                "\nOriginal exception was:\n" + self._format(error))

    @breakable
    def _call(self, function: Callable[..., Any], *arguments: object) -> Any:
        """Call user code."""
        self.interrupts.deliver()
        return function(*arguments)

    def _format(self, error: BaseException) -> str:
        """Return the traceback as text."""
        try:
            return self._format_fully(error)
        except BaseException as second:
            if self._was_interrupted(second):
                raise
            line = headline(error, self._message(error))
            return "\n".join(self._stack(error) + [line]) + "\n"

    @breakable
    def _format_fully(self, error: Any) -> str:
        """Format by the traceback module, which user code may have changed."""
        import linecache
        from traceback import StackSummary, TracebackException, walk_tb
        sources = self.sources
        cache = sources.cache
        if (cache is None or cache is not linecache.cache
                or not cache.keys() >= sources.texts.keys()):
            sources.connect(linecache)
        if issubclass(type(error), SyntaxError) and error.text is None:
            error.text = sources.line(error.filename, error.lineno)
        whole = traceback_of.__get__(error)
        if getattr(sys, "tracebacklimit", None) is not None:
            return "".join(TracebackException(type(error), error, whole).format())
        last, hidden = tail(whole)
        lines = list(TracebackException(type(error), error, last, limit=-LAST).format())
        if hidden and HEADER in lines:
            at = len(lines) - lines[::-1].index(HEADER)
            first = StackSummary.extract(walk_tb(whole), limit=min(FIRST, hidden)).format()
            if hidden > FIRST:
                first.append("  [%d frames are left out]\n" % (hidden - FIRST))
            lines[at:at] = first
        from .excerpts import shortened
        return shortened("".join(lines))

    def _format_bare(self, error: BaseException) -> str:
        """Format without any user code, after an interrupt of a report that called some."""
        line, args = error_name(error), args_of.__get__(error)
        if len(args) == 1 and type(args[0]) is str and args[0]:
            line += ": " + args[0]
        lines = self._stack(error) + [line]
        if self.interrupts.interrupted:
            lines += ["", "During the report of the above exception it was interrupted:", "",
                      "KeyboardInterrupt"]
        return "\n".join(lines) + "\n"

    def _stack(self, error: BaseException) -> list[str]:
        """Return the lines of a traceback that say where the error was raised."""
        lines: list[str] = []
        tb = traceback_of.__get__(error)
        while tb is not None and len(lines) < FRAMES:
            code, number = tb.tb_frame.f_code, tb.tb_lineno
            file = self.sources.shown(code.co_filename)
            lines.append('  File "%s", line %d, in %s' % (file, number, code.co_name))
            text = self.sources.line(code.co_filename, number)
            if text:
                lines.append("    " + text.strip())
            tb = tb.tb_next
        if lines:
            lines.insert(0, "Traceback (most recent call last):")
        return lines

    def _summary(self, error: BaseException, message: str) -> str:
        """Return the exception in one line."""
        line = headline(error, message).partition("\n")[0]
        return line if len(line) <= LENGTH else line[:LENGTH - 1] + "\u2026"

    def _message(self, error: Any) -> str:
        """Return the message of an exception, as a traceback has it."""
        if issubclass(type(error), SyntaxError):
            text = error.msg
            return text if type(text) is str else self._text_of(text)
        return self._text_of(error)

    def _text_of(self, value: object) -> str:
        """Return str() of a value that may not have one."""
        try:
            text = self._call(str, value)
            return text if type(text) is str else str.__str__(text)
        except BaseException as second:
            if self._was_interrupted(second):
                raise
            return "<exception str() failed>"


def headline(error: BaseException, message: str) -> str:
    """Return type and message, as the last line of a traceback has them."""
    name = error_name(error)
    return "%s: %s" % (name, message) if message else name


def relink(frames: list[TracebackType]) -> None:
    """Make these frames, taken in order from one traceback, a traceback.

    Setting tb_next walks all frames that follow, in search of a circle. The traceback is cut into
    pieces first, so that each frame is walked once."""
    ends = [i for i, tb in enumerate(frames) if tb.tb_next is not next_of(frames, i)]
    for i in ends:
        frames[i].tb_next = None
    for i in ends:
        frames[i].tb_next = next_of(frames, i)


def next_of(frames: list[TracebackType], i: int) -> TracebackType | None:
    """Return the frame after number i, or None."""
    return frames[i + 1] if i + 1 < len(frames) else None


def tail(whole: TracebackType | None) -> tuple[TracebackType | None, int]:
    """Return the last frames of a traceback, and the number of frames before them."""
    depth, last = 0, whole
    each = whole
    while each is not None:
        depth += 1
        if depth > LAST:
            last = last.tb_next  # type: ignore[union-attr]
        each = each.tb_next
    return last, max(0, depth - LAST)
