"""Jobs in a worker: results, ends, output, tracebacks, interrupts."""

from __future__ import annotations

import os
import pathlib
import sys
import tempfile
import unittest
from typing import Any
from unittest import mock

from .owner import Job, Worker, WorkerTestCase


class TestJobs(WorkerTestCase):
    def test_results(self) -> None:
        for code, result in {
            "": None, "x = 1": None, "None": None, "1; 2": "2", "'a'": "'a'", "x = 5\nx * 2": "10",
            "if True: 3": None, "await __import__('asyncio').sleep(0, 4)": "4",
            "class R(str): pass\nclass C:\n    def __repr__(self): return R('shown')\nC()": "shown",
        }.items():
            with self.subTest(code):
                done = self.worker.run(code).done
                self.assertEqual((done["end"], done.get("result")), ("returned", result))

    def test_last_value_is_kept(self) -> None:
        self.worker.run("6 * 7")
        self.assertEqual(self.worker.run("_ + 1").done["result"], "43")

    def test_futures_hold_for_later_jobs(self) -> None:
        self.worker.run("from __future__ import annotations")
        done = self.worker.run("def f(a: nowhere): pass\nf.__annotations__").done
        self.assertEqual(done["result"], "{'a': 'nowhere'}")

    def test_long_results_are_cut(self) -> None:
        done = self.worker.run("'x' * (1 << 21)").done
        self.assertEqual(len(done["result"]) + done["result_cut"], (1 << 21) + 2)
        self.assertEqual(len(done["result"]), 1 << 20)

    def test_ends(self) -> None:
        ends: list[tuple[str, str, dict[str, object]]] = [
            ("import sys; sys.exit()", "exit", {"code": 0}),
            ("sys.exit(3)", "exit", {"code": 3}),
            ("sys.exit('why')", "exit", {"code": 1}),
            ("1 / 0", "raised", {"error": "ZeroDivisionError: division by zero"}),
            ("raise KeyboardInterrupt", "raised",
             {"error": "KeyboardInterrupt", "interrupted": False}),
            ("def f(:", "raised", {"error": "SyntaxError: invalid syntax"}),
            ("class Bad(Exception):\n    def __str__(self): 1 / 0\nraise Bad", "raised",
             {"error": "Bad: <exception str() failed>"}),
        ]
        for code, end, fields in ends:
            with self.subTest(code):
                done = self.worker.run(code).done
                self.assertEqual(done["end"], end)
                self.assertEqual({name: done.get(name) for name in fields}, fields)

    def test_a_forked_child_ends_where_the_code_does(self) -> None:
        result = self.worker.run(
            "import os\npid = os.fork()\n"
            "if pid: status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])\n"
            "else: raise ValueError('the child')\nstatus")
        self.assertEqual(result.done["result"], "1")
        self.assertIn("ValueError: the child", result.err)

    def test_tracebacks_show_no_frame_of_ours(self) -> None:
        for name, code in {
            "plain": "def f():\n    raise ValueError('é')\nf()",
            "await": "async def f():\n    raise ValueError('é')\nawait f()",
            "cause": "try: 1 / 0\nexcept Exception as e: raise ValueError('é') from e",
            "in str": "class C:\n    def __str__(self): raise ValueError('é')\nprint(C())",
            "task": "import asyncio\nasync def f():\n    raise ValueError('é')\n"
                    "await asyncio.create_task(f())",
        }.items():
            with self.subTest(name):
                result = self.worker.run(code)
                self.assertEqual(result.done["error"], "ValueError: é")
                self.assertIn("raise ValueError('é')", result.err)  # the line of source
                first = result.err.partition("\n")[0]
                self.assertEqual(first, "Traceback (most recent call last):")
                for ours in ("async-repl", "/worker/", "_user_code", "_together"):
                    self.assertNotIn(ours, result.err)

    def test_the_same_code_has_the_same_file_name(self) -> None:
        code = "def f(x):\n    return 1 / x\nf.__code__.co_filename"
        names = {self.worker.run(code).done["result"] for _ in range(2)}
        other = Worker()
        self.addCleanup(other.close)
        names.add(other.run(code).done["result"])
        self.assertEqual(len(names), 1, names)
        self.assertNotIn(self.worker.run(code + " ").done["result"], names)
        source = self.worker.run("import inspect; print(inspect.getsource(f))")
        self.assertEqual(source.out, "def f(x):\n    return 1 / x\n\n")

    def test_tracebacks_name_the_newest_job_that_ran_the_code(self) -> None:
        define = "class E(Exception): pass\ndef g():\n    raise E(1)"
        self.worker.start(define).end()
        job = self.worker.start(define)
        job.end()
        for code in (
                "g()",
                "import traceback\ntry: g()\nexcept E: traceback.print_exc()",
                "import logging\ntry: g()\nexcept E: logging.exception('it')",
                "import sys\ntry: g()\nexcept E: sys.__excepthook__(*sys.exc_info())",
                "import threading; t = threading.Thread(target=g); t.start(); t.join()",
                "class D:\n    __del__ = lambda self: g()\nD(); None"):
            with self.subTest(code):
                ended = self.worker.run(code)
                self.assertIn('  File "<job %s>", line 3, in g\n' % job.id, ended.err)
                self.assertNotIn("<code ", ended.err)

    def test_lines_like_those_of_tracebacks_are_written(self) -> None:
        for line in ('  File "<code ', '  File "<code x>', '  File "<code x>", line 1, in f'):
            self.assertEqual(self.worker.run("print(%r)" % line).out, line + "\n")

    def test_each_job_warns_again_as_in_ipython(self) -> None:
        code = "import warnings\nfor i in range(2):\n    warnings.warn('old')"
        for _ in range(2):
            self.assertEqual(self.worker.run(code).err.count("UserWarning: old"), 1)

    def test_the_descriptor_of_the_loop_is_reported_when_it_changes(self) -> None:
        worker = Worker()
        self.addCleanup(worker.close)
        told: list[Any] = []
        for before in "", "", "loop.close(); other = [open(os.devnull) for i in range(3)]":
            worker.run(before)
            done = worker.run("import asyncio, os; await asyncio.sleep(0)\n"
                              "loop = asyncio.get_event_loop(); loop._selector.fileno()").done
            told = [fields["fd"] for name, fields in worker.events if name == "loop"]
            self.assertEqual(str(told[-1]), done["result"])
        self.assertEqual(len(told), 2, told)

    def test_no_browser_is_started(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            for name in "w3m", "www-browser", "mine":
                path = pathlib.Path(directory, name)
                path.write_text("#!/bin/sh\n>%s/started\n" % directory)
                path.chmod(0o700)
            self.worker.run("import os, webbrowser; os.environ['BROWSER'] = 'mine'\n"
                            "os.environ['PATH'] = %r + os.environ['PATH']" % (directory + ":"))
            ended = self.worker.run("webbrowser.open('http://x'), webbrowser.get().open_new_tab('/y')")
            self.assertEqual(ended.out, "[not opened: http://x]\n[not opened: /y]\n")
            self.assertEqual(ended.done["result"], "(False, False)")
            ended = self.worker.run("webbrowser.open('data:' + 'x' * 2000); webbrowser.get('w3m')")
            self.assertEqual(len(ended.out), len("[not opened: \u2026 (5 more characters)]\n") + 2000)
            self.assertEqual(ended.done["error"],
                             "webbrowser.Error: could not locate runnable browser")
            self.assertNotIn("started", os.listdir(directory))

    def test_streams_belong_to_their_job(self) -> None:
        first = self.worker.run(
            "import sys, threading\ngo = threading.Event()\n"
            "def late(): go.wait(); print('late')\n"
            "thread = threading.Thread(target=late); thread.start()\n"
            "print('out'); print('err', file=sys.stderr); sys.stdout.buffer.write(b'raw')")
        self.assertEqual((first.out, first.err), ("out\nraw", "err\n"))
        second = self.worker.run("go.set(); thread.join(); print('second', end='')")
        self.assertEqual(second.out, "second")
        job = self.worker.jobs[-2]
        job.read()
        self.assertEqual(job.texts[1], b"out\nrawlate\n")

    def test_pipes_live_as_long_as_something_carries_their_job(self) -> None:
        def closed(job: Job) -> bool:
            self.worker.send("sync", n=1)
            self.worker.event("sync")
            try:
                return os.read(job.pipes[1], 1) == b""
            except BlockingIOError:
                return False

        plain = self.worker.start("1")
        plain.end()
        self.assertFalse(closed(plain))
        carried = self.worker.start("import threading\nstop = threading.Event()\n"
                                    "thread = threading.Thread(target=stop.wait); thread.start()")
        carried.end()
        self.assertTrue(closed(plain))
        self.worker.run("1")
        self.assertFalse(closed(carried))
        self.worker.run("stop.set(); thread.join()")
        self.worker.run("1")
        self.assertTrue(closed(carried))

    def test_reconfigured_streams_stay_so(self) -> None:
        self.worker.run("import sys; sys.stdout.reconfigure(newline='\\r\\n')")
        self.assertEqual(self.worker.run("print('a')").out, "a\r\n")
        self.worker.run("sys.stdout.reconfigure(newline='\\n')")

    def test_questions_are_asked_and_answered(self) -> None:
        for code, kind, prompt, by in [
            ("input('name? ')", "line", "name? ", "input()"),
            ("import getpass; getpass.getpass('key? ')", "secret", "key? ", "getpass()"),
            ("import sys; sys.stdin.readline()[:-1]", "line", "", "sys.stdin"),
        ]:
            with self.subTest(by):
                job = self.worker.start(code)
                asked = self.worker.event("input", job.id)
                self.assertEqual((asked["kind"], asked["prompt"], asked["by"]), (kind, prompt, by))
                self.worker.send("input", n=asked["n"], line="é\n")
                self.assertEqual(job.end().done["result"], "'é'")

    def test_the_end_of_file_answers_too(self) -> None:
        job = self.worker.start("input()")
        self.worker.send("input", n=self.worker.event("input", job.id)["n"], eof=True)
        self.assertEqual(job.end().done["error"], "EOFError: EOF when reading a line")

    def test_names_are_reported_when_they_change(self) -> None:
        self.worker.run("first_name = 1")
        done = self.worker.run("second_name = _hidden = 1").done
        self.assertIn("second_name", done["names"])
        self.assertNotIn("_hidden", done["names"])
        self.assertEqual(done["hidden"], 1)
        self.assertEqual(done["names"], sorted(done["names"]))
        self.assertNotIn("names", self.worker.run("second_name = 2").done)

    def test_variables_and_imported(self) -> None:
        self.worker.run("import json\nlisted_one = [1]; listed_two = json")
        self.worker.send("variables", n=1)
        answer = self.worker.event("variables")
        self.assertIn({"name": "listed_one", "type": "list", "value": "[1]", "len": 1},
                      answer["vars"])
        self.assertIn("listed_two", answer["modules"])
        self.worker.send("imported", n=2, modules=["json", "wave", "no.such"])
        self.assertEqual(self.worker.event("imported")["modules"], ["json"])

    def test_interrupts_reach_the_job(self) -> None:
        for code in ["while True: pass", "import time; time.sleep(300)",
                     "import asyncio; await asyncio.sleep(300)", "input('? ')"]:
            with self.subTest(code):
                job = self.worker.start("print('on', flush=True)\n" + code)
                job.prints("on")
                done = self.worker.interrupt_to_the_end(job).done
                self.assertEqual((done["error"], done["interrupted"]), ("KeyboardInterrupt", True))
                raised = [e for name, e in self.worker.events if name == "raised"]
                self.assertEqual([e["id"] for e in raised if e["id"] == job.id], [job.id])

    def test_interrupts_before_a_sync_are_late(self) -> None:
        self.worker.interrupt()
        self.worker.send("sync", n=1)
        self.worker.event("sync")
        self.assertEqual(self.worker.run("1").done["result"], "1")

    def test_interrupts_before_a_job_are_early(self) -> None:
        self.worker.send("sync", n=1)
        self.worker.event("sync")
        self.worker.interrupt()
        result = self.worker.run("print('ran')")
        self.assertEqual((result.out, result.done["error"]), ("", "KeyboardInterrupt"))
        self.assertTrue(result.done["interrupted"])
        self.assertEqual(self.worker.run("1").done["result"], "1")

    def test_user_code_cannot_reach_our_modules(self) -> None:
        code = "import sys; [n for n in sys.modules if n.startswith(('async_repl', 'worker'))]"
        self.assertEqual(self.worker.run(code).done["result"], "[]")
        self.worker.run("import builtins; keep = builtins.len; builtins.len = None")
        self.assertEqual(self.worker.run("builtins.len = keep; len('ab')").done["result"], "2")


@unittest.skipIf(sys.version_info < (3, 15), "imports are never lazy")
class TestLazyImports(unittest.TestCase):
    def test_only_those_of_user_code_are_lazy(self) -> None:
        with mock.patch.dict(os.environ, PYTHON_LAZY_IMPORTS="all"):
            worker = Worker()
        self.addCleanup(worker.close)
        ended = worker.run("import decimal, sys\n'decimal' in sys.modules, sys.get_lazy_imports()")
        self.assertEqual(ended.done["result"], "(False, 'all')")
        self.assertEqual(worker.run("decimal.Decimal(1)").done["result"], "Decimal('1')")
        worker.run("import os; sys.modules['tokenize'] = os")  # not what a traceback needs
        self.assertIn("ZeroDivisionError", worker.run("def f(): 1 / 0\nf()").err)
        self.assertEqual(worker.run("await __import__('asyncio').sleep(0, 4)").done["result"], "4")
        worker.run("lazy import colorsys")
        worker.send("variables", n=1)
        self.assertIn("colorsys", [each["name"] for each in worker.event("variables")["vars"]])
        self.assertEqual(worker.run("'colorsys' in sys.modules").done["result"], "False")
