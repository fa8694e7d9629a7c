"""How a job ended: traceback on its stderr, and the words for `done`.

Tracebacks show the user's frames and none of ours: ours are cut out of the
traceback objects themselves, so that the user's excepthook and pdb.pm() see
the same. Whatever user code did to traceback or linecache, or does in a
__str__, something is reported: at the last, by the few lines at the end.
"""

import builtins
import sys
from posix import write

from . import execute, interrupts, sources, streams
from .execute import type_name
from .interrupts import breakable

ERROR = 300  # characters of the error in a line

BaseExceptionGroup = getattr(builtins, "BaseExceptionGroup", ())

# An exception's own, whatever its class has in their place.
args, cause, context, traceback = [BaseException.__dict__[name] for name in ("args", "__cause__", "__context__", "__traceback__")]


def ending(error):
    """Reports an exception that ended a job; returns the fields of `done`."""
    if issubclass(type(error), SystemExit):
        return {"end": "exit", "code": exit_code(error)}
    before, interrupts.hit = interrupts.hit, False
    shown = False
    try:
        clean(error)
        line = summary(error)
        show(error)
        shown = True
    except BaseException:  # an interrupt, or a __str__ that goes wrong in its own way
        line = type_name(error)
    if not shown:
        streams.report(format_bare(error))
    if interrupts.hit:  # traceback swallows it, if it hits a __str__
        line = "KeyboardInterrupt"
    interrupts.hit |= before
    return {"end": "raised", "error": line}


def interrupted(second):
    """Reports whether a report was interrupted, and did not fail by itself."""
    return interrupts.hit and issubclass(type(second), KeyboardInterrupt)


def exit_code(error):
    """The exit code of a SystemExit, as the interpreter reads it."""
    try:
        code = error.code
        if code is None:
            return 0
        if isinstance(code, int):
            return int(code) if -1 << 31 <= code < 1 << 31 else -1
        streams.report(text_of(code) + "\n")
    except BaseException:
        pass
    return 1


def clean(error):
    """Cuts our frames out of an exception and of those it is linked to."""
    seen, left = set(), [error]
    while left:
        each = left.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        trim(each, each is error)
        left += (cause.__get__(each), context.__get__(each))
        if BaseExceptionGroup and issubclass(type(each), BaseExceptionGroup):
            left += each.exceptions


def trim(error, first):
    """Cuts our frames out of one traceback; the first also begins in user code."""
    frames = []
    tb = traceback.__get__(error)
    while tb is not None:
        if tb.tb_frame.f_builtins is not __builtins__:
            frames.append(tb)
        tb = tb.tb_next
    if first:
        for i, tb in enumerate(frames):
            if tb.tb_frame.f_code.co_filename in sources.texts:
                frames = frames[i:]
                break
        else:
            if issubclass(type(error), SyntaxError):
                frames = []
    after = None
    for tb in reversed(frames):
        tb.tb_next = after
        after = tb
    traceback.__set__(error, after)


def show(error):
    """Shows an exception, by the user's excepthook if there is one."""
    kind, tb = type(error), traceback.__get__(error)
    sys.last_type, sys.last_value, sys.last_traceback = kind, error, tb
    sys.last_exc = error
    hook = sys.__dict__.get("excepthook")
    if hook is execute.excepthook or hook is None:
        streams.report(formatted(error))
        return
    try:
        call(hook, kind, error, tb)
    except BaseException as second:
        if interrupted(second):
            raise
        clean(second)
        streams.report("Error in sys.excepthook:\n" + formatted(second) +
                       "\nOriginal exception was:\n" + formatted(error))


def call(function, *arguments):
    """Calls user code."""
    interrupts.deliver()
    return function(*arguments)


def formatted(error):
    """The traceback as text."""
    try:
        return format_whole(error)
    except BaseException as second:
        if interrupted(second):
            raise
        return format_small(error)


def format_whole(error):
    """Formats by the traceback module."""
    import linecache
    from traceback import TracebackException
    if linecache.cache is not sources.cache or not sources.cache.keys() >= sources.texts.keys():
        sources.connect(linecache)
    if issubclass(type(error), SyntaxError) and error.text is None:
        error.text = sources.line(error.filename, error.lineno)
    whole = TracebackException(type(error), error, traceback.__get__(error))
    return "".join(whole.format())


def format_small(error):
    """Formats by nothing that user code can have changed."""
    return "\n".join(stack(error) + [headline(error)]) + "\n"


def format_bare(error):
    """Formats without any user code, after an interrupt of what calls some."""
    line, given = type_name(error), args.__get__(error)
    if len(given) == 1 and type(given[0]) is str and given[0]:
        line += ": " + given[0]
    lines = stack(error) + [line]
    if interrupts.hit:
        lines += ["", "During the report of the above exception it was interrupted:", "", "KeyboardInterrupt"]
    return "\n".join(lines) + "\n"


def stack(error):
    """The lines of a traceback that tell where."""
    lines, tb = [], traceback.__get__(error)
    while tb is not None and len(lines) < 200:
        code = tb.tb_frame.f_code
        lines.append('  File "%s", line %d, in %s' % (code.co_filename, tb.tb_lineno, code.co_name))
        text = sources.line(code.co_filename, tb.tb_lineno)
        if text:
            lines.append("    " + text.strip())
        tb = tb.tb_next
    if lines:
        lines.insert(0, "Traceback (most recent call last):")
    return lines


def summary(error):
    """The exception in one line."""
    line = headline(error).partition("\n")[0]
    return line if len(line) <= ERROR else line[:ERROR - 1] + "\u2026"


def headline(error):
    """Type and message, as the last line of a traceback has them."""
    name = type_name(error)
    if issubclass(type(error), SyntaxError):
        text = error.msg
        text = text if isinstance(text, str) else text_of(text)
    else:
        text = text_of(error)
    return "%s: %s" % (name, text) if text else name


def text_of(value):
    """str() of what may not have one."""
    try:
        text = call(str, value)
        return text if type(text) is str else str.__str__(text)
    except BaseException as second:
        if interrupted(second):
            raise
        return "<exception str() failed>"


for _each in (call, format_whole):
    breakable(_each)
