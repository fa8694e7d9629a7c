"""Requests about the namespace: get, set, delete, inspect, complete."""

from __future__ import annotations

import json
import math
import sys
import unittest
from importlib.util import find_spec
from typing import Any

from .owner import WorkerTestCase
from .test_display import SETUP


class Requests(WorkerTestCase):
    def setUp(self) -> None:
        self.ask("delete", all=True)

    def run_code(self, code: str) -> None:
        ended = self.worker.run(code)
        self.assertEqual(ended.done["end"], "returned", ended.err)

    def ask(self, do: str, code: str = "", **fields: object) -> str:
        """Return the answer to a request."""
        ended = self.worker.ask(do, code, **fields)
        self.assertEqual(ended.done["end"], "returned", ended)
        answer: str = ended.done["result"]
        return answer

    def refusal(self, do: str, code: str = "", **fields: object) -> str:
        """Return why a request is refused, which leaves nothing on stderr."""
        ended = self.worker.ask(do, code, **fields)
        self.assertEqual((ended.done["end"], ended.err), ("raised", ""), ended)
        error: str = ended.done["error"]
        return error

    def get(self, code: str, format: str = "text") -> str:
        return self.ask("get", code, format=format)


class TestGet(Requests):
    def test_expressions(self) -> None:
        self.run_code("d = {'a': [1, 'two']}\nn = None\nimport asyncio")
        for code, text in {"d": "{'a': [1, 'two']}", " d['a'][1] ": "'two'", "n": "None",
                           "len(d)": "1", "await asyncio.sleep(0, 4)": "4",
                           "[d for d in 'ab']": "['a', 'b']"}.items():
            self.assertEqual(self.get(code), text, code)

    def test_last_value_and_names_stay(self) -> None:
        self.run_code("x = 1\n6 * 7")
        before = self.worker.events[-1][1]["names"]
        self.get("x")
        self.assertNotIn("names", self.worker.events[-1][1])
        self.assertEqual((self.get("_"), before), ("42", ["x"]))

    def test_a_displayhook_has_no_part(self) -> None:
        self.run_code("import sys\nhook = sys.displayhook\nsys.displayhook = print")
        try:
            self.assertEqual(self.get("1"), "1")
        finally:
            self.run_code("sys.displayhook = hook")

    def test_missing_variables(self) -> None:
        self.run_code("data = 1\ndef f(): return nowhere")
        self.assertEqual(self.refusal("get", "datta.head()", format="text"),
                         "there is no variable datta; did you mean data?")
        self.assertEqual(self.refusal("get", "[zq for _ in '1']", format="text"),
                         "there is no variable zq")
        ended = self.worker.ask("get", "f()", format="text")
        self.assertEqual(ended.done["error"], "NameError: name 'nowhere' is not defined")
        self.assertIn("nowhere", ended.err)

    def test_what_is_no_expression(self) -> None:
        for code in ("x = 1", "", "# none", "1; 2", "import os"):
            self.assertIn("must be one expression", self.refusal("get", code, format="text"), code)
        self.assertIn("SyntaxError", self.worker.ask("get", "1 +", format="text").done["error"])

    def test_reprs_that_fail(self) -> None:
        self.run_code("class Bad:\n    def __repr__(self): raise ValueError('no repr')\n"
                      "class Long:\n    def __repr__(self): return 'x' * (1 << 26)\n"
                      "class Hangs:\n    def __repr__(self):\n"
                      "        print('hanging', flush=True)\n        while True: pass")
        ended = self.worker.ask("get", "Bad()", format="text")
        self.assertEqual(ended.done["error"], "ValueError: no repr")
        done = self.worker.ask("get", "Long()", format="text").done
        self.assertEqual((len(done["result"]), done["result_cut"]), (1 << 20, (1 << 26) - (1 << 20)))
        job = self.worker.start("Hangs()", {"do": "get", "format": "text"})
        job.prints("hanging")
        self.assertEqual(self.worker.interrupt_to_the_end(job).done["error"], "KeyboardInterrupt")
        self.assertEqual(self.get("1 + 1"), "2")

    def test_json(self) -> None:
        self.run_code("v = {'a': [1, 2.5, None, True], 'é': 'ü', 2: 10 ** 30}")
        self.assertEqual(json.loads(self.get("v", "json")),
                         {"a": [1, 2.5, None, True], "é": "ü", "2": 10 ** 30})
        self.assertEqual(self.get("'é'", "json"), '"é"')
        self.assertEqual(self.get("'\\ud800'", "json"), '"\\ud800"')
        self.assertEqual(self.get("''", "json"), '""')

    def test_what_has_no_json(self) -> None:
        self.run_code("circle = []\ncircle.append(circle)\ndeep = []\n"
                      "for _ in range(100000): deep = [deep]\n"
                      "class Sub(dict):\n    def items(self): raise ValueError('mine')")
        for code, why in {"{1, 2}": "type set", "circle": "Circular", "float('nan')": "nan",
                          "{(1, 2): 3}": "keys must be", "deep": "recursion",
                          "Sub(a=1)": "mine", "object()": "type object"}.items():
            self.assertIn(why, self.refusal("get", code, format="json"), code)
        self.assertIn("longer than 1,048,576",
                      self.refusal("get", "[0] * (1 << 20)", format="json"))
        self.run_code("def endless():\n    while True: yield 1\n"
                      "class Endless(dict):\n    def items(self):\n"
                      "        while True: yield 'a', 1\n")
        self.assertIn("longer than", self.refusal("get", "Endless(a=1)", format="json"))
        self.assertEqual(self.get("1 + 1", "json"), "2")
        self.run_code("del deep")


    def test_images(self) -> None:
        self.run_code(SETUP)
        for code, label in (("of(png=png())", "image 1"), ("of(html='<b>x</b>')", "html 1")):
            job = self.worker.start(code, {"do": "get", "format": "image"})
            ended = job.end()
            self.assertEqual((ended.done["end"], ended.out, ended.err), ("returned", "", ""))
            self.assertNotIn("result", ended.done)
            self.assertEqual([event["label"] for event in self.worker.displays(job)], [label])
        self.assertEqual(self.refusal("get", "[1]", format="image"),
                         "there is no picture of an object of type list; format=text shows its repr")
        ended = self.worker.ask("get", "of(png=b'no PNG')", format="image")
        self.assertIn("no picture of an object of type C", ended.done["error"])
        self.assertIn("can't be shown", ended.err)


