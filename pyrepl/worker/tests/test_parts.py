"""The parts that need no process: names, variables, sources, marks, the loader."""

from __future__ import annotations

import builtins
import collections
import functools
import os
import pathlib
import signal
import sys
import tempfile
import types
import unittest
from typing import Any
from unittest import mock

from .. import frames, installed, interrupts, names, shapes, sources, variables
from ..loader import Loader, genuine, real
from .owner import sources as files


class TestInstalled(unittest.TestCase):
    def setUp(self) -> None:
        self.site = pathlib.Path(self.entered(tempfile.TemporaryDirectory()))
        self.path = sys.path[:]
        self.addCleanup(sys.path.__setitem__, slice(None), self.path)

    def entered(self, context: Any) -> Any:  # TestCase.enterContext is younger than 3.9
        self.addCleanup(context.__exit__, None, None, None)
        return context.__enter__()

    def add(self, name: str) -> str:
        """Write a .pth file that names a directory of its own, and return that."""
        (self.site / name).mkdir()
        (self.site / (name + ".pth")).write_text(name + "\n")
        return str(self.site / name)

    def test_reads_new_path_files_once(self) -> None:
        first = self.add("first")
        state = installed.Installed([str(self.site), str(self.site / "missing")])
        state.refresh()
        self.assertNotIn(first, sys.path)  # an interpreter has read it at its start
        second = self.add("second")
        state.refresh()
        state.refresh()
        self.assertEqual(sys.path.count(second), 1)
        self.assertNotIn(first, sys.path)

    def test_a_path_file_that_leads_nowhere_hides_no_other(self) -> None:
        state = installed.Installed([str(self.site)])
        for name in ("a.pth", "z.pth"):
            os.symlink("missing", self.site / name)
        added = self.add("new")
        state.refresh()
        self.assertIn(added, sys.path)

    def reads_again(self, changed: int, age: int) -> bool:
        """Return whether a directory is read twice that has changed an age of ns ago."""
        os.utime(self.site, ns=(changed, changed))
        with mock.patch.object(installed, "time_ns", lambda: changed + age):
            state = installed.Installed([str(self.site)])
            second = self.add("second")
            os.utime(self.site, ns=(changed, changed))
            state.refresh()
        return second in sys.path

    def test_a_directory_is_read_again_until_its_time_must_change(self) -> None:
        second, fraction = 10**18, 10**18 + 1
        for changed, age, want in (
            (fraction, 10**7, True),
            (fraction, 10**8, False),
            (second, 10**8, True),  # a file system can keep whole seconds
            (second, 3 * 10**9, False),
        ):
            with self.subTest(changed=changed, age=age):
                self.setUp()
                self.assertEqual(self.reads_again(changed, age), want)


class TestNames(unittest.TestCase):
    def setUp(self) -> None:
        self.module = types.ModuleType("__main__")
        self.names = names.Names(self.module)

    def test_changed_reports_a_new_set_once(self) -> None:
        self.assertEqual(self.names.changed(), {})
        vars(self.module).update(b=1, a=2, _c=3)
        self.assertEqual(self.names.changed()["names"], ["a", "b"])
        vars(self.module)["a"] = 5
        self.assertEqual(self.names.changed(), {})
        del vars(self.module)["a"]
        self.assertEqual(self.names.changed()["names"], ["b"])

    def test_what_is_reported_is_bounded(self) -> None:
        vars(self.module).update({"n%d" % i: i for i in range(names.LIMIT + 5)})
        changed = self.names.changed()["names"]
        self.assertEqual(len(changed), names.LIMIT)
        vars(self.module).update({"x" * 500 + str(i): i for i in range(5000)})
        changed = self.names.changed()["names"]
        self.assertLessEqual(sum(map(len, changed)), names.TOTAL)

    def test_restore_gives_main_back(self) -> None:
        main = sys.modules["__main__"]
        self.addCleanup(sys.modules.__setitem__, "__main__", main)
        sys.modules["__main__"] = types.ModuleType("other")
        vars(self.module).clear()
        self.names.restore()
        self.assertIs(sys.modules["__main__"], self.module)
        self.assertEqual(vars(self.module)["__name__"], "__main__")

    def test_error_name(self) -> None:
        class Odd(Exception):
            __module__ = "pkg"
        self.assertEqual(names.error_name(ValueError()), "ValueError")
        self.assertEqual(names.error_name(Odd()), "pkg." + Odd.__qualname__[:names.LONG])


