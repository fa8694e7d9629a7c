"""The displays of a job: pictures, documents, tables.

A picture or a document goes to the owner as an event, and its place in the output is after all that
the job has printed so far: nothing more is printed until the owner has put it there. Data over
INLINE bytes travels as a descriptor. The displays of each job are bounded; beyond the limits
nothing is drawn any more, only counted. Displays that a job replaces (see clear) no longer count.

Text takes the usual ways: the text of a last expression is the result, and display() prints it. An
exception of user code that describes a value costs that description only, and stderr names it.
"""

from __future__ import annotations

from _socket import socket, socketpair
from binascii import b2a_base64
from posix import close, write

from .channel import foreign
from .frames import breakable
from .names import error_name
from .shapes import name_of
from .views import (
    DISPLAYS, ITEM, KEPT, METHODS, SHOWN, Choice, View, has, known, only_a_name, repeats, text_of)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Sequence

    from .channel import Channel
    from .interrupts import Interrupts
    from .protocols import Fields, OpenFigures
    from .streams import Streams
    from .views import Items

INLINE = 64 << 10  # bytes of an item that travels in the event itself
TEXT = 1 << 20  # characters of a value that display() prints
WAIT = 10  # seconds that a display waits for its place at most
LINE = 300  # characters of an error's message

make_file: Callable[..., int] | None
try:
    from posix import memfd_create as make_file
except ImportError:
    make_file = None


class Counts:
    """The displays of one job that were not replaced."""

    def __init__(self, number: int = 0) -> None:
        self.number = number  # the last display's number, which counts replaced displays too
        self.sent = self.kept = 0  # displays, and their bytes
        self.left = 0  # displays that there was no room for
        self.clearing = False  # the next display replaces all of these