class TestSetAndDelete(Requests):
    def set(self, name: str, text: str) -> str:
        return self.ask("set", name=name, value=text)

    def test_values(self) -> None:
        big = "9" * 4000
        for text, value in {"1": "1", '"é"': "'é'", "null": "None", "true": "True",
                            "[1, {\"a\": 2.5}]": "[1, {'a': 2.5}]", big: big, "1e5": "100000.0",
                            '"\\ud83d\\ude00"': "'\U0001f600'"}.items():
            self.set("x", text)
            self.assertEqual(self.get("x"), value)

    def test_answers_show_what_was_set(self) -> None:
        self.assertEqual(self.set("x", "[1, 2]"), "x = [1, 2] (list, new)")
        self.assertEqual(self.set("x", '"a"'), "x = 'a' (str, list before)")
        self.assertLess(len(self.set("x", json.dumps("y" * 100_000))), 300)
        self.assertEqual(self.worker.run("len(x)").done["result"], "100000")

    def test_names_are_those_of_the_parser(self) -> None:
        self.set("\ufb01le", "1")  # a ligature
        self.assertEqual(self.worker.run("file").done["result"], "1")
        for name in ("", "1a", "a b", "a.b", "class", "None", "a = 1", " x", "x\n", "a\0b",
                     "await", "__debug__", "__name__", "__builtins__", "x" * 2000, "\ud800"):
            self.assertRegex(self.refusal("set", name=name, value="1"),
                             "can't be the name of a variable|Python's own", name)
        self.assertEqual(self.worker.run("__name__").done["result"], "'__main__'")

    def test_values_that_can_not_be_read(self) -> None:
        for text in ("[" * 100_000 + "]" * 100_000, "", "[1", "9" * 5000):
            ended = self.worker.ask("set", name="x", value=text)
            if text[:1] != "9" or ended.done["end"] == "raised":  # digits are limited since 3.10.7
                self.assertIn("the value can't be read", ended.done["error"], text[:10])
        self.assertEqual(self.get("1 + 1"), "2")

    def test_deletes_all_or_nothing(self) -> None:
        self.run_code("alpha = beta = _hidden = 1")
        self.assertEqual(self.refusal("delete", names=["alpha", "bete", "gone"]),
                         "there is no variable bete, gone; did you mean beta?; nothing was deleted")
        self.assertIn("Python's own", self.refusal("delete", names=["alpha", "__name__"]))
        self.assertEqual(self.get("alpha"), "1")
        self.assertEqual(self.ask("delete", names=["alpha", "_hidden", "alpha"]),
                         "deleted alpha, _hidden")
        self.assertEqual(self.get("beta"), "1")

    def test_deletes_all_of_the_user(self) -> None:
        self.run_code("a = b = _c = 1\nx: int = 2\nglobals()[(1,)] = 3\n__name__ = 'mine'\n7")
        self.worker.run("1 / 0")
        self.assertEqual(self.ask("delete", all=True), "deleted 5 variables")
        self.run_code("import sys, builtins\nassert not hasattr(sys, 'last_value')\n"
                      "assert not hasattr(builtins, '_')\nassert __name__ == '__main__'\n"
                      "assert not globals().get('__annotations__')\n"
                      "assert set(globals()) <= {'sys', 'builtins', '__name__', '__doc__',"
                      " '__package__', '__loader__', '__spec__', '__annotations__',"
                      " '__builtins__'}, globals()")
        self.assertEqual(self.worker.events[-1][1]["names"], ["builtins", "sys"])

    def test_finalizers_run_and_can_be_interrupted(self) -> None:
        self.run_code("class Loud:\n    def __del__(self): print('ends')\n"
                      "class Hangs:\n    def __del__(self):\n"
                      "        print('hanging', flush=True)\n        while True: pass\n"
                      "a, b = Loud(), Hangs()")
        self.assertEqual(self.worker.ask("delete", names=["a"]).out, "ends\n")
        job = self.worker.start("", {"do": "delete", "names": ["b"]})
        job.prints("hanging")
        self.worker.interrupt_to_the_end(job)
        self.assertEqual(self.get("1 + 1"), "2")