class TestVariables(unittest.TestCase):
    def test_values_of_exact_built_in_types_only(self) -> None:
        class Loud(list):  # type: ignore[type-arg]
            def __repr__(self) -> str:
                raise AssertionError("user code ran")
        for value, want in [
            (1, "1"), ("a" * 300, repr("a" * 200) + "..."), ([1, "b", None], "[1, 'b', None]"),
            ((1,), "(1,)"), ({}, "{}"), (set(), "set()"),
            ({"a": {"b": {"c": {"d": 1}}}}, "{'a': {'b': {'c': ...}}}"),
            ([0] * 30, "[" + "0, " * 20 + "...]"), (1 << 700, "<int of 701 bits>"),
            (Loud(), None), ([Loud()], "[<Loud>]"), (object(), None),
        ]:
            with self.subTest(type(value)):
                self.assertEqual(variables.describe("x", value).get("value"), want)

    def test_lengths_come_from_built_in_types(self) -> None:
        class Liar(dict):  # type: ignore[type-arg]
            def __len__(self) -> int:
                raise AssertionError("user code ran")

        class Pair(tuple):  # type: ignore[type-arg]
            pass

        class Sized:
            __slots__ = ("shape", "aval", "_mgr")
            __len__ = Liar.__len__
        for value, want in [
            ([], 0), ((1, 2), 2), ({"a": 1}, 1), (collections.deque("abc"), 3), (range(7), 7),
            (collections.Counter("ab"), 2), (Pair("abc"), 3), ("a" * 201, 201), ("a", None),
            (b"", None), (bytearray(5), 5), (memoryview(b"abc"), 3), (range(1 << 80), None),
            (Liar(a=1), None), (Sized(), None), (Sized, None), (object(), None), (1, None),
        ]:
            with self.subTest(type(value)):
                described = variables.describe("x", value)
                self.assertEqual((described.get("len"), described.get("shape")), (want, None))

    def test_no_code_runs_for_a_shape(self) -> None:
        def spy(*_: object) -> Any:
            raise AssertionError("user code ran")

        class Spy:
            __getattribute__ = spy
        for module, name in shapes.READERS:
            class Meta(type):
                __name__ = __mro__ = property(spy)

            kind = Meta(name, (Spy,), {"shape": property(spy), "aval": Spy()})
            type.__dict__["__module__"].__set__(kind, module + ".inner")
            with self.subTest(module):
                self.assertIsNone(variables.describe("x", kind()).get("shape"))

    def test_modules_functions_and_classes_are_listed_by_name(self) -> None:
        module = types.ModuleType("m")

        @functools.lru_cache
        def cached() -> None: ...

        class Meta(type):
            __hash__ = __eq__ = None  # type: ignore[assignment]

        vars(module).update(m=module, f=len, g=lambda: 0, h=self.setUp, c=cached, C=int, x=1)
        vars(module).update(D=Meta("D", (), {}), d=Meta("D", (), {})())
        listed = variables.listing(names.Names(module))
        self.assertEqual([v["name"] for v in listed.pop("vars")], ["d", "x"])
        self.assertEqual(listed, {"modules": ["m"], "functions": ["c", "f", "g", "h"],
                                  "classes": ["C", "D"], "total": 9})


