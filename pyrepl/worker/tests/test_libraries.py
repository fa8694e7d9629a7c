"""What libraries show, in an interpreter that has them; .ci/run makes one."""

from __future__ import annotations

import tempfile
import unittest
from importlib.util import find_spec

from .owner import Job, Result, Worker

GAP = "\u2026"


class LibraryTest(unittest.TestCase):
    library = ""
    setup = "import {0}"
    worker: Worker

    @classmethod
    def setUpClass(cls) -> None:
        if not cls.library or find_spec(cls.library) is None:
            raise unittest.SkipTest("this interpreter has no " + (cls.library or "library"))
        cls.worker = Worker()
        ended = cls.worker.run(cls.setup.format(cls.library))
        assert ended.done["end"] == "returned", ended

    @classmethod
    def tearDownClass(cls) -> None:
        cls.worker.close()

    def start(self, code: str) -> tuple[Job, Result]:
        job = self.worker.start(code)
        return job, job.end()

    def shows(self, code: str, *displays: str, result: str | None = None, out: str = "",
              left: int = 0) -> None:
        """Run code, which shows these displays and nothing else."""
        with self.subTest(code):
            job, ended = self.start(code)
            self.assertEqual((ended.done["end"], ended.err, ended.out), ("returned", "", out))
            self.assertEqual(self.seen(job), list(displays))
            if result is not None:
                self.assertEqual(ended.done.get("result"), result)
                self.assertIs(ended.done.get("markdown", False), result.startswith("| "))
            self.assertEqual(ended.done.get("displays_left", 0), left)

    def seen(self, job: Job) -> list[str]:
        """Return the displays of a job that are sound, in a line each."""
        lines = []
        for event in self.worker.displays(job):
            for item in event["items"]:
                self.assertEqual(len(item["data"]), item["size"])
            first = event["items"][0]
            if first["mime"].startswith("image/"):
                self.assertLessEqual(first["size"], 1 << 20)
            lines.append("%s: %s" % (event["label"], event["about"]))
        return lines