class TestInspect(Requests):
    def source(self, code: str) -> str:
        return self.ask("inspect", code, source=True)

    def test_functions_of_a_job(self) -> None:
        self.run_code('# first\ndef f(a, b=1) -> int:\n    """Add."""\n    return a + b\n')
        job = self.worker.jobs[-1].id
        head = ["Type: function", "Signature: f(a, b=1) -> int", "File: <job %s>, line 2" % job]
        self.assertEqual(self.ask("inspect", "f"), "\n".join(head + ["Documentation:", "    Add."]))
        self.assertEqual(self.source("f"), "\n".join(head + [
            "Source:", "    def f(a, b=1) -> int:", '        """Add."""', "        return a + b"]))

    def test_classes_of_a_job(self) -> None:
        self.run_code("class A:\n    x = 1\n")
        self.run_code("class B(A):\n    'Doc.'\n    class In:\n        y = 2\n"
                      "    def m(self): return 1\nb = B()")
        job = self.worker.jobs[-1].id
        head = ["Type: type", "Bases: A, object", "Signature: B()",
                "File: <job %s>, line 1" % job]
        for text, body in ((self.ask("inspect", "B"), ["    Doc."]),
                           (self.source("B"), ["    class B(A):", "        def m(self): return 1"])):
            for line in head + body:
                self.assertIn(line, text.split("\n"))
        self.assertTrue(self.source("A").endswith("    class A:\n        x = 1"))
        self.assertTrue(self.source("B.In").endswith("    class In:\n            y = 2"))
        self.assertIn("def m(self)", self.source("b.m"))

    def test_values_modules_and_builtins(self) -> None:
        self.run_code("import json\nx = [1, 2]\nclass Odd:\n"
                      "    def __getattr__(self, name): raise ValueError(name)\no = Odd()")
        self.assertIn("Type: list\nValue: [1, 2]\nLength: 2\n", self.ask("inspect", "x"))
        self.assertIn("json/__init__.py", self.ask("inspect", "json"))
        self.assertIn("Source:\n    def dumps(", self.source("json.dumps"))
        self.assertNotIn("Source:", self.ask("inspect", "json.dumps"))
        self.assertIn("Documentation:", self.source("len"))  # it has no source
        self.assertIn("Type: Odd", self.ask("inspect", "o"))
        self.assertIn("there is no variable jsn; did you mean json?", self.refusal("inspect", "jsn"))

    @unittest.skipIf(sys.version_info < (3, 14), "annotations are evaluated with the definition")
    def test_annotations_that_can_not_be_evaluated(self) -> None:
        self.run_code("def f(a: nowhere, *b: int) -> no.where: pass")
        self.assertIn("Signature: f(a: nowhere, *b: int) -> no.where", self.ask("inspect", "f"))

    def test_a_default_whose_repr_fails(self) -> None:
        self.run_code("class Bad:\n    def __repr__(self): 1 / 0\ndef f(a=Bad()): pass")
        self.assertIn("Source:\n    def f(a=Bad()): pass", self.source("f"))

    def test_a_long_signature_has_no_annotations(self) -> None:
        names = ["name_%d" % i for i in range(30)]
        for size, bare in ((3, False), (30, True)):
            some = names[:size]
            self.run_code("def f(%s) -> str: pass" % ", ".join([n + ": 'an annotation'" for n in some]))
            want = "Signature: f(%s)" % ", ".join(some)
            self.assertEqual(want in self.ask("inspect", "f").split("\n"), bare)

    def test_a_default_whose_repr_hangs(self) -> None:
        self.run_code("class Hangs:\n    def __repr__(self):\n"
                      "        print('hanging', flush=True)\n        while True: pass\n"
                      "def f(a=Hangs()): pass")
        job = self.worker.start("f", {"do": "inspect"})
        job.prints("hanging")
        self.assertEqual(self.worker.interrupt_to_the_end(job).done["error"], "KeyboardInterrupt")