class TestSources(unittest.TestCase):
    def test_lines_and_linecache(self) -> None:
        held = sources.Sources()
        held.add("<job 1>", "a\r\nb\rc")
        lines = [held.line("<job 1>", n) for n in range(5)]
        self.assertEqual(lines, [None, "a", "b", "c", None])
        linecache: Any = types.SimpleNamespace(cache={})
        held.connect(linecache)
        held.add("<job 2>", "d")
        self.assertEqual(linecache.cache["<job 1>"][2], ["a\n", "b\n", "c\n"])
        self.assertEqual(linecache.cache["<job 2>"][2], ["d\n"])

    def test_linecache_knows_code_by_the_name_of_its_newest_job(self) -> None:
        held = sources.Sources()
        linecache: Any = types.SimpleNamespace(cache={})
        held.connect(linecache)
        for job in "1", "2":
            held.add("<code x>", "a", job=job)
        self.assertEqual(sorted(linecache.cache), ["<code x>", "<job 2>"])
        self.assertEqual((held.shown("<code x>"), held.shown("x.py")), ("<job 2>", "x.py"))
        held.add("large", "x" * sources.LIMIT)
        self.assertEqual((list(linecache.cache), held.shown("<code x>")), (["large"], "<code x>"))

    def test_the_oldest_go(self) -> None:
        held = sources.Sources()
        for i in range(3):
            held.add("<job %d>" % i, "x" * (sources.LIMIT // 2))
        self.assertEqual(list(held.texts), ["<job 1>", "<job 2>"])


class TestFrames(unittest.TestCase):
    def test_breakable_marks_functions_and_classes(self) -> None:
        @frames.breakable
        def function() -> None: ...

        @frames.breakable
        class Class:
            def method(self) -> None: ...

        self.assertIn(function.__code__, frames.marked)
        self.assertIn(Class.method.__code__, frames.marked)


class TestInterrupts(unittest.TestCase):
    def test_reports_of_what_python_swallows_are_not_interrupted(self) -> None:
        raised: list[bool] = []
        held = interrupts.Interrupts(lambda _: raised.append(True), lambda: None)
        held.live = True

        class Stderr:
            @frames.breakable
            def write(self, text: str) -> None:
                held._on_sigurg(signal.SIGURG, sys._getframe())

            def flush(self) -> None: ...

        class Fails:
            def __del__(self) -> None:
                raise ValueError

        def restore(stderr: Any, hook: Any, handler: Any) -> None:
            sys.stderr, sys.unraisablehook = stderr, hook
            signal.signal(signal.SIGINT, handler)

        handler = signal.signal(signal.SIGINT, held._on_sigint)
        self.addCleanup(restore, sys.stderr, sys.unraisablehook, handler)
        sys.stderr = Stderr()
        held.hook_unraisable()
        Fails()
        self.assertEqual((raised, held.noted), ([], True))
        with self.assertRaises(KeyboardInterrupt):
            held.deliver()
        self.assertEqual((raised, held.noted), ([True], False))


class TestLoader(unittest.TestCase):
    def setUp(self) -> None:
        self.loader = Loader(files(), vars(builtins).copy())
        self.loader.package.__dict__["loader"] = sys.modules[Loader.__module__]

    def test_modules_run_on_their_own_builtins(self) -> None:
        report = self.loader.own("report")
        self.assertEqual(report.__name__, "async_repl.report")
        self.assertIsNot(vars(report)["__builtins__"], vars(builtins))
        self.assertNotIn("async_repl.report", sys.modules)
        self.assertIs(self.loader.own("report"), report)

    def test_the_standard_library_is_the_real_one(self) -> None:
        fake = types.ModuleType("wave")
        sys.modules["wave"] = fake
        self.addCleanup(sys.modules.pop, "wave")
        found = self.loader.load("wave")
        self.assertIsNot(found, fake)
        self.assertTrue(genuine(found))
        self.assertIs(sys.modules["wave"], fake)

    def test_genuine(self) -> None:
        import json
        self.assertTrue(genuine(json) and genuine(sys))
        self.assertFalse(genuine(types.ModuleType("json")) or genuine(None))
        self.assertFalse(real("/home/me/json.py"))

    def test_a_traceback_keeps_the_chosen_frames_in_order(self) -> None:
        def deep(n: int) -> None:
            assert n
            deep(n - 1)

        whole: list[types.TracebackType] = []
        try:
            deep(9)
        except AssertionError as error:
            tb = error.__traceback__
            while tb is not None:
                whole.append(tb)
                tb = tb.tb_next
        chosen = whole[1:4] + whole[6:7] + whole[8:10]
        report = vars(self.loader.own("report"))
        report["relink"](chosen)
        first: types.TracebackType | None = chosen[0]
        found = []
        while first is not None:
            found.append(first)
            first = first.tb_next
        self.assertEqual(list(map(id, found)), list(map(id, chosen)))
        self.assertEqual(report["tail"](whole[0]), (whole[0], 0))
        report["relink"]([])

    def test_tracebacks_lose_our_frames(self) -> None:
        loader = self.loader
        streams: Any = types.SimpleNamespace(report=lambda text: reports.append(text))
        interrupts: Any = types.SimpleNamespace(interrupted=False, deliver=lambda: None)
        reports: list[str] = []
        held: Any = vars(loader.own("sources"))["Sources"]()
        held.add("<job 1>", "def f(): raise ValueError('x')\nf()")
        hook = sys.excepthook
        reporter = vars(loader.own("report"))["Reporter"](interrupts, held, streams, hook)
        namespace: dict[str, Any] = {"__builtins__": builtins}
        code = compile(held.texts["<job 1>"], "<job 1>", "exec")
        try:
            reporter._call(eval, code, namespace)
        except ValueError as error:
            done = reporter.ending(error)
            trace, shown = error.__traceback__, []
            while trace is not None:
                shown.append((trace.tb_frame.f_code.co_filename, trace.tb_frame.f_code.co_name))
                trace = trace.tb_next
        frames = [frame["function"] for frame in done.pop("exception")["frames"]]
        self.assertEqual(frames, ["<module>", "f"])
        self.assertEqual(done, {"end": "raised", "error": "ValueError: x"})
        self.assertEqual(shown, [("<job 1>", "<module>"), ("<job 1>", "f")])
        self.assertIn("def f(): raise ValueError('x')", reports[0])
        self.assertNotIn("async-repl", reports[0])
