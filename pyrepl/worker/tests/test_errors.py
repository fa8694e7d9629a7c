"""Exceptions as data."""

from __future__ import annotations

import json
import sys
import unittest
from typing import Any

from .owner import WorkerTestCase


class TestErrors(WorkerTestCase):
    def exception(self, code: str) -> dict[str, Any]:
        """Run code that raises, and return the exception without the names of jobs."""
        done = self.worker.run(code).done
        self.assertEqual(done["end"], "raised", code)
        text = json.dumps(done["exception"]).replace("<job %s>" % done["id"], "<job>")
        found: dict[str, Any] = json.loads(text)
        return found

    def test_frames_have_their_source(self) -> None:
        self.assertEqual(self.exception("def f(x):\n    return int(x)\n\nf('a')"), {
            "type": "ValueError", "message": "invalid literal for int() with base 10: 'a'",
            "frames": [
                {"file": "<job>", "line": 4, "function": "<module>", "source": "f('a')"},
                {"file": "<job>", "line": 2, "function": "f", "source": "return int(x)"}]})
        found = self.exception("import json; json.loads('{')")
        self.assertEqual(found["type"], "json.decoder.JSONDecodeError")
        self.assertIn("return _default_decoder.decode(s)", [f.get("source") for f in found["frames"]])

    def test_causes_follow_in_their_order(self) -> None:
        code = ("try:\n    try: 1 / 0\n    except ZeroDivisionError: [].x\n"
                "except AttributeError as error: raise KeyError('k') from error")
        found = self.exception(code)
        self.assertEqual((found["type"], found["message"]), ("KeyError", "'k'"))
        self.assertEqual([(c["relation"], c["type"], c["frames"][-1]["line"])
                          for c in found["causes"]],
                         [("cause", "AttributeError", 3), ("context", "ZeroDivisionError", 2)])
        self.assertNotIn("causes", self.exception(code.replace("from error", "from None")))
        circle = "a, b = ValueError('a'), ValueError('b')\na.__cause__, b.__cause__ = b, a\nraise a"
        self.assertEqual([c["message"] for c in self.exception(circle)["causes"]], ["b"])

    def test_a_syntax_error_has_its_position(self) -> None:
        position = self.exception("x = 1\ny = (1 +* 2)")["position"]
        self.assertEqual({name: position[name] for name in ("file", "line", "column", "source")},
                         {"file": "<job>", "line": 2, "column": 9, "source": "y = (1 +* 2)"})
        odd = "raise SyntaxError('m', ([], 'x', -1, {}))"
        self.assertNotIn("position", self.exception(odd))

    @unittest.skipIf(sys.version_info < (3, 12), "this interpreter's traceback has no hints")
    def test_the_interpreters_hint(self) -> None:
        split = ("Did you mean: 'split'?" if sys.version_info < (3, 15)
                 else "Did you mean '.split' instead of '.spli'?")
        for code, hint in (("value = 1\nvalu", "Did you mean: 'value'?"),
                           ("import sys\nsys.ste", None),
                           ("''.spli", split),
                           ("raise NameError('x. Did you mean: y?')", None)):
            with self.subTest(code):
                self.assertEqual(self.exception(code).get("hint"), hint)

    @unittest.skipIf(sys.version_info < (3, 11), "this interpreter has neither")
    def test_groups_and_notes(self) -> None:
        found = self.exception("e = ExceptionGroup('g', [ValueError('a'), TypeError('b')])\n"
                               "e.add_note('careful'); e.__notes__.append(1); raise e")
        self.assertEqual(found["exceptions"], [{"type": "ValueError", "message": "a"},
                                               {"type": "TypeError", "message": "b"}])
        self.assertEqual(found["notes"], ["careful"])

    def test_all_of_it_is_bounded(self) -> None:
        found = self.exception("def f(): f()\nf()")
        self.assertEqual(len(found["frames"]), 20)
        self.assertGreater(found["omitted_frames"], 500)
        for code in ("raise ValueError('\U0001f600' * 10 ** 5)",
                     "e = None\nfor _ in range(9): e, e0 = ValueError('\U0001f600' * 5000), e; "
                     "e.__cause__ = e0\nraise e",
                     "x = '\U0001f600' * 10 ** 4 + 1",
                     "exec('def ' + 'f' * 10 ** 5 + '(): 1/0\\n' + 'f' * 10 ** 5 + '()')"):
            with self.subTest(code[:30]):
                self.assertLess(len(json.dumps(self.exception(code))), 110_000)

    def test_user_code_can_break_its_own_data_only(self) -> None:
        for code in ("class E(Exception):\n    def __str__(self): 1 / 0\nraise E",
                     "class E(Exception):\n    def __getattribute__(self, name): 1 / 0\nraise E",
                     "class E(Exception): __cause__ = __traceback__ = __notes__ = 5\nraise E",
                     "class E(SyntaxError): filename = lineno = text = 5\nraise E",
                     "import linecache; old = linecache.getline; del linecache.getline\n1 / 0",
                     "linecache.getline = lambda *_: 5; 1 / 0",
                     "linecache.getline = old; 1 / 0"):
            with self.subTest(code):
                done = self.worker.run(code).done
                self.assertEqual(done["end"], "raised")
        self.assertEqual(self.exception("1 / 0")["type"], "ZeroDivisionError")

    def test_an_interrupt_that_c_code_raises_comes_once(self) -> None:
        result = self.worker.run(
            "import ctypes\nfrom functools import partial\napi = ctypes.pythonapi\n"
            "api.PyErr_SetNone.argtypes = [ctypes.py_object]\n"
            "both = [partial(api.PyErr_SetInterrupt), partial(api.PyErr_SetNone, KeyboardInterrupt)]\n"
            "list(map(partial.__call__, both))")
        self.assertEqual((result.done["error"], result.done["interrupted"]), ("KeyboardInterrupt", True))
        self.assertTrue(result.err.endswith("\nKeyboardInterrupt\n"), result.err)
        self.assertIn("list(map(partial", result.err)
        self.assertNotIn("During the report", result.err)

    def test_an_exit_is_no_exception(self) -> None:
        self.assertNotIn("exception", self.worker.run("import sys; sys.exit(3)").done)


if __name__ == "__main__":
    unittest.main()
