"""Runs a job: its statements, then its last expression, as a REPL does.

Of the functions here only those that call user code may be broken by an interrupt. What comes
before and after them is done completely: the pipes are in place before the code runs, and its
output is flushed before `done`. User code runs there all the same, if it has left a signal handler,
a trace function or an audit hook, and an exception from there ends the job at most.
"""

from __future__ import annotations

import builtins
import sys
from _ast import Expr, Expression, PyCF_ALLOW_TOP_LEVEL_AWAIT, PyCF_ONLY_AST
from posix import close, getpid
from sys import getrecursionlimit, setprofile, setrecursionlimit, settrace

from .forks import Forks
from .frames import breakable
from .installed import Installed, directories
from .names import Refused, error_name, module_of, modules
from .sources import filename

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType
    from typing import Any

    from .protocols import Fields
    from .scripts import Script
    from .session import Session

RESULT = 1 << 20  # characters of a result
FUTURES = 0x1FE0000  # flags of the compiler that __future__ sets
COROUTINE = 0x80  # code that awaits
RESERVE, BLOCK = 16 << 20, 2 << 20  # bytes that are held in reserve, and of a block of them
LITTLE = 1 << 16  # bytes that are left for a job, and of the smallest block
FULL = "OSError: the session has too many files open; restart it"
ENOMEM = 12  # on Linux and macOS
FRAMES = 500  # what our own reports need of the recursion limit


def is_memory_error(error: BaseException) -> bool:
    """Report whether memory was short: numpy has an exception of its own, a fork an OSError."""
    kind = type(error)
    return issubclass(kind, MemoryError) or (
        issubclass(kind, OSError) and OSError.__dict__["errno"].__get__(error) == ENOMEM)