class TestNews(Requests):
    def news(self, code: str) -> dict[str, Any]:
        done = self.worker.run(code).done
        return {key: done[key] for key in ("new", "new_count", "gone", "gone_count") if key in done}

    def test_new_and_gone(self) -> None:
        none: dict[str, Any] = {"new": [], "new_count": 0, "gone": [], "gone_count": 0}
        self.assertEqual(self.news("b = a = 1"), {**none, "new": ["b", "a"], "new_count": 2})
        self.assertEqual(self.news("a = 2; _x = 1"), {})
        self.assertEqual(self.news("del b; c = 1"),
                         {"new": ["c"], "new_count": 1, "gone": ["b"], "gone_count": 1})
        self.assertEqual(self.news("del a; a = 1"), none)  # in another order
        many = self.news("for i in range(30): globals()['v%d' % i] = i")
        self.assertEqual((len(many["new"]), many["new_count"]), (20, 31))
        many = self.news("globals()['n' * 9999] = 1")
        self.assertLess(len(many["new"][0]), 300)
        many = self.news("globals().update((str(i), i) for i in range(12000))")
        self.assertEqual((many["new_count"], many["gone_count"]), (12000, 0))
        self.assertEqual(self.news("last = 1"), {**none, "new": ["last"], "new_count": 1})


