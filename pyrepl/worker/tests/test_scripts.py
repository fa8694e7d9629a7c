"""Files that are run as `python file args` does, and notebooks."""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import tempfile
import unittest
from typing import Any

from .owner import Worker


class TestFiles(unittest.TestCase):
    worker: Worker
    directory: pathlib.Path
    temporary: tempfile.TemporaryDirectory[str]

    @classmethod
    def setUpClass(cls) -> None:
        cls.temporary = tempfile.TemporaryDirectory()
        cls.directory = pathlib.Path(cls.temporary.name).resolve()
        cls.worker = Worker()

    @classmethod
    def tearDownClass(cls) -> None:
        cls.worker.close()
        cls.temporary.cleanup()

    def write(self, name: str, text: str | bytes) -> pathlib.Path:
        path = self.directory / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    def notebook(self, name: str, *cells: Any, **fields: Any) -> pathlib.Path:
        """Write a notebook of code cells; a cell that is no str is as it is given."""
        whole = [{"cell_type": "code", "source": cell} if type(cell) is str else cell
                 for cell in cells]
        return self.write(name, json.dumps({"nbformat": 4, "cells": whole, **fields}))

    def test_a_file_finds_what_python_gives_it(self) -> None:
        self.write("beside.py", "value = 'beside'")
        path = self.write("finds.py", "import sys, beside\nprint(__name__, __file__, sys.argv, "
                          "sys.path[0], '' in sys.path, beside.value)\n1 + 1")
        before = self.worker.run("import sys; sys.argv, sys.path, '__file__' in globals()")
        ended = self.worker.run_file(path, "-n", "a b")
        self.assertEqual(ended.out, "__main__ %s %r %s False beside\n" % (
            path, [str(path), "-n", "a b"], self.directory))
        self.assertEqual((ended.done["end"], ended.done.get("result")), ("returned", None))
        after = self.worker.run("sys.argv, sys.path, '__file__' in globals()")
        self.assertEqual(after.done["result"], before.done["result"])

    def test_it_is_as_python_runs_it(self) -> None:
        path = self.write("same.py", "import sys, os\nprint(__name__, sys.argv, sys.path[0], "
                          "__file__, __doc__)\n")
        os.symlink("same.py", self.directory / "link.py")
        import subprocess
        import sys
        for name in (str(path), str(self.directory / "link.py"), os.path.relpath(path)):
            plain = subprocess.run([sys.executable, name, "a"], stdout=-1, check=True)
            self.assertEqual(self.worker.run_file(name, "a").out, plain.stdout.decode())

    def test_its_names_are_kept(self) -> None:
        self.worker.run("earlier = 5")
        path = self.write("names.py",
                          "def kept(): return earlier\nif __name__ == '__main__': x = 1")
        done = self.worker.run_file(path).done
        self.assertIn("kept", done["new"])
        self.assertEqual(done["form"], "uncompiled")
        self.assertEqual(self.worker.run("kept() + x").done["result"], "6")
        self.assertEqual(self.worker.run("import inspect; inspect.getsource(kept)").done["result"],
                         repr("def kept(): return earlier\n"))

    def test_processes_that_it_spawns_find_its_functions(self) -> None:
        path = self.write("spawns.py", """
import concurrent.futures, multiprocessing, sys
class Point:
    def __init__(self, x): self.x = x
def double(point): return point.x * 2
if __name__ == '__main__':
    context = multiprocessing.get_context(sys.argv[1])
    process = context.Process(target=double, args=(Point(1),))
    process.start()
    process.join()
    with context.Pool(1) as pool: first = pool.map(double, [Point(2)])
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
        second = list(pool.map(double, [Point(3)]))
    print(process.exitcode, first, second)
    earlier and context.Process(target=earlier).start()
""")
        for method in "spawn", "forkserver":
            with self.subTest(method):
                self.worker.run("earlier = None")
                self.assertEqual(self.worker.run_file(path, method)[1:], ("0 [4] [6]\n", ""))
                refused = ("is defined in this session, where a process started by "
                           "'spawn or forkserver' can't find it")
                ended = self.worker.run("context.Process(target=double).start()")
                self.assertIn("function 'double' " + refused, ended.done["error"])
                self.worker.run("def earlier(): pass")
                ended = self.worker.run_file(path, method)
                self.assertIn("function 'earlier' " + refused, ended.done["error"])

    def test_the_server_of_forkserver_keeps_nothing_of_a_file(self) -> None:
        for code in 3, 4:
            path = self.write("changes.py", """
import multiprocessing, sys
def leave(): sys.exit(%d)
if __name__ == '__main__':
    process = multiprocessing.get_context('forkserver').Process(target=leave)
    process.start()
    process.join()
    print(process.exitcode, multiprocessing.forkserver._forkserver._preload_modules)
""" % code)
            self.assertEqual(self.worker.run_file(path).out, "%d []\n" % code)

    def test_processes_that_a_notebook_spawns_do_not_run_it(self) -> None:
        spawns = ("import multiprocessing, os\nprocess = multiprocessing.get_context('spawn')"
                  ".Process(target=os.getpid)\nprocess.start()\nprocess.join()\nprocess.exitcode")
        book = self.notebook("spawns.ipynb", spawns, metadata={"trusted": None})
        ended = self.worker.run_file(book)
        self.assertEqual((ended.done.get("result"), ended.err), ("0", ""))

    def test_a_relative_path_begins_in_the_sessions_directory(self) -> None:
        path = self.write("relative.py", "import sys; print(sys.argv[0])")
        name = os.path.relpath(path)
        self.assertEqual(self.worker.run_file(name).out, name + "\n")
        self.worker.run("import os; there = os.getcwd(); os.chdir('/')")
        try:
            self.assertTrue(os.path.samefile(self.worker.run_file(name).out[:-1], path))
        finally:
            self.worker.run("os.chdir(there)")

    def test_tracebacks_show_the_lines_of_the_file(self) -> None:
        path = self.write("raises.py", "# -*- coding: latin-1 -*-\ndef f():\n    raise "
                          "ValueError('é')\nf()".encode("latin-1"))
        ended = self.worker.run_file(path)
        self.assertEqual(ended.done["error"], "ValueError: é")
        self.assertTrue(ended.err.startswith(
            'Traceback (most recent call last):\n  File "%s", line 4, in <module>\n    f()' % path))
        self.assertIn("raise ValueError('é')", ended.err)
        self.assertNotIn("scripts", ended.err)
        ended = self.worker.run_file(self.write("wrong.py", "x = 1\ndef f(:\n"))
        self.assertEqual(ended.done["error"], "SyntaxError: invalid syntax")
        self.assertIn('wrong.py", line 2\n    def f(:', ended.err)

    def test_a_changed_file_shows_its_new_lines(self) -> None:
        path = self.write("changes.py", "1 / 0  # old")
        self.assertIn("# old", self.worker.run_file(path).err)
        self.write("changes.py", "2 / 0  # newer")
        self.assertIn("# newer", self.worker.run_file(path).err)
        self.write("changes.py", "\ndef f(): 3 / 0  # the newest")
        ended = self.worker.run("import sys; sys.path.insert(0, %r); import changes; changes.f()"
                                % str(self.directory))
        self.assertIn("# the newest", ended.err)
        self.worker.run("del sys.path[0]")

    def test_ends(self) -> None:
        ends: dict[str, dict[str, object]] = {
            "import sys; sys.exit(3)": {"end": "exit", "code": 3},
            "import argparse; argparse.ArgumentParser().parse_args(['-x'])": {"code": 2},
            "await None": {"error": "SyntaxError: 'await' outside function"},
            "": {"end": "returned"},
            "\ufeffx = 'bom'": {"end": "returned"},
        }
        for text, fields in ends.items():
            with self.subTest(text):
                done = self.worker.run_file(self.write("ends.py", text)).done
                self.assertEqual({name: done.get(name) for name in fields}, fields)
                restored = self.worker.run("import sys; sys.argv, '__file__' in globals()")
                self.assertEqual(restored.done["result"], "([''], False)")

    def test_futures_are_the_files_own(self) -> None:
        self.worker.run_file(self.write("future.py", "from __future__ import annotations"))
        ended = self.worker.run("def f(a: nowhere): pass\nf.__annotations__")  # 3.14 is lazy
        self.assertEqual(ended.done["error"], "NameError: name 'nowhere' is not defined")

    def test_what_it_adds_to_the_path_stays(self) -> None:
        path = self.write("adds.py", "import sys\nsys.path.insert(0, '/added')\n"
                          "sys.path = list(sys.path)\n")
        before = self.worker.run("import sys; len(sys.path)").done["result"]
        self.worker.run_file(path)
        self.assertEqual(self.worker.run("len(sys.path), sys.path.pop(0)").done["result"],
                         "(%d, '/added')" % (int(before) + 1))

    def test_the_path_begins_as_before_whatever_it_does(self) -> None:
        for code in ("del sys.path[0]", "sys.path[0] = '/gone'", "sys.path = ['/gone']",
                     "sys.path.insert(0, '')"):
            with self.subTest(code):
                path = self.write("takes.py", "import sys\n" + code)
                self.worker.run("import sys; kept = sys.path, sys.path[:]")
                self.worker.run_file(path)
                ended = self.worker.run("found = sys.path[:]; sys.path, sys.path[:] = kept\n"
                                        "found[0], %r in found" % str(self.directory))
                self.assertEqual(ended.done["result"], "('', False)")

    def test_interrupts_reach_it(self) -> None:
        path = self.write("endless.py", "print('on', flush=True)\nwhile True: pass")
        job = self.worker.start("", path=str(path), args=[])
        job.prints("on")
        self.assertEqual(self.worker.interrupt_to_the_end(job).done["error"], "KeyboardInterrupt")
        self.assertEqual(self.worker.run("import sys; sys.argv").done["result"], "['']")

    def test_what_cannot_be_run(self) -> None:
        os.mkfifo(self.directory / "fifo")
        self.write("nul.py", "x = '\0'")
        self.write("huge.py", b"#" * ((16 << 20) + 1))
        for name, why in {
            "missing.py": "there is no file %s/missing.py" % self.directory,
            ".": "is a directory: name a file in it",
            "fifo": "is no regular file",
            "a\0b": "can't be opened: ",
            "nul.py/x": "can't be opened: Not a directory",
            "x" * 300: "can't be opened: File name too long",
            "huge.py": "is larger than 16 MiB",
            str(self.write("bad.py", b"x = '\xe9'")): "is neither UTF-8 nor in an encoding",
            str(self.write("cookie.py", "# coding: none")): "is neither UTF-8 nor in an encoding",
            str(self.write("a.ipynb", "x = 1")): "is no notebook: Expecting value",
            str(self.write("b.ipynb", b"\xff{}")): "is no notebook: ",
            str(self.write("c.ipynb", "[1]")): "is no notebook: ",
            str(self.write("d.ipynb", "{}")): "is no notebook: ",
            str(self.write("e.ipynb", "[" * 100_000)): "is no notebook: ",
            str(self.notebook("f.ipynb", nbformat=3)): "has the old notebook format 3",
            str(self.notebook("r.ipynb", "x <- 1", metadata={"kernelspec": {"language": "R"}})):
                "is a notebook in R, and only Python runs here: run its code with R in a terminal",
            str(self.notebook("julia.ipynb", "1", metadata={"language_info": {"name": "julia"}})):
                "is a notebook in julia, and only Python",
            str(self.notebook("h.ipynb", "1", metadata=[])): "is no notebook: it is not",
            str(self.notebook("g.ipynb", {"cell_type": "code", "source": [1]})): "is no notebook",
        }.items():
            with self.subTest(name[:20]):
                ended = self.worker.run_file(self.directory / name)
                self.assertEqual((ended.done["end"], ended.err), ("raised", ""), ended)
                self.assertIn(why, ended.done["error"])
        self.assertIn("null", self.worker.run_file(self.directory / "nul.py").err)
        self.assertEqual(self.worker.run("import sys; sys.argv, '__file__' in globals()")
                         .done["result"], "([''], False)")

    def test_a_notebook_runs_its_cells_in_order(self) -> None:
        path = self.notebook(
            "book.ipynb", {"cell_type": "markdown", "source": ["# title"]},
            "%matplotlib inline\nimport asyncio, sys\nfirst = 1", "first + 1", "first + 2;", "None",
            {"cell_type": "code", "source": ["x = 5\n", "print(_, sys.argv[1:])"]},
            "await asyncio.sleep(0, x)", "for n in 1, 2: print(n)", "x * 2", metadata={})
        ended = self.worker.run_file(path, "arg")
        self.assertEqual((ended.done.get("result"), ended.out),
                         ("10", "2\n2 ['arg']\n5\n1\n2\n"), ended)
        self.assertEqual(self.worker.run("_ + first").done["result"], "11")

    def test_a_notebook_may_name_python(self) -> None:
        named: list[dict[str, Any]] = [
            {"kernelspec": {"language": "python", "name": "any"}}, {"kernelspec": {}},
            {"language_info": {"name": "ipython"}}]
        for metadata in named:
            with self.subTest(metadata):
                path = self.notebook("named.ipynb", "17", metadata=metadata)
                self.assertEqual(self.worker.run_file(path).done.get("result"), "17")

    def test_a_notebook_runs_files(self) -> None:
        inner = self.write("in ner.py", "import sys\nfrom_inner = sys.argv, __file__")
        book = self.notebook("outer.ipynb", "import sys", '%%run "%s" -x "a b"\n' % inner,
                             "from_inner, sys.argv[1:], __file__")
        want = "(([%r, '-x', 'a b'], %r), ['y'], %r)" % (str(inner), str(inner), str(book))
        self.assertEqual(self.worker.run_file(book, "y").done.get("result"), want)
        fails = self.write("fails.py", "1 / 0")
        self.worker.run_file(self.notebook("deep.ipynb", "%%run %s" % fails))
        self.assertEqual(self.worker.run("sys.argv, '__file__' in globals()").done["result"],
                         "([''], False)")
        endless = self.directory / "endless.ipynb"
        self.notebook("endless.ipynb", "%%run %s" % endless)
        self.assertIn("already run one another", self.worker.run_file(endless).done["error"])
        self.assertEqual(self.worker.run("sys.argv, len(sys.path)").done["end"], "returned")
        done = self.worker.run_file(self.notebook("quote.ipynb", "%run 'a")).done
        self.assertIn("SyntaxError", done["error"])

    def test_a_cell_is_read_as_jupyter_reads_it(self) -> None:
        inner = self.write("inner.py", "again = known + 1")
        book = self.notebook(
            "magics.ipynb", "  %matplotlib inline\n  known = 1\n  if known:\n      known += 1",
            "if known:\n    %config x\nelse:\n    known = 0", "\n\n  %%run -i %s;" % inner,
            "known, again")
        ended = self.worker.run_file(book)
        self.assertEqual(ended.done.get("result"), "(2, 3)", ended)

    def test_a_file_that_exits_ends_no_notebook(self) -> None:
        for code, said in {"0": "", "": "", "3": "SystemExit: 3\n",
                           "'why'": "SystemExit: why\n"}.items():
            with self.subTest(code):
                exits = self.write("exits.py", "import sys\nsys.argv, exited = [], %r\nsys.exit(%s)"
                                   % (code, code))
                deep = self.notebook("deep.ipynb", "%%run %s" % exits, "deep = exited")
                book = self.notebook("exits.ipynb", "%%run %s" % deep, "%%run %s" % exits,
                                     "import sys; sys.argv[1:], exited, deep")
                ended = self.worker.run_file(book, "kept")
                self.assertEqual(ended.done.get("result"), repr((["kept"], code, code)), ended)
                self.assertEqual(ended.err, ("%s: %s" % (exits, said)) * 2 if said else "")
        ended = self.worker.run_file(self.notebook("exit.ipynb", "import sys; sys.exit(4)", "1"))
        self.assertEqual((ended.done["end"], ended.done["code"]), ("exit", 4))

    def test_a_cell_that_is_expected_to_fail_ends_nothing(self) -> None:
        def tagged(source: str) -> dict[str, Any]:
            return {"cell_type": "code", "source": source,
                    "metadata": {"tags": ["raises-exception"]}}
        fails = self.write("fails2.py", "import sys; inner = sys.argv[1]; 1 / 0")
        book = self.notebook("tags.ipynb", tagged("x = 1\n1 / 0"), tagged("x = ("),
                             tagged("import sys; sys.exit('out')"), tagged("%%run %s a" % fails),
                             "x, inner, sys.argv[1:]")
        ended = self.worker.run_file(book, "kept")
        self.assertEqual(ended.done.get("result"), "(1, 'a', ['kept'])", ended)
        for said in ('cell 1", line 2', "SyntaxError: ", "out\n", 'fails2.py", line 1'):
            self.assertIn(said, ended.err)
        self.assertNotIn("scripts.py", ended.err)
        self.assertEqual(self.worker.run_file(self.notebook("last.ipynb", tagged("1 / 0")))
                         .done["end"], "returned")

    def test_a_run_that_is_not_known_here_says_so(self) -> None:
        for line, why in {"%run": "it needs the path of a file",
                          "%run -i": "it needs the path of a file",
                          "%run -t x.py": "of its options only -i is known here",
                          "%run x.py; y": "a line runs one file and nothing else; put the rest "
                                          "into a cell of its own"}.items():
            with self.subTest(line):
                path = self.notebook("runs.ipynb", line)
                self.assertEqual(self.worker.run_file(path).done["error"],
                                 "%s, cell 1: %s: %s" % (path, line, why))

    def test_an_export_may_await(self) -> None:
        text = "import asyncio\nfound = await asyncio.sleep(0, 5)\n"
        for more in "", "; sha256 of what follows: 0":  # which earlier versions wrote
            path = self.write("e.py", '# Session "a", exported by async-repl%s\n%s' % (more, text))
            self.assertEqual(self.worker.run_file(path).done["end"], "returned")
            self.assertEqual(self.worker.run("found").done["result"], "5")
        path = self.write("plain.py", "# Session\n" + text)
        self.assertIn("outside function", self.worker.run_file(path).done["error"])

    def test_it_says_which_files_have_run(self) -> None:
        inner, gone = self.write("inner.py", "x = 1"), self.directory / "gone.py"
        book = self.notebook("hashes.ipynb", "%%run %s" % inner, "%%run %s" % inner,
                             "%%run %s" % gone)
        self.assertEqual(self.worker.run_file(book).done["hashes"], {
            str(book): hashlib.sha256(book.read_bytes()).hexdigest(),
            str(inner): hashlib.sha256(b"x = 1").hexdigest(), str(gone): ""})
        self.assertNotIn("hashes", self.worker.run("1").done)
        many = self.notebook("many.ipynb", *["%%run %s" % self.write("m%d.py" % n, "")
                                             for n in range(250)])
        self.assertEqual(len(self.worker.run_file(many).done["hashes"]), 200)

    def test_an_error_in_a_cell_ends_it(self) -> None:
        path = self.notebook("fails.ipynb", "reached = 1", "x = 2\n1 / 0", "reached = 3")
        ended = self.worker.run_file(path)
        self.assertEqual(ended.done["error"], "ZeroDivisionError: division by zero")
        self.assertIn('fails.ipynb, cell 2", line 2, in <module>\n    1 / 0', ended.err)
        self.assertEqual(self.worker.run("reached").done["result"], "1")
        self.assertEqual(self.worker.run_file(self.notebook("none.ipynb")).done["end"], "returned")
        done = self.worker.run_file(self.notebook("magic.ipynb", "x = 1\n!ls")).done
        self.assertEqual((done["hint"], done["subject"]), ("no python", "!ls"))


if __name__ == "__main__":
    unittest.main()