class Displays:
    """Shows values for the jobs of a session."""

    def __init__(self, channel: Channel, streams: Streams, interrupts: Interrupts) -> None:
        self.channel, self.streams, self.interrupts = channel, streams, interrupts
        self.figures: OpenFigures | None = None  # set when pyplot is imported
        self.plots_drawn = True  # False once drawing a plot has failed, see plots
        self._undisturbed = True  # the job was not interrupted before the value that is shown

    @breakable
    def display(self, values: Sequence[Any], include: Any = None, exclude: Any = None,
                raw: bool = False, clear: bool = False) -> None:
        """Show values, and print what is text. Raw values are data by MIME type.

        Of others, only the MIME types in include and not in exclude are shown, if any are given.
        With clear, they replace what the job has shown."""
        if clear:
            self.clear(True)
        for value in values:
            if raw:
                self.display_bundle(value)
            elif include or exclude:
                self._display_some(value, Choice(include, exclude))
            else:
                self._print(value, self.view(value))

    @breakable
    def display_bundle(self, bundle: Any) -> None:
        """Show data that is given by MIME type."""
        from . import bundles
        view = View()
        data = bundles.checked(bundle)
        bundles.choose(self, view, data)
        if view.items and view.text is None:
            view.text = ""
        if data:
            self._print(bundle, view)

    @breakable
    def _display_some(self, value: Any, choice: Choice) -> None:
        """Show a value by the MIME types that choice allows, or not at all."""
        from . import bundles
        kind = known(type(value))
        if kind in ("figure", "picture") and choice.has("image/png"):
            self._print(value, self.view(value))
            return
        data = bundles.of(self, value, choice)
        if choice.has("text/plain") and "text/plain" not in data:
            text = self.view(value).text if kind in ("frame", "series") else None
            data["text/plain"] = text_of(value) if text is None else text
        self.display_bundle(data)

    @breakable
    def display_figure(self, figure: Any = None) -> None:
        """Show a figure of matplotlib, or pyplot's current one."""
        if figure is None:
            figure = None if self.figures is None else self.figures.current()
            if figure is None:
                raise ValueError("display_figure: no figure is open; make one, or give one")
        elif known(type(figure)) != "figure":
            figure = getattr(figure, "figure", None)  # axes belong to a figure
            if known(type(figure)) != "figure":
                raise TypeError("display_figure: this is no figure of matplotlib; use display()")
        self.display((figure,))

    @breakable
    def result(self, value: Any) -> tuple[str | None, bool]:
        """Show the value of a last expression. Return its text, see _show, and whether that is
        Markdown."""
        view = self.view(value)
        return self._show(value, view), view.text is not None and view.markdown

    @breakable
    def picture(self, value: Any) -> bool:
        """Show the picture or the document that a value has, and report whether it has one."""
        return self._publish(self.view(value))

    @breakable
    def _print(self, value: Any, view: View) -> None:
        """Show a view and print its text."""
        text = self._show(value, view)
        if text is not None:
            rest = len(text) - TEXT
            if rest > 0:
                text = "%s\n[%d more characters]" % (text[:TEXT], rest)
            print(text)
        self.interrupts.deliver()

    @breakable
    def _show(self, value: Any, view: View) -> str | None:
        """Show what a view has besides text. Return its text, or None if the picture says all or
        the text says nothing."""
        text = view.text
        if view.label == "html":
            text = text_of(value) if text is None else text
            view.quiet = repeats(view.items[0][1], text, type(value))
        shown = self._publish(view)
        if shown and (view.picture or view.left):
            return None
        text = text_of(value) if text is None else text
        return None if shown and (not text or only_a_name(text)) else text

    @breakable
    def view(self, value: Any) -> View:
        """Return the view of a value: its text, picture or document."""
        view, kind = View(), type(value)
        self.interrupts.deliver()
        self._undisturbed = not self.interrupts.interrupted
        reader = known(kind)
        try:
            if reader in ("frame", "series"):
                from . import tables
                view.text = getattr(tables, reader)(value)
                view.markdown = True
            elif reader == "plot":
                from . import plots
                plots.read(self, view, value)
            elif reader:
                self._draw(view, value, reader)
            elif any([has(kind, name) for name in METHODS]):
                from . import bundles
                bundles.choose(self, view, bundles.of(self, value))
        except Exception as error:
            self.complain(name_of(kind), error)
        return view

    @breakable
    def _draw(self, view: View, value: Any, reader: str) -> None:
        """Draw a picture of a value, if there is room for one."""
        if not self.room(view):
            return
        from . import pictures
        view.label = "figure" if reader == "figure" else "image"
        getattr(pictures, reader)(view, value)
        if not view.items:
            self.complain("%s (%s)" % (view.label, view.about),
                          "at most %d MiB can be kept" % (ITEM >> 20))
        if reader == "figure" and self.figures is not None:
            self.figures.note_shown(value)

    def complain(self, what: str, why: BaseException | str) -> None:
        """Print a line on stderr that names what can't be shown, and why.

        If an interrupt has come while the value was shown, raise why instead: DuckDB makes a
        RuntimeError of it, and its other methods would run the query again."""
        if isinstance(why, BaseException):
            if self._undisturbed and self.interrupts.interrupted:
                raise why
            args: Any = BaseException.__dict__["args"].__get__(why)
            said = [each for each in args if type(each) is str and each]  # OSError has a number too
            why = error_name(why)
            if said:
                why += ": " + " ".join(said[0][:LINE].split())
        self.streams.report("display: %s can't be shown: %s\n" % (what, why))

    def counts(self) -> Counts:
        """Return the counts of the job that this thread or task works for."""
        counts: Counts = self.streams.current().__dict__.setdefault("displayed", Counts())
        return counts

    def _counts_beside(self) -> Counts:
        """Return the counts of what stays beside the next display."""
        counts = self.counts()
        if counts.clearing:
            counts = self.streams.current().__dict__["displayed"] = Counts(counts.number)
        return counts

    def room(self, view: View | None = None) -> bool:
        """Report whether there is room for another picture; count the view that needs one."""
        counts = self._counts_beside()
        if counts.sent < DISPLAYS and counts.kept <= KEPT - SHOWN:
            return True
        if view is not None:
            self._leave(view, counts)
        return False

    def _leave(self, view: View, counts: Counts) -> None:
        """Count a view that there is no room for."""
        counts.left += not view.left
        view.left = True

    @breakable
    def clear(self, wait: bool = False) -> None:
        """Replace what the job has shown and printed, with wait by what it prints or shows next."""
        self._clear(wait)
        self.interrupts.deliver()

    def _clear(self, wait: bool) -> None:
        job = self._showing()
        if job is None:
            return
        counts = self.counts()
        placed = self._send(job, [], clear="wait" if wait else "now", left=counts.left)
        counts.left, counts.clearing = 0, True
        if placed is not None:
            await_end(placed)

    def _showing(self) -> Any:
        """Return the running job if something can be shown for it now, or None."""
        job, channel = self.streams.current(), self.channel
        if channel.sock is None or job is not self.streams.running or channel.interrupted():
            return None  # this is a forked child, a signal handler, or the job is over
        return job

    def _publish(self, view: View) -> bool:
        """Send what a view has besides text. Report whether it is shown, or counted."""
        if view.left or not view.items:
            return view.left
        job = self._showing()
        if job is None:
            return False
        counts = self._counts_beside()
        if view.items[1:] and counts.kept + sum([len(data) for _, data in view.items]) > KEPT:
            del view.items[1:]
            view.about += ", full size not kept"
        if counts.sent >= DISPLAYS or counts.kept + len(view.items[0][1]) > KEPT:
            self._leave(view, counts)
            return True
        try:
            counts.sent, counts.number = counts.sent + 1, counts.number + 1
            placed = self._send(job, view.items, label="%s %d" % (view.label, counts.number),
                                about=view.about, quiet=view.quiet)
        except OSError as error:  # no descriptor or no memory is left for the data
            self.complain("%s (%s)" % (view.label, view.about), error)
            return False
        counts.kept += sum([len(data) for _, data in view.items])
        if placed is not None:
            await_end(placed)
        return True

    def _send(self, job: Any, items: Items, **fields: Any) -> socket | None:
        """Send an event with the data of items, after what the job has printed.

        Return a socket that ends when the owner has seen to the event, if there can be one: the
        other end is the last of the files, which the owner closes then."""
        job.flush()
        files: list[int] = []
        placed = None
        try:
            packed = [pack(mime, data, files) for mime, data in items]
            try:
                placed, end = socketpair()
                files.append(end.detach())
            except OSError:  # no descriptor is left: what is printed next may come first
                pass
            self.channel.send("display", files, id=job.id, items=packed, fds=len(files), **fields)
        except BaseException:
            if placed is not None:
                placed.close()
            raise
        finally:
            for fd in files:
                close(fd)
        return placed


def await_end(placed: socket) -> None:
    """Wait until the other end is closed, at most WAIT seconds."""
    try:
        placed.settimeout(WAIT)
        placed.recv(1)
    except OSError:  # a child that was forked meanwhile has the other end too
        if foreign():
            raise
    finally:
        placed.close()


def pack(mime: str, data: bytes, files: list[int]) -> Fields:
    """Return an item as a field of the event; large data goes into a new one of files."""
    if len(data) <= INLINE:
        text = b2a_base64(data, newline=False).decode("ascii")
        return {"mime": mime, "size": len(data), "data": text}
    files.append(anonymous_file())
    rest = memoryview(data)
    while rest:
        rest = rest[write(files[-1], rest):]
    return {"mime": mime, "size": len(data)}


def anonymous_file() -> int:
    """Return the descriptor of a new file without a name."""
    if make_file is not None:
        return make_file("display")
    from posix import unlink
    from tempfile import mkstemp
    fd, path = mkstemp()
    unlink(path)
    return fd
