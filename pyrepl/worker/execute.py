"""Run a job: its statements, then its last expression, as a REPL does.

Of the functions here only those that call user code may be broken by an interrupt. What comes
before and after them is done completely: the pipes are in place before the code runs, and its
output is flushed before `done`. User code runs there all the same, if it has left a signal handler,
a trace function or an audit hook, and an exception from there ends the job at most.
"""

from __future__ import annotations

from posix import close, getpid
from sys import getrecursionlimit, setprofile, setrecursionlimit, settrace

from .evaluate import RESERVE, Evaluator
from .forks import Forks
from .frames import breakable
from .installed import Installed, directories
from .names import Refused, error_name, modules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .protocols import Fields
    from .scripts import Scripts
    from .session import Session

RESULT = 1 << 20  # characters of a result
FULL = "OSError: the session has too many files open; restart it"
FRAMES = 500  # our own reports need so much of the recursion limit


class Executor:
    """Runs the jobs of a session, one at a time."""

    def __init__(self, session: Session, forks: Forks) -> None:
        self.session, self.forks = session, forks
        self.evaluator = Evaluator(session)
        self._scripts: Scripts | None = None  # None unless the job runs a file
        self._installed = Installed(directories())

    def job(self, fields: Fields, files: list[int]) -> None:
        """Run one job, from its pipes to `done`."""
        session, reserve = self.session, self.evaluator.reserve
        send, id, source = session.channel.send, fields["id"], fields["code"]
        if len(files) < 2:  # user code, in a thread, took what was held in reserve
            for fd in files:
                close(fd)
            send("done", id=id, end="raised", error=FULL)
            return
        try:
            self._prepare(id, files)
            name = fields["file"]
            session.sources.settle()
            session.sources.add(name, source, job=id)
            self._installed.refresh()
            session.interrupts.start()
        except BaseException as error:
            reserve.clear()
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
        if sum(map(len, reserve)) < RESERVE:
            reserve.clear()  # our own work needs this memory until the next job runs
        try:
            done = self._conclude(ended)
        except BaseException as raised:
            done = self._conclude_again(raised)
        try:
            send("done", id=id, **done)
        except BaseException:  # it went out or did not; Go ignores a second one
            reserve.clear()
            send("done", id=id, **done)
        try:
            session.streams.close_ended()
        except BaseException as raised:  # a signal handler of user code raised it, for no job
            self.evaluator.ending_of(raised)

    def _not_begun(self, error: BaseException) -> Fields:
        """Return the fields of `done` for a job whose code has not run."""
        self.session.interrupts.stop()
        self.session.streams.running = None
        if issubclass(type(error), MemoryError):
            return {"end": "raised", "error": "MemoryError"}
        return {"end": "raised", "error": error_name(error) + ": raised before the code began, "
                "which was not run; restart the session if this happens again"}

    def _prepare(self, id: str, files: list[int]) -> None:
        """Set what user code relies on, whatever the last job did to it."""
        session = self.session
        self.evaluator.renew()
        self._scripts = None
        session.streams.begin(id, files)
        session.channel.hold_reserve()
        session.console.renew()
        session.names.restore()

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
            # Memory can be short whatever the error is: a library has its own words.
            self.evaluator.reserve.clear()
        if self._scripts is not None:
            self._scripts.leave()
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
        evaluator = self.evaluator
        body, last = evaluator.compile(source, name)
        evaluator.reserve_memory()
        value = evaluator.run([code for code in (body, last) if code is not None])
        if last is not None:
            evaluator.show(value)

    @breakable
    def _run_file(self, path: str, args: list[str]) -> None:
        """Run a file: a script, or the cells of a notebook."""
        from .scripts import Scripts
        self.evaluator.reserve_memory()
        self._scripts = Scripts(self.evaluator)
        self._scripts.run(path, args)

    @breakable
    def _answer(self, request: Fields, source: str, name: str) -> None:
        """Answer a request about the namespace. Its result does not become `_`."""
        from .requests import answer
        self.evaluator.result = answer(
            request, name, self.session, lambda: self._value(source, name))

    @breakable
    def _value(self, source: str, name: str) -> Any:
        """Return the value of one expression."""
        body, last = self.evaluator.compile(source.strip(), name)
        if body is not None or last is None:
            raise Refused("the name must be one expression, such as df.head(); "
                          "execute_python runs statements")
        return self.evaluator.run([last])

    def _conclude(self, error: BaseException | None) -> Fields:
        """End a job and return the fields of `done`."""
        session, evaluator = self.session, self.evaluator
        limit = getrecursionlimit()
        if limit < FRAMES:
            setrecursionlimit(FRAMES)
        if error is None:
            ending: Fields = {"end": "returned"}
        elif type(error) is Refused:
            ending = {"end": "raised", "error": error.args[0]}
        else:
            ending = evaluator.ending_of(error)
        del error
        ending["interrupted"] = session.interrupts.stop()
        result = evaluator.result
        if result is not None and ending["end"] == "returned":
            ending["result"] = result[:RESULT]
            ending["result_cut"] = max(0, len(result) - RESULT)
            if evaluator.markdown:
                ending["markdown"] = True
        self._close_streams()
        ending["sockets"] = "socket" in modules
        ending["pending"] = session.streams.pending_tasks()
        if evaluator.form is not None:
            ending["form"] = evaluator.form
        if self._scripts is not None and self._scripts.hashes:
            ending["hashes"] = self._scripts.hashes
        ending.update(session.names.changed())
        ending["hidden"] = session.names.hidden()
        left = session.displays_left()
        if left:
            ending["displays_left"] = left
        if limit < FRAMES:
            setrecursionlimit(limit)
        return ending

    def _conclude_again(self, error: BaseException) -> Fields:
        """End a job whose end has failed, and report the failure.

        If the report fails too, do only what must be done."""
        self.evaluator.reserve.clear()
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
