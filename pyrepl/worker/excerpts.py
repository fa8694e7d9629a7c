"""Shorten the text of a traceback: the frames of libraries are counted.

All frames of user code stay. Of the frames of libraries the last two of an exception stay, which
say what has failed. It is the text that is shortened, because a pool hands on the traceback of
another process as text, and the messages of some exceptions have one, too.
"""

from __future__ import annotations

import os
import re

from .frames import breakable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterator

    Piece = tuple[str, str, str]  # text, and of a frame the library, or "", and the indentation

LAST = 2  # frames of libraries that stay
NAMED = 3  # libraries that are named
LONG = 200  # characters of the text of an exception that is not repeated
FRAME = re.compile(r'( *(?:\| )?  )File "([^"\n]+)", line \d+, in ')
REPEATED = re.compile(r"\[Previous line repeated (\d+) more time")
HEADER = "Traceback (most recent call last):\n"
REMOTE = '"""\n\nThe above exception was the direct cause of the following exception:\n\n' + HEADER
INSTALLED = "/site-packages/", "/dist-packages/", os.path.dirname(os.__file__) + "/"
HINT = "; sys.last_value has them"


@breakable
def shortened(text: str) -> str:
    """Return the text of a traceback without most of the frames of libraries.

    After the traceback of another process none of them stays: they only hand on the exception."""
    parts: list[str] = []
    run: list[Piece] = []  # the last frames, if they are of libraries
    last, hint, tail = LAST, HINT, ""
    for piece in [*pieces(text), ("", "", "")]:
        if piece[1]:
            run.append(piece)
            continue
        tail = piece[0] or tail
        if run:
            inner = piece[0].startswith(run[0][2])  # user code follows, which a library has called
            left = run[:len(run) - (0 if inner else last)]
            if left:
                parts.append(count(left, hint))
                hint = ""
            parts += [each[0] for each in run[len(left):]]
            run = []
        parts.append(piece[0])
        if HEADER in piece[0]:
            last = 0 if REMOTE in piece[0] else LAST
    text = "".join(parts)
    if len(tail) <= LONG:
        return text
    before, _, _ = text.rpartition(tail)
    return before.replace(tail, tail[:LONG].partition("\n")[0] + " \u2026\n") + tail


def pieces(text: str) -> Iterator[Piece]:
    """Return the frames of a traceback, and the text before, between and behind them."""
    piece = library = indent = ""
    for line in text.splitlines(True):
        frame = FRAME.match(line)
        of_frame = indent and (line.startswith(indent + "  ") or
                               line.startswith(indent + "[Previous line repeated "))
        if frame or indent and not of_frame:
            yield piece, library, indent
            piece = library = indent = ""
        if frame:
            indent, library = frame[1], library_of(frame[2])
        piece += line
    yield piece, library, indent


def library_of(file: str) -> str:
    """Return the name of the library or of the module of Python that a file is of, or ""."""
    if file.startswith("<frozen "):
        return file[8:-1].partition(".")[0]
    for directory in INSTALLED:
        at = file.rfind(directory)
        if at >= 0:
            return file[at + len(directory):].partition("/")[0].partition(".")[0]
    # Cython names a file from the directory in which it was compiled: that of the user has it.
    compiled = file.endswith((".pyx", ".pxi", ".pxd")) and file[0] != "/"
    if not compiled or os.path.exists(file):
        return ""
    return file.partition("/")[0].partition(".")[0]


def count(frames: list[Piece], hint: str) -> str:
    """Return the line that counts the frames that are left out."""
    number = len(frames)
    for text, _, _ in frames:
        repeated = REPEATED.search(text)
        number += int(repeated[1]) if repeated else 0
    names = list(dict.fromkeys([library for _, library, _ in frames]))
    of = ", ".join(names[:NAMED]) + (", \u2026" if len(names) > NAMED else "")
    return "%s[%d frame%s of %s left out%s]\n" % (
        frames[0][2], number, "s" if number > 1 else "", of, hint)
