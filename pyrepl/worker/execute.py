"""Runs a job: its statements, then its last expression, as a REPL does.

Of the functions here only those that call user code may be broken by an
interrupt. What comes before and after them is done whole: the pipes are in
place before `started` goes out, and what the job wrote is flushed before
`done`. User code runs there all the same, where it has left a signal handler,
a trace function or an audit hook, and what that raises ends the job at most.
"""

import builtins
import sys
from _ast import Expr, Expression, PyCF_ALLOW_TOP_LEVEL_AWAIT, PyCF_ONLY_AST
from posix import close, getpid
from sys import getrecursionlimit, setprofile, setrecursionlimit, settrace

from . import channel, console, forks, interrupts, names, sources, streams, terminal
from .interrupts import breakable

RESULT = 1 << 20  # characters of a result
FUTURES = 0x1FE0000  # flags of the compiler that __future__ sets
COROUTINE = 0x80  # code that awaits
NAME = 200  # characters of a type's name
BLOCK, BLOCKS = 2 << 20, 8  # bytes, and number, of what is held in reserve
FRAMES = 500  # what our own reports need of the recursion limit

displayhook, excepthook = sys.displayhook, sys.excepthook  # the interpreter's, or of its site
futures = 0  # those that earlier jobs have set
result = None  # text of the last expression's value
ballast = []  # memory that is let go when there is no more; nobody touches its pages


def job(message, files):
    """Runs one job, from its pipes to `done`."""
    id, source = message["id"], message.get("code", "")
    if len(files) < 2:  # user code, in a thread, took what was held in reserve
        for fd in files:
            close(fd)
        channel.send(ev="done", id=id, end="raised", error="OSError: the session has too many files open; restart it")
        return
    try:
        prepare(id, files)
        filename = sources.filename(id)
        sources.add(filename, source)
        if message.get("fresh"):
            refresh(message.get("paths", ()))
        interrupts.start()
        channel.send(ev="started", id=id)
    except BaseException as error:
        ballast.clear()
        channel.send(ev="done", id=id, **not_begun(error))
        return
    try:
        error = attempt(source, filename)
        settrace(None)
        setprofile(None)
    except BaseException as raised:
        error = raised
    if forks.pid != getpid():
        forks.end(error)
    try:
        done = conclude(error)
    except BaseException as raised:
        done = conclude_again(raised)
    try:
        channel.send(ev="done", id=id, **done)
    except BaseException:  # it went out or did not; a second one is nobody's
        channel.send(ev="done", id=id, **done)


def not_begun(error):
    """What `done` tells of a job whose code was not begun with."""
    interrupts.stop()
    streams.running = None
    if issubclass(type(error), MemoryError):
        return {"end": "raised", "error": "MemoryError"}
    return {"end": "raised", "error": type_name(error) + ": raised before the code began, which was not run; "
            "restart the session if it goes on"}


def prepare(id, files):
    """Sets what user code relies on, whatever the last job did to it."""
    global result
    result = None
    brace()
    streams.begin(id, files)
    channel.reserve()
    console.renew()
    names.mend()


def brace():
    """Holds memory to report with that there is no more. Where it is short, some is left for the job: it may be the one
    that frees the rest."""
    try:
        while len(ballast) < BLOCKS:
            ballast.append(bytes(BLOCK))
    except MemoryError:
        del ballast[-1:]


def refresh(paths):
    """Makes what was just installed importable: of .pth files only those are read that are new."""
    from importlib import invalidate_caches
    from os.path import split
    from site import addpackage
    try:
        invalidate_caches()
        for path in paths:
            addpackage(*split(path), None)
    except BaseException:  # a finder of the user's, a line of code in a .pth file
        pass


def attempt(source, filename):
    """Runs user code and returns what it raised, or None."""
    error = None
    try:
        user_code(source, filename)
    except BaseException as raised:
        error = raised
        if issubclass(type(error), MemoryError):
            ballast.clear()
    try:
        streams.flush_foreign()
    except BaseException as raised:
        if error is None and issubclass(type(raised), KeyboardInterrupt):
            error = raised
    return error


