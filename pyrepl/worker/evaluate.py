"""Compile and run pieces of the user's code, show what they return and report what they raise.

It knows neither jobs nor files: execute runs the code of a job with it, and scripts the code of a
file. Only functions that call user code may be broken by an interrupt, see execute.
"""

from __future__ import annotations

import builtins
import sys
from _ast import Expr, Expression, PyCF_ALLOW_TOP_LEVEL_AWAIT, PyCF_ONLY_AST

from .frames import breakable
from .names import module_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType
    from typing import Any

    from .protocols import Fields
    from .session import Session

FUTURES = 0x1FE0000  # flags of the compiler that __future__ sets
COROUTINE = 0x80  # code that awaits
RESERVE = 16 << 20  # bytes that are held in reserve
BLOCK, LITTLE = 2 << 20, 1 << 16  # bytes of its largest and its smallest block
ENOMEM = 12  # Linux and macOS have the same number


def is_memory_error(error: BaseException) -> bool:
    """Report whether memory was short. numpy raises its own exception, a fork an OSError."""
    kind = type(error)
    return issubclass(kind, MemoryError) or (
        issubclass(kind, OSError) and OSError.__dict__["errno"].__get__(error) == ENOMEM)


class Evaluator:
    """Runs pieces of code in a session's namespace, and keeps the results of the last job."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.futures = 0  # compiler flags of the __future__ imports of earlier pieces
        self.result: str | None = None  # the text of the last expression's value
        self.markdown = False  # the result is Markdown
        self.form: str | None = None  # "awaits" or "uncompiled", which Go keeps in the history
        self.reserve: list[bytes] = []  # memory for when there is no more; never written to

    def renew(self) -> None:
        """Forget the results of the last job."""
        self.result, self.markdown, self.form = None, False, "uncompiled"

    def reserve_memory(self) -> None:
        """Hold memory for the report that memory is short.

        If memory is short, the job gets little, because it may keep all that it gets. The large
        blocks come first: they are fast. Smaller ones then fill the gaps between the user's
        objects."""
        missing, size, little = RESERVE - sum(map(len, self.reserve)), BLOCK, b""
        while missing and size >= LITTLE:
            try:
                little = little or bytes(LITTLE)
                self.reserve.append(bytes(size))
                missing -= size
            except MemoryError:
                size //= 2

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
