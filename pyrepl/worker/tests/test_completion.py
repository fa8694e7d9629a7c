"""Completion: names of the session, attributes and modules, and that nothing runs for them."""

from __future__ import annotations

import unittest
from importlib.util import find_spec

from .test_requests import Requests


class TestComplete(Requests):
    def complete(self, code: str, at: "int | None" = None) -> list[str]:
        return self.ask("complete", code, at=len(code) if at is None else at).split("\n")

    def test_names(self) -> None:
        self.run_code("value = 1\nvalues = 2\n_value = 3")
        self.assertEqual(self.complete("x = val"), ["value", "values"])
        self.assertEqual(self.complete("_val"), ["_value"])
        self.assertEqual(self.complete("whil"), ["while"])
        self.assertEqual(self.complete("f(enumer"), ["enumerate"])
        self.assertEqual(self.complete("val + x", 3), ["value", "values"])
        self.assertEqual(self.complete("zzz"), ["(no completions)"])
        for code in ("", "print("):
            self.assertEqual(self.complete(code)[:5], ["value", "values", "Ellipsis", "False", "None"])
        self.assertEqual(self.complete("Val"), ["ValueError"])
        self.run_code("ArithmeticErrors = 1")
        self.assertEqual(self.complete("Ar"), ["ArithmeticErrors", "ArithmeticError"])
        self.assertEqual(self.refusal("complete", "valeu.x", at=7),
                         "there is no variable valeu; did you mean value or values or _value?")

    def test_attributes(self) -> None:
        self.run_code("import os\nclass Base:\n    inherited = 1\n"
                      "class C(Base):\n    __slots__ = 'slot'\n"
                      "    def __init__(self): self.own, self.slot = {}, 'a'\nc = C()")
        self.assertEqual(self.complete("c."), ["inherited", "own", "slot"])
        self.assertEqual(self.complete("c.own.ke"), ["keys"])
        self.assertEqual(self.complete("c.slot.upp"), ["upper"])
        self.assertEqual(self.complete("C.inh"), ["inherited"])
        self.assertEqual(self.complete("os.path.joi"), ["join"])
        self.assertEqual(self.complete("x = [os . getcwd"), ["getcwd", "getcwdb"])
        self.assertEqual(self.complete("''.joi")[0][:16], "(no completions:")
        self.assertEqual(self.complete("d['a'].joi")[0][:16], "(no completions:")

    def test_nothing_of_the_user_runs(self) -> None:
        self.run_code(
            "ran = []\nclass Meta(type):\n    def __getattribute__(c, n): ran.append(n)\n"
            "    def __instancecheck__(c, o): ran.append('instance')\n"
            "class C(metaclass=Meta):\n    def __getattribute__(self, n): ran.append(n)\n"
            "    def __getattr__(self, n): ran.append(n)\n    def __dir__(self): ran.append('dir')\n"
            "    def __bool__(self): ran.append('bool')\n    def __eq__(self, o): ran.append('eq')\n"
            "    __hash__ = None\n"
            "    @property\n    def prop(self): ran.append('prop')\n    def method(self): pass\n"
            "class Held(dict):\n    def __contains__(self, n): ran.append('held')\n"
            "    def __iter__(self): ran.append('held')\n    def keys(self): ran.append('held')\n"
            "class D: pass\nc, d = C(), D()\nd.__dict__ = Held()\nran.clear()")
        self.assertEqual(self.complete("c."), ["method", "prop"])
        self.assertEqual(self.complete("C."), ["method", "prop"])
        self.assertEqual(self.complete("d.")[0][:1], "(")
        self.assertEqual(self.complete("c.prop.x"),
                         ["(no completions: c.prop is computed, which would run code)"])
        self.assertEqual(self.complete("C().x"),
                         ["(no completions: what stands before would have to run)"])
        self.assertIn("d has no attribute x", self.refusal("complete", "d.x.y", at=5))
        self.assertEqual(self.complete("c.x.y"),
                         ["(no completions: c.x can be computed only, which would run code)"])
        self.assertEqual(self.complete("c.method.__na"), ["__name__"])
        self.assertEqual(self.get("ran"), "[]")

    def test_modules(self) -> None:
        self.run_code("import sys, os, tempfile\nplace = tempfile.mkdtemp()\n"
                      "os.makedirs(place + '/zpack/zsub')\n"
                      "for f in ('zpack/__init__.py', 'zpack/zmod.py', 'zpack/zsub/__init__.py'):\n"
                      "    open(place + '/' + f, 'w').write('print(1 / 0)')\n"
                      "sys.path.insert(0, place)")
        try:
            self.assertEqual(self.complete("import zp"), ["zpack"])
            self.assertEqual(self.complete("import json, zp"), ["zpack"])
            self.assertEqual(self.complete("import zpack.z"), ["zmod", "zsub"])
            self.assertEqual(self.complete("from zpack import zm"), ["zmod"])
            self.assertEqual(self.complete("from zpack import zmod, zs"), ["zsub"])
            self.assertEqual(self.complete("import collections.ab"), ["abc"])
            self.assertEqual(self.complete("import os.pa"), ["path"])
            self.assertEqual(self.complete("from . import "),
                             ["(no completions: a session is in no package)"])
            self.assertEqual(self.complete("from os import getcwd"), ["getcwd", "getcwdb"])
            self.assertEqual(self.complete("if 1: import zp"), ["zpack"])
            self.assertEqual(self.worker.run("'zpack' in sys.modules").done["result"], "False")
        finally:
            self.run_code("import shutil\nshutil.rmtree(sys.path.pop(0))")

    def test_strings_and_comments(self) -> None:
        self.run_code("value = 1")
        for code in ("'val", '"""a\nval', "# val", "x = 'a\\'val", "f'{val"):
            self.assertEqual(self.complete(code), ["(no completions in a string or a comment)"], code)
        for code in ("'a' + val", '"""a\n""" + val', "# x\nval", "x = '\\'' + val", "'' + val",
                     '""" \' """ + val'):
            self.assertEqual(self.complete(code), ["value"], code)

    def test_odd_code(self) -> None:
        for code in ("", "\0", "(" * 5000, ")." * 5000, "a" * 100_000, "'" * 99_999,
                     "a." * 50_000, "from " * 10_000, "\ud800", "import " + "a," * 10_000):
            ended = self.worker.ask("complete", code, at=len(code))
            self.assertIn(ended.done["end"], ("returned", "raised"))
            self.assertEqual(ended.err, "")
            self.assertLess(len(str(ended.done)), 50_000)
        self.assertEqual(len(self.complete("")), 101)
        self.assertEqual(self.get("1 + 1"), "2")


@unittest.skipUnless(find_spec("numpy") and find_spec("pandas"), "there is no numpy or pandas")
class TestLibraries(Requests):
    def test_completion(self) -> None:
        self.run_code("import numpy as np, pandas as pd\nframe = pd.DataFrame({'a': [1]})")
        for code, want in {"frame.grou": "groupby", "frame.iloc.nd": "(",
                           "np.lina": "linalg", "np.linalg.sv": "svd", "pd.read_cs": "read_csv",
                           "from numpy.random import defa": "default_rng"}.items():
            ended = self.worker.ask("complete", code, at=len(code)).done
            self.assertIn(want, ended.get("result", ended.get("error", "") + "("), code)
