"""What jobs show besides text: pictures and documents, by the methods that Jupyter knows."""

from __future__ import annotations

import select
import signal
import unittest

from .. import images
from .owner import PATIENCE, Job, Worker

# In a worker: PNGs of any size, and a class with any methods.
SETUP = """
import os, struct, zlib
def chunk(kind, data):
    return struct.pack('>I', len(data)) + kind + data + struct.pack('>I', zlib.crc32(kind + data))
def png(width=2, height=2, noise=0):
    rows = (b'\\0' + os.urandom(width)) * height if noise else bytes((width + 1) * height)
    head = struct.pack('>IIBBBBB', width, height, 8, 0, 0, 0, 0)
    return (b'\\x89PNG\\r\\n\\x1a\\n' + chunk(b'IHDR', head)
            + chunk(b'IDAT', zlib.compress(rows, 0 if noise else 6)) + chunk(b'IEND', b''))
def of(**methods):
    return type('C', (), {
        '_repr_%s_' % name: (value if callable(value) else lambda self, value=value: value)
        for name, value in methods.items()})()
"""
SMALL_BUFFER = """
import os, socket, stat
SIZE = socket.SO_SNDBUF
for fd in range(3, 1024):
    try:
        if stat.S_ISSOCK(os.fstat(fd).st_mode): break
    except OSError: continue
sock = socket.socket(fileno=os.dup(fd))
size = sock.getsockopt(socket.SOL_SOCKET, SIZE)
sock.setsockopt(socket.SOL_SOCKET, SIZE, 1)
"""
JPEG = (b"\xff\xd8\xff\xe0\x00\x04ab\xff\xc4\x00\x02\xff\xc0\x00\x0b\x08\x00\x03\x00\x05\x01"
        b"\x11\x00\xff\xd9")


