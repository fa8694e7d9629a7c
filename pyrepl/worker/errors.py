"""An exception as data, for programs: `done` carries it beside the line for the status.

All of it is bounded, and read without running user code where that is possible: only the text of
the exceptions behind the first one takes their __str__.
"""

from __future__ import annotations

import builtins

from .codec import encode
from .names import LONG, error_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from .protocols import Fields
    from .sources import Sources

MESSAGE = 2000  # characters
LINE = 200  # characters of a line of source, or of a file's name
FIRST, LAST = 5, 15  # frames
BEHIND = 5  # exceptions that led to the first one, or that a group holds
NOTES = 5
TOTAL = 100_000  # bytes

# An exception's own attributes, whatever its class has in their place.
attributes = BaseException.__dict__

Group: Any = getattr(builtins, "BaseExceptionGroup", None)


def describe(error: BaseException, message: str, text: str, sources: Sources,
             text_of: Callable[[object], str]) -> Fields:
    """Return the fields of an exception with that message, which was shown as text."""
    data = of(error, message, sources)
    hint = hint_in(text, error_name(error), message)
    if hint:
        data["hint"] = hint
    behind: list[Fields] = []
    last, seen = error, {id(error)}
    while len(behind) < BEHIND:
        relation, after = "cause", attributes["__cause__"].__get__(last)
        if after is None and not attributes["__suppress_context__"].__get__(last):
            relation, after = "context", attributes["__context__"].__get__(last)
        if after is None or id(after) in seen:
            break
        seen.add(id(after))
        behind.append({"relation": relation, **of(after, text_of(after), sources)})
        last = after
    if behind:
        data["causes"] = behind
    if Group and issubclass(type(error), Group):
        members = Group.__dict__["exceptions"].__get__(error)
        data["exceptions"] = [{"type": error_name(each), "message": text_of(each)[:MESSAGE]}
                              for each in members[:BEHIND]]
    for name in ("causes", "exceptions", "frames"):
        if len(encode(data)) > TOTAL:
            data.pop(name, None)
    return data


def of(error: BaseException, message: str, sources: Sources) -> Fields:
    """Return the fields of one exception."""
    data: Fields = {"type": error_name(error), "message": message[:MESSAGE]}
    notes = object.__getattribute__(error, "__dict__").get("__notes__")
    if type(notes) is list:
        data["notes"] = [note[:MESSAGE] for note in notes[:NOTES] if type(note) is str]
    if issubclass(type(error), SyntaxError):
        position = position_of(error, sources)
        if position:
            data["position"] = position
    tb, frames, left = attributes["__traceback__"].__get__(error), [], 0
    while tb is not None:
        frames.append(tb)
        if len(frames) > FIRST + LAST:
            del frames[FIRST]
            left += 1
        tb = tb.tb_next
    if frames:
        data["frames"] = [frame_of(tb, sources) for tb in frames]
    if left:
        data["omitted_frames"] = left
    return data


def frame_of(tb: Any, sources: Sources) -> Fields:
    """Return the fields of a frame."""
    code, number = tb.tb_frame.f_code, tb.tb_lineno
    source, file = line_of(code.co_filename, number, sources), sources.shown(code.co_filename)
    return {"file": file[:LINE], "line": number, "function": code.co_name[:LONG],
            **({"source": source} if source else {})}


def line_of(file: str, number: Any, sources: Sources) -> str:
    """Return a line of source without the blanks around it, or ""."""
    text = sources.line(file, number)
    if text is None:
        from linecache import getline
        text = getline(file, number)
    return text.strip()[:LINE]


def position_of(error: Any, sources: Sources) -> Fields:
    """Return where a SyntaxError is, as far as its attributes are what the compiler sets."""
    data: Fields = {}
    members = SyntaxError.__dict__
    for name, attribute in (("line", "lineno"), ("column", "offset"), ("end_line", "end_lineno"),
                            ("end_column", "end_offset")):
        if attribute in members:  # the last two are from 3.10 on
            value = members[attribute].__get__(error)
            if type(value) is int and 0 < value < 1 << 31:
                data[name] = value
    file = members["filename"].__get__(error)
    if type(file) is str and "line" in data:
        data["file"] = sources.shown(file)[:LINE]
        source = line_of(file, data["line"], sources)
        if source:
            data["source"] = source
    return data


def hint_in(text: str, name: str, message: str) -> str:
    """Return what the interpreter adds to the last line of a traceback: "Did you mean: 'x'?"."""
    headline = "\n%s: %s" % (name, message)
    at = text.rfind(headline) if message else -1
    if at < 0:
        return ""
    return text[at + len(headline):].partition("\n")[0].lstrip(". ")[:LINE]