class TestJoblib(LibraryTest):
    library = "joblib"

    def test_memory_finds_what_an_earlier_worker_has_computed(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            code = ("import joblib\n@joblib.Memory(%r, verbose=0).cache\ndef f(x):\n"
                    "    print('computes')\n    return x\nf(2)") % directory
            runs = [self.worker.run(code) for _ in range(2)]
            later = Worker()
            self.addCleanup(later.close)
            runs.append(later.run(code))
        self.assertEqual([(run.out, run.err) for run in runs],
                         [("computes\n", ""), ("", ""), ("", "")])


class TestMatplotlib(LibraryTest):
    library = "matplotlib"
    setup = "import matplotlib.pyplot as plt\nplt.rcParams['figure.max_open_warning'] = 0"
    ONE = "figure 1: PNG 640x480"
    TWO = "figure 2: PNG 640x480"

    def test_each_figure_is_shown_once_and_closed(self) -> None:
        for code in [
            "plt.plot([1, 3, 2]); None",
            "plt.plot([1]); plt.show()",
            "plt.plot([1]); plt.show(block=False); plt.close()",
            "fig, ax = plt.subplots(); ax.plot([1]); fig.savefig('/dev/null', format='png')",
            "fig = plt.figure(); fig.add_subplot(); display_figure(fig)",
            "fig, ax = plt.subplots(); display(fig)",
            "fig, ax = plt.subplots(); display_figure(ax)",
            "plt.ion(); plt.plot([1]); plt.ioff(); None",
            "for n in range(5): plt.plot([n]); plt.pause(0.001)",
            "fig = plt.Figure(); fig.text(0, 0, 'x'); fig",
            "plt.figure().subfigures(1, 2)[0].subplots().plot([1]); None",
        ]:
            self.shows(code, self.ONE)
            self.shows("plt.get_fignums()", result="[]")

    def test_what_changes_is_shown_again(self) -> None:
        self.shows("plt.plot([1]); display_figure(); plt.title('x'); None", self.ONE, self.TWO)
        self.shows("plt.plot([1]); plt.show(); plt.plot([2]); plt.show()", self.ONE, self.TWO)
        self.shows("plt.figure(); plt.plot([1]); plt.figure(); plt.plot([2]); None",
                   self.ONE, self.TWO)

    def test_what_is_closed_or_empty_is_not_shown(self) -> None:
        self.shows("plt.plot([1]); plt.savefig('/dev/null', format='png'); plt.close()")
        self.shows("plt.figure(); None")
        self.shows("1", result="1")
        self.shows("plt.figure(); plt.show(); plt.get_fignums()", result="[]",
                   out="<Figure size 640x480 with 0 Axes>\n")
        self.shows("plt.plot([1]); plt.show(); plt.savefig('/dev/null', format='png')", self.ONE)

    def test_after_an_error_it_is_shown_in_the_same_job(self) -> None:
        for code in ("plt.plot([1]); 1 / 0", "plt.plot([1]); raise SystemExit(3)",
                     "plt.plot([1]); raise KeyboardInterrupt"):
            with self.subTest(code):
                job, ended = self.start(code)
                self.assertNotEqual(ended.done["end"], "returned")
                self.assertEqual(self.seen(job), [self.ONE])
            self.shows("1")

    def test_after_an_interrupt_too(self) -> None:
        job = self.worker.start("plt.plot([1]); print('on', flush=True)\nwhile True: pass")
        job.prints("on")
        self.assertTrue(self.worker.interrupt_to_the_end(job).done["interrupted"])
        self.assertEqual(self.seen(job), [self.ONE])
        self.shows("1")

    def test_a_figure_that_hangs_is_given_up(self) -> None:
        hang = ("from matplotlib.artist import Artist\nclass Hanging(Artist):\n"
                "    def draw(self, renderer):\n        print('on', flush=True)\n"
                "        while True: pass\n"
                "fig = plt.figure(); fig.add_artist(Hanging()); plt.figure(); plt.plot([1]); ")
        for end in ("None", "plt.show()", "fig", "print('on', flush=True)\nwhile True: pass"):
            with self.subTest(end):  # the last one hangs twice
                job = self.worker.start(hang + end)
                job.prints("on")
                ended = self.worker.interrupt_to_the_end(job)
                self.assertEqual(ended.done["error"], "KeyboardInterrupt")
                self.shows("plt.get_fignums()", result="[]")

    def test_a_figure_that_cannot_be_drawn(self) -> None:
        job, ended = self.start("plt.title('$\\\\frac{$'); plt.plot([1])\nNone")
        self.assertEqual((ended.done["end"], self.seen(job)), ("returned", []))
        self.assertEqual(ended.out, "<Figure size 640x480 with 1 Axes>\n")
        self.assertIn("display: Figure can't be shown: ValueError", ended.err)
        self.shows("1")

    def test_large_figures(self) -> None:
        self.shows("plt.figure(figsize=(300, 300)); plt.plot([1]); None",
                   "figure 1: PNG 1568x1568 of 30000x30000, full size not kept")
        self.shows("plt.figure(figsize=(20, 10)); plt.plot([1]); None",
                   "figure 1: PNG 1568x784 of 2000x1000")
        event = self.worker.displays(self.worker.jobs[-1])[0]
        self.assertEqual([item["mime"] for item in event["items"]], ["image/png"] * 2)
        job, _ = self.start("plt.rcParams['savefig.bbox'] = 'tight'\n"
                            "plt.figure(figsize=(15.6, 2)).add_subplot().text(1.3, 0.5, 'x'); None")
        self.worker.run("plt.rcParams['savefig.bbox'] = None")
        line, = self.seen(job)
        width = int(line.partition("PNG ")[2].partition("x")[0])
        self.assertTrue(1500 < width <= 1568, line)
        job, _ = self.start("import numpy; plt.figure(figsize=(16, 16))\n"
                            "plt.imshow(numpy.random.rand(1600, 1600, 3)); None")
        first = self.worker.displays(job)[0]["items"][0]
        self.assertEqual(first["mime"], "image/jpeg")
        self.assertEqual(len(self.seen(job)), 1)

    def test_too_many_figures_are_counted(self) -> None:
        self.shows("line = plt.Line2D\nfor n in range(102):\n"
                   "    plt.figure(figsize=(1, 1)).add_artist(line([0, 1], [0, 1]))\n"
                   "    if n % 50 == 0: plt.show()",
                   *["figure %d: PNG 100x100" % n for n in range(1, 101)], left=2)
        self.shows("plt.get_fignums()", result="[]")

    def test_threads(self) -> None:
        self.shows("import threading\ngo = threading.Event()\n"
                   "def draw(): plt.figure(); plt.plot([1])\ndef late(): go.wait(); draw()\n"
                   "now = threading.Thread(target=draw); now.start(); now.join()\n"
                   "thread = threading.Thread(target=late); thread.start()", self.ONE)
        self.shows("go.set(); thread.join(); plt.get_fignums()", result="[1]")  # not of this job
        self.shows("plt.show()", self.ONE)

    def test_forked_children_show_nothing(self) -> None:
        self.shows("import os\nplt.plot([1])\nif os.fork() == 0: plt.plot([2]); plt.close()\n"
                   "else: os.wait()", self.ONE)

    def test_the_backend_is_chosen_by_the_user_or_is_agg(self) -> None:
        self.shows("plt.get_backend()", result="'agg'")
        worker = Worker()
        self.addCleanup(worker.close)
        worker.run("import os; os.environ['MPLBACKEND'] = 'svg'\nimport matplotlib.pyplot as plt")
        self.assertEqual(worker.run("plt.get_backend()").done["result"], "'svg'")
        job = worker.start("plt.plot([1]); plt.show()")
        job.end()
        self.assertEqual(self.worker_seen(worker, job), [self.ONE])

    def worker_seen(self, worker: Worker, job: Job) -> list[str]:
        return ["%s: %s" % (e["label"], e["about"]) for e in worker.displays(job)]


class TestPillow(LibraryTest):
    library = "PIL"
    setup = "from PIL import Image"

    def test_modes_and_sizes(self) -> None:
        for mode in "1 L LA P RGB RGBA CMYK YCbCr LAB HSV I F I;16 PA".split():
            self.shows("Image.new(%r, (20, 10))" % mode, "image 1: PNG 20x10")
        self.shows("Image.new('RGB', (4000, 3000))", "image 1: PNG 1568x1176 of 4000x3000")
        self.shows("Image.new('P', (9000, 10))", "image 1: PNG 1568x1 of 9000x10")
        self.shows("Image.effect_noise((1500, 1500), 90)", "image 1: JPEG 1500x1500")
        event = self.worker.displays(self.worker.jobs[-1])[0]
        self.assertEqual([item["mime"] for item in event["items"]], ["image/jpeg", "image/png"])

    def test_show_opens_nothing(self) -> None:
        self.shows("Image.new('RGB', (2, 1)).show(title='x')", "image 1: PNG 2x1")

    def test_an_image_that_is_none(self) -> None:
        job, ended = self.start("Image.new('RGB', (0, 5))")
        self.assertEqual((ended.done["end"], self.seen(job)), ("returned", []))
        self.assertIn("display: Image can't be shown", ended.err)


class TestPandas(LibraryTest):
    library = "pandas"
    setup = "import pandas as pd"

    def test_frames_are_compact_tables(self) -> None:
        self.shows("pd.DataFrame({'a': [1, 2], 'b': [0.1 + 0.2, None], 'c': ['x|y', 'z' * 50]})",
                   result="|  | a (int64) | b (float64) | c (%s) |\n| --- | --- | --- | --- |\n"
                          "| 0 | 1 | 0.3 | x\\|y |\n| 1 | 2 | nan | %s\u2026 |\n"
                          "[2 rows x 3 columns]" % (self.text_type(), "z" * 39))
        _, ended = self.start("pd.DataFrame({'c%d' % n: range(1000) for n in range(30)})")
        lines = ended.done["result"].split("\n")
        self.assertEqual(len(lines), 2 + 11 + 1)
        self.assertEqual({line.count(" | ") for line in lines[:-1]}, {13})
        self.assertIn("| c5 (int64) | \u2026 | c24 (int64) |", lines[0])
        self.assertEqual(lines[-1], "[1000 rows x 30 columns]")

    def text_type(self) -> str:
        done = self.worker.run("print(pd.Series(['x']).dtype)")
        return done.out.strip()

    def test_series_and_odd_frames(self) -> None:
        self.shows("pd.Series([1, 2], name='s')",
                   result="|  | s (int64) |\n| --- | --- |\n| 0 | 1 |\n| 1 | 2 |\n[2 rows]")
        self.shows("pd.DataFrame()", result="|  |\n| --- |\n[0 rows x 0 columns]")
        self.shows("pd.DataFrame({('a', 'b'): [1]}, index=pd.MultiIndex.from_tuples("
                   "[('x', 2)], names=['m', 'n']))",
                   result="| m, n | a, b (int64) |\n| --- | --- |\n| x, 2 | 1 |\n"
                          "[1 rows x 1 columns]")
        self.shows("pd.DataFrame([[1, 2]], columns=['a', 'a'])",
                   result="|  | a (int64) | a (int64) |\n| --- | --- | --- |\n| 0 | 1 | 2 |\n"
                          "[1 rows x 2 columns]")
        self.shows("pd.DataFrame({'a': [[1] * 99, 'x\\ny']})",
                   result="|  | a (object) |\n| --- | --- |\n"
                          "| 0 | [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,\u2026 |\n| 1 | x\\ny |\n"
                          "[2 rows x 1 columns]")
        self.shows("display(pd.Series([1.5]))",
                   out="|  |  (float64) |\n| --- | --- |\n| 0 | 1.5 |\n[1 rows]\n")

    def cells(self, values: str) -> list[str]:
        """Return the cells of a column of a frame."""
        _, ended = self.start("pd.DataFrame({'a': %s})" % values)
        rows = ended.done["result"].split("\n")[2:-1]
        return [row[2:-2].split(" | ")[1] for row in rows]

    def test_cells_keep_what_they_show(self) -> None:
        family, persian = "\U0001f468\u200d\U0001f469", "\u0645\u06cc\u200c\u062e"
        for value, want in {
            "a\nb\tc\rd\0e\x1b[1mf\x85\u2028g": "a\\nb\\tc\\rd\\x00e\\x1b[1mf\\x85\\u2028g",
            "\u202eevil\ufeff": "\\u202eevil\\ufeff",
            family: family, persian: persian, "\u6771\u3000\u4eac\xa0x": "\u6771\u3000\u4eac\xa0x",
            "\U000e0001": "\\U000e0001", "x" * 40: "x" * 40, "x" * 41: "x" * 39 + "\u2026",
            "x" * 38 + "\n": "x" * 38 + "\\n", "x" * 39 + "\n": "x" * 39 + "\u2026",
            "x" * 38 + "\u200dyz": "x" * 38 + "\u2026",
        }.items():
            with self.subTest(value):
                self.assertEqual(self.cells(repr([value])), [want])
        self.assertEqual(self.cells("[{'k': 'a\\nb'}]"), ["{'k': 'a\\nb'}"])
        self.assertEqual(self.cells("[b'a\\nb']"), ["b'a\\nb'"])
        self.assertEqual(self.cells("[1 / 3, 1e-9 / 3]"), ["0.333333", "3.333333333e-10"])

    def test_a_backslash_is_not_taken_for_an_escape(self) -> None:
        for value, want in {
            r"C:\new": r"C:\\new", "C:\new": r"C:\new", "\\\n": r"\\\n", r"\\n": r"\\\\n",
            r"\t": r"\\t", r"\r": r"\\r", r"\x1b": r"\\x1b", "\x1b": r"\x1b",
            r"\u2028": r"\\u2028", r"\U000e0001": r"\\U000e0001", r"x\|y": r"x\\\|y",
            # Pandas shows these as they are, and so do we.
            r"C:\Users\data": r"C:\Users\data", r"\\server\etc": r"\\server\etc",
            r"\d+\.\w": r"\d+\.\w", r"\xyz \u12": r"\xyz \u12", "end\\": "end\\", r"\\": r"\\",
            "x" * 36 + r"\new": "x" * 36 + "\\\\n\u2026", "x" * 39 + r"\new": "x" * 39 + "\u2026",
        }.items():
            with self.subTest(value):
                self.assertEqual(self.cells(repr([value])), [want])
        self.shows(r"pd.DataFrame({r'\name': [1]}, index=[r'\top'])",
                   result="|  | \\\\name (int64) |\n| --- | --- |\n| \\\\top | 1 |\n"
                          "[1 rows x 1 columns]")

    def test_the_number_of_columns_is_obeyed(self) -> None:
        self.addCleanup(self.worker.run, "pd.reset_option('display.max_columns')")
        for most, want in {1: ["c0", GAP], 2: ["c0", GAP, "c29"], 3: ["c0", "c1", GAP, "c29"],
                           20: ["c%d" % n for n in range(10)] + [GAP]
                               + ["c%d" % n for n in range(20, 30)],
                           30: ["c%d" % n for n in range(30)],
                           None: ["c%d" % n for n in range(30)],
                           0: ["c%d" % n for n in range(6)] + [GAP]
                              + ["c%d" % n for n in range(24, 30)]}.items():
            with self.subTest(most):
                self.worker.run("pd.set_option('display.max_columns', %s)" % most)
                _, ended = self.start("pd.DataFrame({'c%d' % n: range(99) for n in range(30)})")
                lines = ended.done["result"].split("\n")
                self.assertEqual(lines[0].replace(" (int64)", ""), "|  | %s |" % " | ".join(want))
                self.assertEqual({line.count(" | ") for line in lines[:-1]}, {len(want)})
                self.assertEqual(lines[-1], "[99 rows x 30 columns]")

    def test_the_width_of_columns_is_obeyed(self) -> None:
        for width, want in {5: "xxxx\u2026", 45: "x" * 44 + "\u2026", 100: "x" * 60,
                            None: "x" * 60}.items():
            with self.subTest(width):
                self.worker.run("pd.set_option('display.max_colwidth', %s)" % width)
                self.addCleanup(self.worker.run, "pd.reset_option('display.max_colwidth')")
                self.assertEqual(self.cells("['x' * 60]"), [want])
        self.worker.run("pd.set_option('display.max_colwidth', 3)")
        self.shows("pd.Series(['xyzzy'], index=['abcde'])",
                   result="|  |  (%s) |\n| --- | --- |\n| abcde | xy\u2026 |\n[1 rows]"
                          % self.text_type())

    def test_who_sets_options_sees_them(self) -> None:
        self.shows("with pd.option_context('display.precision', 2): display(pd.Series([1.2345]))",
                   out="0    1.23\ndtype: float64\n")

    def test_classes_that_say_how_they_are_shown(self) -> None:
        self.shows("class Mine(pd.DataFrame):\n    def __repr__(self): return 'mine'\nMine()",
                   "html 1: HTML %d bytes" % len(self.html()), result="mine")

    def html(self) -> str:
        self.worker.run("print(pd.DataFrame()._repr_html_(), end='')")
        return self.worker.run("print(pd.DataFrame()._repr_html_(), end='')").out


class TestPlotly(LibraryTest):
    library = "plotly"
    setup = "import plotly.graph_objects as go; fig = go.Figure([go.Bar(y=[1])])"

    def test_figures_are_kept_as_json(self) -> None:
        if find_spec("kaleido"):
            self.skipTest("kaleido draws them")
        for code in ("fig.show()", "fig", "fig.show(renderer='browser')",
                     "import plotly.io as pio; pio.show(fig.to_dict())"):
            with self.subTest(code):
                job, ended = self.start(code)
                self.assertEqual((ended.done["end"], ended.err, ended.out), ("returned", "", ""))
                line, = self.seen(job)
                self.assertRegex(line, r"^plot 1: plotly JSON [\d.]+ (KiB|bytes), traces: bar$")
        self.shows("repr(fig) != ''", result="True")


class TestTqdm(LibraryTest):
    library = "tqdm"
    setup = "from tqdm.notebook import tqdm, trange"

    def test_bars_of_a_notebook_are_text(self) -> None:
        for code in ("for n in tqdm(range(3), desc='rows'): pass",
                     "for n in trange(3, desc='rows', ncols='100%'): pass",
                     "with tqdm(total=3, desc='rows', display=False) as bar: bar.update(3)",
                     "import tqdm.auto\nfor n in tqdm.auto.tqdm(range(3), desc='rows'): pass"):
            with self.subTest(code):
                job, ended = self.start(code)
                self.assertEqual((ended.done["end"], ended.out, self.seen(job)),
                                 ("returned", "", []), ended)
                self.assertRegex(ended.err, r"\rrows: 100%\|\S{10}\| 3/3 \[")


class TestRich(LibraryTest):
    library = "rich"
    setup = "from rich.progress import Progress, track\nfrom rich.console import Console"

    def test_bars_are_drawn_while_they_change(self) -> None:
        for code in (
                "with Progress() as bar:\n    task = bar.add_task('rows', total=2)\n"
                "    bar.update(task, completed=1, refresh=True)\n    print('between')\n"
                "    bar.update(task, completed=2)",
                "for n in track([1, 2], 'rows', auto_refresh=False):\n"
                "    n == 2 and print('between')",
                "with Progress(console=Console()) as bar:\n    task = bar.add_task('rows', total=2)\n"
                "    bar.update(task, completed=1, refresh=True)\n"
                "    bar.console.print('[red]between[/]')\n    bar.update(task, completed=2)"):
            with self.subTest(code):
                _, ended = self.start(code)
                self.assertEqual((ended.done["end"], ended.err), ("returned", ""), ended)
                self.assertRegex(ended.out, r"(?s)rows [^\r\n]* 50% .*\r\x1b\[2Kbetween\n.* 100% ")
                self.assertNotIn("\x1b[3", ended.out)  # no colors

    def test_other_output_stays_plain(self) -> None:
        plain = "Console().print('[bold red]a[/]')"
        bar = "with Progress() as bar: bar.add_task('rows', total=1)\n"
        for code in (plain, bar + "import rich; rich.print('[bold red]a[/]')", bar + plain,
                     "with Progress(disable=True): " + plain):
            with self.subTest(code):
                _, ended = self.start(code)
                self.assertTrue(ended.out.endswith("a\n"), ended)
                self.assertNotIn("\x1b[1", ended.out)
        self.assertEqual(self.worker.run(bar + "bar.console.is_terminal").done["result"], "False")
        self.assertNotIn("\r", self.worker.run(
            "import io\nout = io.StringIO()\n"
            "with Progress(console=Console(file=out)) as bar: bar.add_task('rows', total=1)\n"
            "print(out.getvalue())").out)


class TestIPython(LibraryTest):
    library = "IPython"
    setup = "from IPython.display import *"

    def test_its_display_works_without_its_shell(self) -> None:
        self.shows("display(HTML('<b>1</b>'), Markdown('*m*'), Latex('$x$'), SVG('<svg/>'))",
                   "html 1: HTML 8 bytes", "svg 2: SVG 6 bytes", out="*m*\n$x$\n")
        self.shows("display({'text/plain': 'p', 'text/html': '<b>1</b>'}, raw=True)",
                   "html 1: HTML 8 bytes", out="p\n")
        self.shows("display(HTML('<b>1</b>'), exclude=['text/html', 'text/plain'])")
        self.shows("shown = display(1, display_id=True); shown.update(2)", out="1\n2\n")

    def test_its_clear_output_replaces_what_was_shown(self) -> None:
        for code, *clears in [
            ("clear_output()", "now"), ("clear_output(wait=True)", "wait"),
            ("clear_output(True)", "wait"), ("display(1, clear=True)", "wait"),
            ("shown = display(1, display_id=True); shown.update(2, clear=True)", "wait"),
            ("import IPython.display as d; d.clear_output()", "now"),
        ]:
            with self.subTest(code):
                job, ended = self.start("print('x')\n" + code)
                self.assertEqual((ended.done["end"], ended.err), ("returned", ""), ended)
                self.assertEqual([e["clear"] for e in self.worker.displays(job)], clears)
                self.assertNotIn("\x1b", ended.out)


if __name__ == "__main__":
    unittest.main()