class TestDisplays(unittest.TestCase):
    worker: Worker

    @classmethod
    def setUpClass(cls) -> None:
        cls.worker = Worker()
        cls.worker.run(SETUP)

    @classmethod
    def tearDownClass(cls) -> None:
        cls.worker.close()

    def shows(self, code: str) -> tuple[str | None, str, list[str]]:
        """Run code, and return its result, what it printed, and its displays in a line each."""
        job = self.worker.start(code)
        ended = job.end()
        self.assertEqual((ended.done["end"], ended.err), ("returned", ""), code)
        shown = []
        for event in self.worker.displays(job):
            for item in event["items"]:
                self.assertEqual(len(item["data"]), item["size"])
            mimes = [item["mime"] for item in event["items"]]
            line = "%s: %s: %s" % (event["label"], event["about"], ", ".join(mimes))
            shown.append(line + ", quiet" * event["quiet"])
        return ended.done.get("result"), ended.out, shown

    def test_a_result_in_markdown_is_known(self) -> None:
        code = "class Said:\n    def _repr_markdown_(self): return '*a*'\n"
        for last, markdown in {"Said()": True, "1": None, "Said(); 1": None, "Said(); x = 2": None,
                               "display(Said())": None}.items():
            with self.subTest(last):
                done = self.worker.run(code + last).done
                self.assertEqual(done.get("markdown"), markdown, done)

    def test_values_say_how_they_are_shown(self) -> None:
        png, html = "image 1: PNG 2x2: image/png", "html 1: HTML 8 bytes: text/html"
        quiet = html + ", quiet"
        for values, result, out, display in [
            ("png=png()", None, "", png),
            ("png=(png(), {'width': 1})", None, "", png),
            ("jpeg=%r" % JPEG, None, "", "image 1: JPEG 5x3: image/jpeg"),
            ("png=png(), markdown='*m*', html='<b>1</b>'", None, "", png),
            ("markdown='*m*', html='<b>1</b>'", "*m*", "*m*\n", ""),
            ("html='<b>1</b>'", None, "", html),
            ("svg='<svg/>', html='<b>1</b>'", None, "", "svg 1: SVG 6 bytes: image/svg+xml"),
            ("latex='$x$'", "$x$", "$x$\n", ""),
            ("json={'a': [1]}", '{"a": [1]}', '{"a": [1]}\n', ""),
            ("png=None, html='<b>1</b>'", None, "", html),
            ("mimebundle=lambda self: {'text/plain': 'p', 'text/html': '<b>1</b>'}", "p", "p\n",
             quiet),
            ("mimebundle=lambda self: ({'image/png': png()}, {})", None, "", png),
            ("mimebundle=lambda self: {'application/vnd.x+json': {'a': 1}, 'text/plain': 'p'}",
             "p", "p\n", "json 1: JSON 8 bytes: application/vnd.x+json"),
            ("mimebundle=lambda self: None, html='<b>1</b>'", None, "", html),
            ("html='<b>1</b>', mimebundle=lambda self: {'text/plain': 'p'}", "p", "p\n", quiet),
        ]:
            with self.subTest(values):
                want = [display] if display else []
                self.assertEqual(self.shows("value = of(%s); value" % values), (result, "", want))
                self.assertEqual(self.shows("display(value)"), (None, out, want))

    def test_a_repr_with_more_than_a_name_is_text(self) -> None:
        self.shows("def named(text, **methods):\n    value = of(html='<b>1</b>', **methods)\n"
                   "    type(value).__repr__ = lambda self: text\n    return value")
        html = ["html 1: HTML 8 bytes: text/html"]
        quiet = [html[0] + ", quiet"]
        for text, shown in (("<class 'Summary'>\n\"\"\"\n  OLS\n\"\"\"", None), ("Summary()", None),
                            ("<Summary object at 0x1>", "$x$"), ("<Summary>\n", "$x$")):
            with self.subTest(text):
                value, want = "named(%r, latex='$x$')" % text, shown or text
                self.assertEqual(self.shows(value), (want, "", quiet))
                self.assertEqual(self.shows("display(%s)" % value), (None, want + "\n", quiet))
        self.assertEqual(self.shows("named('<Data> 9 bytes\\nx: 1')"),
                         ("<Data> 9 bytes\nx: 1", "", quiet))
        self.assertEqual(self.shows("named('<HTML object>')"), (None, "", html))

    def test_html_that_says_more_than_text_has_a_line(self) -> None:
        text = "type(value).__repr__ = lambda self: 'Plot'"
        for html in "<p>", "<p><script>x", "<img src=x>", "<div><svg>":
            with self.subTest(html):
                shown = self.shows("value = of(html=%r); %s; value" % (html, text))
                self.assertEqual((shown[0], shown[2][0].endswith(", quiet")), ("Plot", html == "<p>"))
        code = "value = of(html='<script>'); %s; type(value).__module__ = 'sklearn.tree'; value" % text
        self.assertTrue(self.shows(code)[2][0].endswith(", quiet"))

    def test_text_is_printed_as_it_is(self) -> None:
        self.assertEqual(self.shows("display(1, 'a', [2])"), (None, "1\n'a'\n[2]\n", []))
        self.assertEqual(self.shows("display(of)")[2], [])

    def test_display_takes_what_that_of_ipython_takes(self) -> None:
        self.worker.run("both = of(png=png(), html='<b>1</b>')\n"
                        "mixed = of(mimebundle=lambda self: {'text/html': 'h', 'text/plain': 'p'})")
        png, html = "image 1: PNG 2x2: image/png", "html 1: HTML 8 bytes: text/html"
        for code, out, *displays in [
            ("display(both, include=['image/png'])", "", png),
            ("display(both, include=['text/html'])", "", html),
            ("display(both, include='text/html')", "", html),
            ("display(both, exclude=iter(['image/png', 'text/plain']))", "", html),
            ("display(both, 5, include=['text/markdown'])", ""),
            ("display(5, include=['text/plain'])", "5\n"),
            ("display(mixed, include=['text/plain'])", "p\n"),
            ("display(mixed, exclude=['text/plain'])", "", "html 1: HTML 1 bytes: text/html"),
            ("display({'text/html': '<b>1</b>'}, raw=True)", "", html),
            ("display({'text/plain': 'p', 'text/html': '<b>1</b>'}, raw=True)", "p\n",
             html + ", quiet"),
            ("display({}, raw=True)", ""),
            ("display(1, metadata={'a': 1}, transient={})", "1\n"),
            ("shown = display(1, display_id=True); shown.update(2); shown.display(3)",
             "1\n2\n3\n"),
            ("assert display(1, display_id='a').display_id == 'a'", "1\n"),
        ]:
            with self.subTest(code):
                self.assertEqual(self.shows(code), (None, out, displays))
        self.assertIn("TypeError", self.worker.run("display(1, other=1)").done["error"])

    def test_a_class_is_not_asked_as_its_objects_are(self) -> None:
        self.assertEqual(self.shows("type(of(png=png()))"), ("<class '__main__.C'>", "", []))

    def test_displays_stand_behind_what_was_printed(self) -> None:
        job = self.worker.start("print('before'); display(of(png=png())); input()")
        self.worker.event("display", job.id)
        job.read()
        self.assertEqual(job.texts[1], b"before\n")
        self.worker.send("input", n=self.worker.event("input", job.id)["n"], line="x\n")
        job.end()

    def test_what_is_wrong_with_a_value_falls_back_to_text(self) -> None:
        for values, why in {
            "png=b'nope'": "the data is no PNG",
            "png=png()[:-4]": "the PNG is damaged",
            "png=17": "TypeError",
            "png='nope!'": "Error",
            "jpeg=png()": "the data is no JPEG",
            "png=bytes((8 << 20) + 1)": "it has 8,388,609 bytes, and at most 8 MiB can be kept",
            "png='x' * (1 << 25)": "it has 33,554,432 characters, and at most 8 MiB can be kept",
            "html='x' * ((8 << 20) + 1)": "it has 8,388,609 characters, and at most 8 MiB",
            "html='\u20ac' * (4 << 20)": "it has 12,582,912 bytes, and at most 8 MiB can be kept",
            "html=5": "text/html can't be shown: TypeError: it is int, not text",
            "mimebundle={'image/svg+xml': ['s']}": "TypeError: it is list, not text",
            "mimebundle={'application/pdf': 7}": "application/pdf can't be shown: TypeError",
            "html=lambda self: open('/none')": "FileNotFoundError: No such file or directory",
            "mimebundle=[1]": "a bundle must be a dict, not list",
            "mimebundle={'image/png': 3}": "TypeError",
            "html=lambda self: 1 / 0": "_repr_html_ of C can't be shown: ZeroDivisionError: div",
            "png=lambda self, more: 1": "TypeError",
        }.items():
            with self.subTest(values):
                job = self.worker.start("value = of(%s); value" % values)
                ended = job.end()
                self.assertEqual(ended.done["end"], "returned", ended)
                self.assertTrue(ended.done["result"].startswith("<__main__.C object"), ended)
                self.assertEqual(self.worker.displays(job), [])
                self.assertIn(why, ended.err)
                self.assertEqual(ended.err.count("\n"), 1)

    def test_what_is_damaged_is_passed_over(self) -> None:
        html, gif = "html 1: HTML 8 bytes: text/html", "gif 1: GIF 6 bytes: image/gif"
        for values, whys, *displays in [
            ("png=png()[:-4], html='<b>1</b>'", ["the PNG is damaged"], html),
            ("png=b'nope', jpeg=%r" % JPEG, ["no PNG"], "image 1: JPEG 5x3: image/jpeg"),
            ("jpeg=png(), mimebundle={'image/jpeg': b'x', 'image/gif': b'GIF89a'}",
             ["image/jpeg can't be shown: ValueError: the data is no JPEG"] * 2, gif),
            ("mimebundle={'image/png': 'nope!', 'image/gif': 'R0lGODlh'}", ["Error"], gif),
            ("mimebundle={'text/html': '<b>1</b>', 'image/gif': b'GIF89a'}", [], gif),
            ("mimebundle={'image/gif': 'x', 'text/html': '<b>1</b>'}", ["image/gif"], html),
            ("mimebundle={'application/pdf': b'%PDF-', 'image/png': b''}", ["no PNG"],
             "pdf 1: PDF 5 bytes: application/pdf"),
            ("html=5, mimebundle={'application/vnd.x+json': {}}", ["int, not text"],
             "json 1: JSON 2 bytes: application/vnd.x+json"),
            ("mimebundle={'audio/wav': b'RIFF'}", [], "wav 1: WAV 4 bytes: audio/wav"),
            ("png=b'', latex='$x$'", ["no PNG"]),
            ("mimebundle={'image/png': b'', 'text/plain': '$x$'}", ["no PNG"]),
            ("mimebundle={'image/png': b'', 'text/markdown': '$x$', 'text/html': 'h'}", ["no PNG"]),
        ]:
            with self.subTest(values):
                job = self.worker.start("value = of(%s); value" % values)
                ended = job.end()
                lines = ended.err.splitlines()
                self.assertEqual(len(lines), len(whys), ended)
                for line, why in zip(lines, whys):
                    self.assertIn(why, line)
                self.assertEqual([
                    "%s: %s: %s" % (event["label"], event["about"], event["items"][0]["mime"])
                    for event in self.worker.displays(job)], displays)
                if not displays:
                    self.assertEqual(ended.done["result"], "$x$")

    def test_the_largest_item_is_kept(self) -> None:
        self.assertEqual(self.shows("display(of(html='x' * (8 << 20)))")[2],
                         ["html 1: HTML 8.0 MiB: text/html"])

    def test_plots_are_drawn_or_else_kept_as_json(self) -> None:
        self.worker.run(
            "import sys, tempfile, types\ndirectory = tempfile.mkdtemp()\n"
            "open(directory + '/kaleido.py', 'w').close()\nsys.path.append(directory)\n"
            "fails = []\n"
            "class BaseFigure:\n"
            "    __module__ = 'plotly.basedatatypes'\n"
            "    data = [types.SimpleNamespace(type='bar')] * 2\n"
            "    layout = types.SimpleNamespace(width=3136, height=None)\n"
            "    def to_image(self, format, scale):\n"
            "        if fails: fails.append(1); raise OSError('no browser')\n"
            "        return png(int(3136 * scale), int(500 * scale))\n"
            "    def to_json(self): return '{}'\n"
            "class Figure(BaseFigure): pass\nplot = Figure()")
        self.assertEqual(self.shows("plot"),
                         (None, "", ["plot 1: PNG 1568x250 of 3136x500: image/png"]))
        self.assertEqual(self.shows("display(plot)")[1], "")
        job = self.worker.start("fails.append(1); display(plot, plot); len(fails)")
        ended = job.end()
        self.assertEqual(ended.done["result"], "2")  # it is tried once
        self.assertEqual(ended.err.count("can't be shown: OSError: no browser"), 1)
        self.assertEqual([e["about"] for e in self.worker.displays(job)],
                         ["plotly JSON 2 bytes, traces: bar, bar"] * 2)

    def test_a_long_text_is_cut(self) -> None:
        result, _, _ = self.shows("of(markdown='m' * (1 << 21))")
        self.assertEqual(len(result or ""), 1 << 20)
        _, out, _ = self.shows("display(of(markdown='m' * (1 << 21)))")
        self.assertEqual(out, "m" * (1 << 20) + "\n[1048576 more characters]\n")

    def test_a_repr_that_hangs_is_interrupted(self) -> None:
        for method in ("png", "mimebundle", "html", "latex"):
            for call in ("value", "display(value)"):
                with self.subTest(method, call=call):
                    job = self.worker.start(
                        "def hang(self):\n    print('on', flush=True)\n    while True: pass\n"
                        "value = of(%s=hang); %s" % (method, call))
                    job.prints("on")
                    done = self.worker.interrupt_to_the_end(job).done
                    self.assertEqual((done["end"], done.get("error")),
                                     ("raised", "KeyboardInterrupt"))
        self.assertEqual(self.worker.run("1").done["result"], "1")

    def test_large_data_travels_as_descriptors(self) -> None:
        before = self.worker.run("len(os.listdir('/dev/fd'))").done["result"]
        self.worker.run("pictures = [png(300, 300, noise=1), png(1200, 800, noise=1)]")
        job = self.worker.start("for each in pictures: display(of(png=each))\n"
                                "[len(each) for each in pictures]")
        sizes = job.end().done["result"]
        events = self.worker.displays(job)
        self.assertEqual([event["fds"] for event in events], [2, 2])
        self.assertEqual(str([len(event["items"][0]["data"]) for event in events]), sizes)
        for event in events:
            images.png_size(event["items"][0]["data"])
        self.assertEqual(self.worker.run("len(os.listdir('/dev/fd'))").done["result"], before)

    def test_a_picture_that_is_too_large_is_kept_and_not_seen(self) -> None:
        for size, about in (
                ("2000, 10", "PNG 2000x10, not shown: more than 1568 pixels a side"),
                ("1500, 1500, 1", "PNG 1500x1500, not shown: more than 1 MiB")):
            with self.subTest(size):
                job = self.worker.start("large = of(png=png(%s))\n"
                                        "for _ in range(11): display(large)" % size)
                self.assertEqual(job.end().done.get("displays_left"), None)
                events = self.worker.displays(job)
                self.assertEqual(len(events), 11)  # they count as documents
                self.assertEqual(events[0]["about"], about)

    def test_what_is_too_much_is_counted(self) -> None:
        for code, shown, left in [
            ("for _ in range(150): display(of(png=png()))", 100, 50),
            ("calls = []\nvalue = of(png=lambda self: calls.append(1) or png())\n"
             "for _ in range(150): display(value)\nassert len(calls) == 100", 100, 50),
            ("for _ in range(150): display(of(html='x'))", 100, 50),
            ("large = of(png=png(980, 980, noise=1))\nfor _ in range(75): display(large)", 69, 6),
            ("for _ in range(30): display(of(html='x' * 7_000_000))", 9, 21),
        ]:
            with self.subTest(code):
                job = self.worker.start(code)
                ended = job.end()
                self.assertEqual((ended.done["end"], ended.err, ended.out), ("returned", "", ""))
                self.assertEqual(len(self.worker.displays(job)), shown)
                self.assertEqual(ended.done["displays_left"], left)
        self.assertNotIn("displays_left", self.worker.run("display(of(png=png()))").done)

    def test_what_is_replaced_takes_no_place(self) -> None:
        for code, shown, left, lefts in [
            ("for n in range(150): display(of(png=png()), clear=True)", 150, None, [0] * 150),
            ("for n in range(150): display(of(html='x'))\n"
             "display(of(html='y'), clear=True)", 101, None, [50]),
            ("for n in range(150): display(of(html='x'))\ndisplay(1, clear=True)\n"
             "for n in range(150): display(of(html='x'))", 200, 50, [50]),
            ("shown = display(1, display_id=True)\nshown.update(2, clear=True)", 0, None, [0]),
        ]:
            with self.subTest(code):
                job = self.worker.start(code)
                ended = job.end()
                self.assertEqual((ended.done["end"], ended.err), ("returned", ""))
                events = self.worker.displays(job)
                clears = [event for event in events if "clear" in event]
                self.assertEqual(len(events) - len(clears), shown)
                self.assertEqual(ended.done.get("displays_left"), left)
                self.assertEqual([(event["clear"], event["left"]) for event in clears],
                                 [("wait", n) for n in lefts])
                labels = [event["label"] for event in events if "label" in event]
                self.assertEqual(len(set(labels)), shown)

    def test_a_clear_stands_where_it_was_asked_for(self) -> None:
        job = self.worker.start("print('before'); display(clear=True); input()")
        self.assertEqual(self.worker.event("display", job.id)["clear"], "wait")
        job.read()
        self.assertEqual(job.texts[1], b"before\n")
        self.worker.send("input", n=self.worker.event("input", job.id)["n"], line="x\n")
        self.assertEqual(job.end().out, "before\n")
        forked = self.worker.run("if os.fork() == 0:\n    display(1, clear=True)\n"
                                 "    os._exit(0)\nos.wait()[1]")
        self.assertEqual((forked.done["result"], forked.out), ("0", "1\n"))

    def test_threads_show_for_their_job(self) -> None:
        job = self.worker.start(
            "import threading\ngo = threading.Event()\n"
            "def show(): display(of(png=png()))\ndef late(): go.wait(); show()\n"
            "now = threading.Thread(target=show); now.start(); now.join()\n"
            "thread = threading.Thread(target=late); thread.start()")
        job.end()
        self.assertEqual(len(self.worker.displays(job)), 1)
        second = self.worker.start("go.set(); thread.join()")
        second.end()
        self.assertEqual(self.worker.displays(second), [])
        job.read()
        self.assertIn(b"<__main__.C object", job.texts[1])  # its job has ended: as text

    def test_forked_children_print(self) -> None:
        job = self.worker.start("if os.fork() == 0:\n    display(of(png=png()))\n    os._exit(0)\n"
                                "os.wait()[1]")
        ended = job.end()
        self.assertEqual((ended.done["result"], self.worker.displays(job)), ("0", []))
        self.assertIn("<__main__.C object", ended.out)

    def test_signal_handlers_can_show(self) -> None:
        job = self.worker.start(
            "import signal\nvalue, count, busy = of(html='x' * 60_000), 0, False\ndisplay(value)\n"
            "def handler(*_):\n    global count, busy\n    if busy: return\n    busy = True\n"
            "    count += 1\n    display(value)\n    busy = False\n"
            "signal.signal(signal.SIGALRM, handler)\n"
            "signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)\n"
            "try:\n    for _ in range(50): display(value)\n    while not count: pass\n"
            "finally: signal.setitimer(signal.ITIMER_REAL, 0)")
        ended = job.end()
        self.assertEqual(ended.done["end"], "returned", ended)
        self.assertGreater(len(self.worker.displays(job)), 50)

    def test_signal_handlers_show_at_any_moment_of_a_display(self) -> None:
        code = ("import signal, random\nvalue = of(html='x')\ndisplay(value)\n"
                "signal.signal(signal.SIGALRM, lambda *_: display(value))\n"
                "for _ in range(45):\n"
                "    signal.setitimer(signal.ITIMER_REAL, random.random() * 2e-4 + 1e-6)\n"
                "    display(value)\nsignal.setitimer(signal.ITIMER_REAL, 0)")
        for _ in range(20):
            ended = self.worker.run(code)
            self.assertEqual(ended.done["end"], "returned", ended)

    def while_sending(self, handler: str) -> Job:
        """Start a job that shows something, and run a signal handler while it sends that."""
        job = self.worker.start(SMALL_BUFFER + (
            "import signal\ndef handler(*_):\n    %s\nsignal.signal(signal.SIGALRM, handler)\n"
            "display(of(html='x' * 60_000))\nprint('after')" % handler.replace("\n", "\n    ")))
        self.addCleanup(self.worker.run, "sock.setsockopt(socket.SOL_SOCKET, SIZE, size)")
        self.assertTrue(select.select([self.worker.sock], [], [], PATIENCE)[0])
        self.worker.process.send_signal(signal.SIGALRM)  # the rest waits until it is read
        job.prints("handled\n")
        return job

    def test_signal_handlers_ask_nothing_while_an_event_is_sent(self) -> None:
        job = self.while_sending("try: input()\nexcept RuntimeError as e: print(e, 'handled')")
        ended = job.end()
        self.assertEqual(ended.done["end"], "returned", ended)
        self.assertIn("input() can't ask in a signal handler that came while", ended.out)
        self.assertEqual(len(self.worker.displays(job)), 1)
        self.assertTrue(ended.out.endswith("after\n"))

    def test_an_interrupt_in_a_signal_handler_waits_until_an_event_is_sent(self) -> None:
        job = self.while_sending(
            "def html(self): os.kill(os.getpid(), signal.SIGURG); return 'y'\n"
            "display(of(html=html)); print('handled')")
        ended = job.end()
        self.assertEqual((ended.done["end"], ended.done["interrupted"]), ("raised", True), ended)
        self.assertEqual(len(self.worker.displays(job)), 1)
        self.assertNotIn("after", ended.out)

    def test_names_of_the_session_hide_the_built_in_ones(self) -> None:
        self.assertEqual(self.shows("display = str; display(1)"), ("'1'", "", []))
        self.assertEqual(self.shows("del display; display(1)"), (None, "1\n", []))
        self.assertEqual(self.worker.run("display_figure()").done["error"],
                         "ValueError: display_figure: no figure is open; make one, or give one")

    def test_an_error_of_a_repr_is_the_users(self) -> None:
        ended = self.worker.run("class Bad:\n    def __repr__(self): raise OSError('mine')\nBad()")
        self.assertEqual(ended.done["error"], "OSError: mine")
        self.assertNotIn("display.py", ended.err)
        ended = self.worker.run("display(Bad())")
        self.assertEqual(ended.done["error"], "OSError: mine")
        self.assertNotIn("display.py", ended.err)


if __name__ == "__main__":
    unittest.main()