class TestTables(Requests):
    @unittest.skipUnless(find_spec("polars"), "there is no polars")
    def test_polars_in_json(self) -> None:
        self.run_code("import polars as pl, datetime\nframe = pl.DataFrame({'a': [1, None], "
                      "'b': [float('nan'), 0.5], 'c': [[1], []], 'd': [datetime.date(2026, 1, 2)] * 2})")
        self.assertEqual(json.loads(self.get("frame", format="json")), {
            "columns": ["a", "b", "c", "d"],
            "data": [[1, None, [1], "2026-01-02"], [None, 0.5, [], "2026-01-02"]]})
        self.assertEqual(json.loads(self.get("frame['b']", format="json")),
                         {"name": "b", "data": [None, 0.5]})
        self.assertEqual(json.loads(self.get("[frame[:0]]", format="json")),
                         [{"columns": ["a", "b", "c", "d"], "data": []}])
        self.assertIn("type LazyFrame", self.refusal("get", "frame.lazy()", format="json"))
        self.assertIn("its JSON is longer", self.refusal(
            "get", "pl.DataFrame({'a': range(1 << 20), 'b': 1})", format="json"))

    @unittest.skipUnless(find_spec("pyarrow"), "there is no pyarrow")
    def test_tables_of_arrow_in_json(self) -> None:
        self.run_code("import pyarrow as pa\ntable = pa.table({'a': [1, None], 'b': [1.5, None]})")
        want = {"columns": ["a", "b"], "data": [[1, 1.5], [None, None]]}
        for code in "table", "table.to_batches()[0]":
            self.assertEqual(json.loads(self.get(code, format="json")), want)


@unittest.skipUnless(find_spec("numpy") and find_spec("pandas"), "there is no numpy or pandas")
class TestLibraries(Requests):
    def test_json(self) -> None:
        self.run_code("import numpy as np, pandas as pd\nframe = pd.DataFrame("
                      "{'a': [1, None], 't': pd.to_datetime(['2026-01-02', None])}, index=[7, 7])")
        for code, want in {
                "np.float32(1.5)": 1.5, "np.array([[1, 2]])": [[1, 2]], "np.bool_(True)": True,
                "{'n': np.int64(3), 'u': np.str_('x')}": {"n": 3, "u": "x"}, "np.array(4)": 4,
                "pd.Timestamp(0)": "1970-01-01T00:00:00", "[pd.NaT]": [None],
                "pd.Series([1e-300, np.pi, pd.Timestamp(1)])":
                    {"name": None, "index": [0, 1, 2],
                     "data": [1e-300, math.pi, "1970-01-01T00:00:00.000000001"]},
                "pd.DataFrame({('a', 'b'): pd.period_range('2026', periods=1, freq='Y')})":
                    {"columns": [["a", "b"]], "index": [0], "data": [["2026"]]},
                "pd.DataFrame(index=['x'])": {"columns": [], "index": ["x"], "data": [[]]},
                "pd.DataFrame([[1, 2]], columns=['a', 'a'])":
                    {"columns": ["a", "a"], "index": [0], "data": [[1, 2]]},
                "[pd.Series([1.5, None], name='s')]":
                    [{"name": "s", "index": [0, 1], "data": [1.5, None]}]}.items():
            self.assertEqual(json.loads(self.get(code, "json")), want, code)
        got = json.loads(self.get("frame", "json"))
        self.assertEqual((got["columns"], got["index"]), (["a", "t"], [7, 7]))
        self.assertEqual(got["data"][1], [None, None])
        self.assertTrue(got["data"][0][1].startswith("2026-01-02T00:00:00"), got)
        for code, why in {"np.array([1j])": "complex", "np.zeros(1 << 21)": "longer than",
                          "np.array([np.nan])": "nan", "pd.Series([np.inf])": "inf",
                          "pd.DataFrame(np.zeros((1 << 20, 2)))": "longer than"}.items():
            self.assertIn(why, self.refusal("get", code, format="json"), code)