class Executor:
    """Runs the jobs of a session, one at a time."""

    def __init__(self, session: Session, forks: Forks) -> None:
        self.session, self.forks = session, forks
        self.futures = 0  # those that earlier jobs have set
        self.result: str | None = None  # of the last expression
        self.markdown = False  # the result is Markdown
        self.form: str | None = None  # of the code, if Go should know it
        self.scripts: list[Script] = []  # the file that is run, and those that it runs
        self.files: dict[str, str] = {}  # that the job has run, and a hash of each
        self._installed = Installed(directories())
        self.reserve: list[bytes] = []  # memory for when there is no more; never written to

    def job(self, fields: Fields, files: list[int]) -> None:
        """Run one job, from its pipes to `done`."""
        session = self.session
        send, id, source = session.channel.send, fields["id"], fields["code"]
        if len(files) < 2:  # user code, in a thread, took what was held in reserve
            for fd in files:
                close(fd)
            send("done", id=id, end="raised", error=FULL)
            return
        try:
            self._prepare(id, files)
            name = filename(id)
            session.sources.settle()
            session.sources.add(name, source)
            self._installed.refresh()
            session.interrupts.start()
        except BaseException as error:
            self.reserve.clear()
            send("done", id=id, **self._not_begun(error))
            return
        try:
            ended = self._attempt(source, name, fields)
            settrace(None)
            setprofile(None)
        except BaseException as raised:
            ended = raised
        if self.forks.pid != getpid():
            self.forks.end(ended)
        if sum(map(len, self.reserve)) < RESERVE:
            self.reserve.clear()  # until the next job runs: little else is left for our own work
        try:
            done = self._conclude(ended)
        except BaseException as raised:
            done = self._conclude_again(raised)
        try:
            send("done", id=id, **done)
        except BaseException:  # it went out or did not; Go ignores a second one
            self.reserve.clear()
            send("done", id=id, **done)
        try:
            session.streams.close_ended()
        except BaseException as raised:  # by a signal handler of user code, which is no job's
            self.ending_of(raised)

    def _not_begun(self, error: BaseException) -> Fields:
        """Return the fields of `done` for a job whose code was not run."""
        self.session.interrupts.stop()
        self.session.streams.running = None
        if issubclass(type(error), MemoryError):
            return {"end": "raised", "error": "MemoryError"}
        return {"end": "raised", "error": error_name(error) + ": raised before the code began, "
                "which was not run; restart the session if this happens again"}

    def _prepare(self, id: str, files: list[int]) -> None:
        """Set what user code relies on, whatever the last job did to it."""
        session = self.session
        self.result, self.markdown, self.form, self.files = None, False, "uncompiled", {}
        session.streams.begin(id, files)
        session.channel.hold_reserve()
        session.console.renew()
        session.names.restore()

    def _reserve_memory(self) -> None:
        """Hold memory to report with that there is no more.

        If memory is short, the job gets little, because it may keep that. The large blocks come
        first: they are fast. Smaller ones then hold what is left between the user's objects."""
        missing, size, little = RESERVE - sum(map(len, self.reserve)), BLOCK, b""
        while missing and size >= LITTLE:
            try:
                little = little or bytes(LITTLE)
                self.reserve.append(bytes(size))
                missing -= size
            except MemoryError:
                size //= 2

    def _attempt(self, source: str, name: str, fields: Fields) -> BaseException | None:
        """Run user code, or answer a request about it, and return what that raised, or None."""
        error: BaseException | None = None
        try:
            if "path" in fields:
                self._run_file(fields["path"], fields.get("args", []))
            elif "request" in fields:
                self._answer(fields["request"], source, name)
            else:
                self._user_code(source, name)
        except BaseException as raised:
            error = raised
            self.reserve.clear()  # memory can be short whatever it is: a library has its own words
        while self.scripts:
            self.scripts.pop().leave(self)
        for finish in (self.session.end_figures, self.session.streams.flush_foreign):
            try:
                finish()
            except BaseException as raised:
                if error is None and issubclass(type(raised), KeyboardInterrupt):
                    error = raised
        return error

    @breakable
    def _user_code(self, source: str, name: str) -> None:
        """Run the code and show the value of its last expression."""
        body, last = self.compile(source, name)
        self._reserve_memory()
        value = self.run([code for code in (body, last) if code is not None])
        if last is not None:
            self.show(value)

    @breakable
    def _run_file(self, path: str, args: list[str]) -> None:
        """Run a file: a script, or the cells of a notebook."""
        from .scripts import run
        self._reserve_memory()
        run(self, path, args)

    @breakable
    def _answer(self, request: Fields, source: str, name: str) -> None:
        """Answer a request about the namespace. Its result does not become `_`."""
        from .requests import answer
        self.result = answer(request, name, self.session, lambda: self._value(source, name))

    @breakable
    def _value(self, source: str, name: str) -> Any:
        """Return the value of one expression."""
        body, last = self.compile(source.strip(), name)
        if body is not None or last is None:
            raise Refused("the name must be one expression, such as df.head(); "
                          "execute_python runs statements")
        return self.run([last])

    @breakable
    def run(self, parts: list[CodeType]) -> Any:
        """Run code and return the value of its last part."""
        value = self.form = None
        if sum([code.co_flags & COROUTINE for code in parts]):
            self.form = "awaits"
            value = self._await(parts)
        else:
            for code in parts:
                value = self._call(code)
        self.session.interrupts.deliver()
        return value

    def _await(self, parts: list[CodeType]) -> Any:
        """Run a job that awaits. No interrupt comes in between: a lost coroutine warns."""
        return self.session.tasks().run(self._together(parts))

    @breakable
    async def _together(self, parts: list[CodeType]) -> Any:
        """Run all of a job that awaits somewhere within the loop.

        A task that it makes before its first await would belong to another loop otherwise."""
        value = None
        for code in parts:
            value = self._call(code)
            if code.co_flags & COROUTINE:
                value = await value
        return value

    @breakable
    def compile(self, source: str, name: str) -> tuple[CodeType | None, CodeType | None]:
        """Compile to statements and the last expression; either may be None."""
        flags = self.futures | PyCF_ALLOW_TOP_LEVEL_AWAIT
        tree = compile(source, name, "exec", flags | PyCF_ONLY_AST, True)
        last = None
        if tree.body and type(tree.body[-1]) is Expr:
            last = Expression(tree.body.pop().value)
        body = compile(tree, name, "exec", flags, True)
        futures = body.co_flags & FUTURES
        code = None if last is None else compile(last, name, "eval", flags | futures, True)
        self.futures |= futures
        return body if tree.body else None, code

    @breakable
    def _call(self, code: CodeType) -> Any:
        """Run code in the user's namespace, or make its coroutine."""
        self.session.interrupts.deliver()
        return eval(code, self.session.names.namespace)

    @breakable
    def show(self, value: object) -> None:
        """Show a value and keep it as `_`."""
        hook = sys.__dict__.get("displayhook")
        if hook is not self.session.displayhook and hook is not None:
            hook(value)
        elif value is not None:
            builtins._ = None  # type: ignore[attr-defined]
            if module_of(type(value)) == "builtins":
                text = repr(value)
                self.result = text if type(text) is str else str.__str__(text)
                self.markdown = False
            else:
                self.result, self.markdown = self.session.displays().result(value)
            builtins._ = value  # type: ignore[attr-defined]

    def _conclude(self, error: BaseException | None) -> Fields:
        """End a job and return the fields of `done`."""
        session = self.session
        limit = getrecursionlimit()
        if limit < FRAMES:
            setrecursionlimit(FRAMES)
        if error is None:
            ending: Fields = {"end": "returned"}
        elif type(error) is Refused:
            ending = {"end": "raised", "error": error.args[0]}
        else:
            ending = self.ending_of(error)
        del error
        ending["interrupted"] = session.interrupts.stop()
        result = self.result
        if result is not None and ending["end"] == "returned":
            ending["result"] = result[:RESULT]
            ending["result_cut"] = max(0, len(result) - RESULT)
            if self.markdown:
                ending["markdown"] = True
        self._close_streams()
        ending["sockets"] = "socket" in modules
        ending["pending"] = session.streams.pending_tasks()
        if self.form is not None:
            ending["form"] = self.form
        if self.files:
            ending["hashes"] = self.files
        ending.update(session.names.changed())
        left = session.displays_left()
        if left:
            ending["displays_left"] = left
        if limit < FRAMES:
            setrecursionlimit(limit)
        return ending

    def _conclude_again(self, error: BaseException) -> Fields:
        """End a job whose end has failed, with the error of that.

        If that can't be reported either, do only what must be done."""
        self.reserve.clear()
        try:
            return self._conclude(error)
        except BaseException as raised:
            error = raised
        self.session.interrupts.stop()
        self._close_streams()
        return {"end": "raised", "error": error_name(error)}

    def _close_streams(self) -> None:
        """Leave input, output and terminal as the next job expects them."""
        self.session.streams.finish()
        self.session.console.cancel_questions()
        self.session.terminal.restore()

    def ending_of(self, error: BaseException) -> Fields:
        """Report an exception and return the fields of `done`."""
        try:
            ending = self.session.reporter().ending(error)
            if is_memory_error(error):
                ending["memory"] = True
            return ending
        except MemoryError:
            self.reserve.clear()
            return {"end": "raised", "error": "MemoryError"}
