"""The frames of libraries in tracebacks."""

from __future__ import annotations

import os
import sys
import tempfile
import unittest

from ..excerpts import shortened
from .owner import WorkerTestCase

SITE = "/venv/lib/python3/site-packages/"
STDLIB = os.path.dirname(os.__file__)
HEADER = "Traceback (most recent call last):\n"
HINT = "; sys.last_value has them"


def frames(*files: str, indent: str = "  ") -> str:
    """Return the text of a frame of each file."""
    return "".join(['%sFile "%s", line 1, in f\n%s  call()\n%s  ^^^^^^\n' % (indent, file, indent, indent)
                    for file in files])


class TestShortened(unittest.TestCase):
    def check(self, text: str, want: str) -> None:
        self.assertEqual(shortened(text), want)

    def test_the_last_two_frames_of_libraries_stay(self) -> None:
        own, ends = frames("<job 1>", "/home/train.py"), "ValueError: no\n"
        a, b = SITE + "a/x.py", SITE + "b.py"
        self.check(HEADER + own + ends, HEADER + own + ends)
        self.check(HEADER + own + frames(a, b) + ends, HEADER + own + frames(a, b) + ends)
        self.check(HEADER + own + frames(a, a, b, a, b) + ends,
                   HEADER + own + "  [3 frames of a, b left out%s]\n" % HINT + frames(a, b) + ends)
        self.check(HEADER + frames(a, a, a) + ends,
                   HEADER + "  [1 frame of a left out%s]\n" % HINT + frames(a, a) + ends)

    def test_frames_between_those_of_user_code_are_counted(self) -> None:
        own, a = frames("/home/train.py"), frames(SITE + "a/x.py")
        self.check(HEADER + own + a + own + a + a + own + "E\n",
                   HEADER + own + "  [1 frame of a left out%s]\n" % HINT + own +
                   "  [2 frames of a left out]\n" + own + "E\n")

    def test_what_is_of_a_library(self) -> None:
        for file, library in (("/usr/lib/python3/dist-packages/numpy/core.py", "numpy"),
                              (STDLIB + "/json/decoder.py", "json"),
                              (STDLIB + "/functools.py", "functools"),
                              ("<frozen importlib._bootstrap>", "importlib"),
                              ("pandas/_libs/index.pyx", "pandas")):
            with self.subTest(file):
                self.check(HEADER + frames(file) * 9 + "E\n",
                           HEADER + "  [7 frames of %s left out%s]\n" % (library, HINT) +
                           frames(file) * 2 + "E\n")
        for file in "/home/x.py", "x.py", "<job 1>", "<string>", "/home/fast.pyx", "/site/x.py":
            with self.subTest(file):
                self.check(HEADER + frames(file) * 9 + "E\n", HEADER + frames(file) * 9 + "E\n")

    def test_compiled_files_of_the_directory_are_the_users(self) -> None:
        before = os.getcwd()
        self.addCleanup(os.chdir, before)
        with tempfile.TemporaryDirectory() as directory:
            os.chdir(directory)
            open("fast.pyx", "w").close()
            own = HEADER + frames("fast.pyx") * 9 + "E\n"
            self.check(own, own)
            os.chdir(before)

    def test_calls_that_repeat_are_counted(self) -> None:
        a = frames(SITE + "a.py")
        self.check(HEADER + a * 3 + "  [Previous line repeated 90 more times]\n" + a * 2 + "E\n",
                   HEADER + "  [93 frames of a left out%s]\n" % HINT + a * 2 + "E\n")

    def test_each_exception_of_a_chain_and_of_a_group(self) -> None:
        own, a, then = frames("<job 1>"), frames(SITE + "a.py"), "\nDuring the handling:\n\n"
        one = HEADER + own + a * 4 + "E\n"
        short = HEADER + own + "  [2 frames of a left out%s]\n" + a * 2 + "E\n"
        self.check(one + then + one, short % HINT + then + short % "")
        inside = frames(SITE + "a.py", indent="    |   ")
        head = "  + Exception Group " + HEADER + frames("<job 1>", indent="  |   ")
        self.check(head + "  | G: g\n  +-+---- 1 ----\n    | " + HEADER + inside * 4 + "    | E: e\n",
                   head + "  | G: g\n  +-+---- 1 ----\n    | " + HEADER +
                   "    |   [2 frames of a left out%s]\n" % HINT + inside * 2 + "    | E: e\n")

    def test_a_syntax_error_is_left_as_it_is(self) -> None:
        text = '  File "%sa.py", line 1\n    x = (1 +* 2)\n              ^\nSyntaxError: m\n' % SITE
        self.check(text, text)

    def test_a_long_text_is_not_repeated(self) -> None:
        error = "ValueError: no\n" + "why " * 99 + "\n"
        first, then = HEADER + frames("/home/x.py"), "\nDuring the handling:\n\n"
        self.check(first + error + then + first + error,
                   first + "ValueError: no \u2026\n" + then + first + error)


class TestTracebacks(WorkerTestCase):
    def raised(self, code: str) -> str:
        """Run code that raises, and return its traceback."""
        result = self.worker.run(code)
        self.assertEqual(result.done["end"], "raised", result.err)
        return result.err

    def test_all_frames_can_be_had(self) -> None:
        text = self.raised("import json\ndef f(): json.loads('{')\nf()")
        self.assertIn("\n    f()\n", text)
        self.assertIn("  [1 frame of json left out%s]\n" % HINT, text)
        self.assertNotIn("in loads", text)
        self.assertIn("in raw_decode", text)
        whole = self.worker.run("import sys, traceback as t; v = sys.last_value\n"
                                "t.print_exception(type(v), v, v.__traceback__)").err
        self.assertIn("in loads", whole)
        self.assertNotIn("left out", whole)
        limited = self.raised("sys.tracebacklimit = 99; json.loads('{')")
        self.assertIn("in loads", limited)
        self.worker.run("del sys.tracebacklimit")

    def test_a_deep_recursion_in_a_library(self) -> None:
        text = self.raised("import copy\nx = []\nfor _ in range(9**5): x = [x]\ncopy.deepcopy(x)")
        self.assertRegex(text, r"  \[\d+ frames of copy left out; ")
        self.assertEqual(text.count("  File "), 3)
        self.assertLess(len(text), 1000)

    def test_the_exception_of_a_pools_process(self) -> None:
        text = self.raised("import json\nfrom concurrent.futures import ProcessPoolExecutor\n"
                           "with ProcessPoolExecutor(1) as pool:\n"
                           "    pool.submit(json.loads, '{').result()")
        remote, mark, local = text.partition("direct cause")
        self.assertTrue(mark, text)
        self.assertRegex(remote, r"\[\d+ frames of concurrent, json left out; ")
        self.assertIn("in raw_decode", remote)
        self.assertIn("pool.submit(json.loads, '{').result()", local)
        self.assertNotIn("%s/" % STDLIB, local)
        self.assertRegex(local, r"\[\d+ frames of concurrent left out\]")

    @unittest.skipIf(sys.version_info < (3, 11), "this interpreter has no groups")
    def test_a_group_of_exceptions(self) -> None:
        text = self.raised("import json\ntry: json.loads('{')\nexcept Exception as e:\n"
                           "    raise ExceptionGroup('g', [e, TypeError('t')]) from None")
        self.assertIn("    |   [1 frame of json left out%s]\n" % HINT, text)
        self.assertIn("    | TypeError: t\n", text)


if __name__ == "__main__":
    unittest.main()