def user_code(source, filename):
    """Runs the code and shows the value of its last expression."""
    body, last = compiled(source, filename)
    parts = [code for code in (body, last) if code is not None]
    value = None
    if sum([code.co_flags & COROUTINE for code in parts]):
        value = awaited(parts)
    else:
        for code in parts:
            value = call(code)
    interrupts.deliver()
    if last is not None:
        display(value)


def awaited(parts):
    """Runs a job that awaits. No interrupt comes in between: a coroutine that is lost on its way to the loop warns."""
    from . import tasks
    return tasks.run(together(parts))


async def together(parts):
    """Runs a job that awaits somewhere: all of it within the loop, or a task that it makes before its first await
    would belong to another."""
    for code in parts:
        value = call(code)
        if code.co_flags & COROUTINE:
            value = await value
    return value


def compiled(source, filename):
    """Compiles to statements and the last expression; either may be None."""
    global futures
    flags = futures | PyCF_ALLOW_TOP_LEVEL_AWAIT
    tree = compile(source, filename, "exec", flags | PyCF_ONLY_AST, True)
    last = None
    if tree.body and type(tree.body[-1]) is Expr:
        last = Expression(tree.body.pop().value)
    body = compile(tree, filename, "exec", flags, True)
    if last is not None:
        last = compile(last, filename, "eval", flags | body.co_flags & FUTURES, True)
    futures |= body.co_flags & FUTURES
    return body if tree.body else None, last


def call(code):
    """Runs code in the user's namespace, or makes its coroutine."""
    interrupts.deliver()
    return eval(code, names.namespace)


def display(value):
    """Shows a value and keeps it as `_`."""
    global result
    hook = sys.__dict__.get("displayhook")
    if hook is not displayhook and hook is not None:
        hook(value)
    elif value is not None:
        builtins._ = None
        text = repr(value)
        result = text if type(text) is str else str.__str__(text)
        builtins._ = value


def conclude(error):
    """Ends a job and returns what `done` tells of it."""
    limit = getrecursionlimit()
    if limit < FRAMES:
        setrecursionlimit(FRAMES)
    if error is None:
        ending = {"end": "returned"}
    else:
        ending = ending_of(error)
    del error
    hit = interrupts.stop()
    ending["interrupted"] = hit and ending.get("error", "").startswith("KeyboardInterrupt")
    if result is not None and ending["end"] == "returned":
        ending["result"] = result[:RESULT]
        ending["result_cut"] = max(0, len(result) - RESULT)
    console.give_up()
    streams.finish()
    terminal.restore()
    ending["pending"] = streams.pending_tasks()
    changed = names.news()
    if changed is not None:
        ending["names"] = changed
    if limit < FRAMES:
        setrecursionlimit(limit)
    return ending


def conclude_again(error):
    """Ends a job whose end has failed: with what was raised there, and if that can't be reported either, by the least
    that must be done."""
    ballast.clear()
    try:
        return conclude(error)
    except BaseException as raised:
        error = raised
    interrupts.stop()
    console.give_up()
    streams.finish()
    terminal.restore()
    return {"end": "raised", "error": type_name(error)}


def ending_of(error):
    """Reports an exception and returns what `done` tells of it."""
    try:
        from . import report
        return report.ending(error)
    except MemoryError:
        ballast.clear()
        return {"end": "raised", "error": "MemoryError"}


def type_name(error):
    """The name of an exception's type, with its module if it is not built in."""
    kind = type(error)
    name = str.__str__(type.__dict__["__qualname__"].__get__(kind))[:NAME]
    module = type.__dict__["__module__"].__get__(kind)
    if type(module) is not str or module in ("__main__", "builtins"):
        return name
    return module[:NAME] + "." + name


for _each in (user_code, together, compiled, call, display):
    breakable(_each)
