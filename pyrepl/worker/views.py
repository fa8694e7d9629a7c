"""The views of values, and the types that say themselves how to show them."""

from __future__ import annotations

from .frames import breakable
from .shapes import bases_of, contents, library_of, name_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol

    Items = list[tuple[str, bytes]]  # MIME type and data

    class Shows(Protocol):
        """The Displays of a session, as bundles and plots see them."""

        plots_drawn: bool

        def room(self, view: View | None = None) -> bool: ...
        def complain(self, what: str, why: BaseException | str) -> None: ...

# The limits of what is shown. The server has the same, in package display.
SIDE = 1568  # pixels a side of a picture that a model sees
SHOWN = 1 << 20  # bytes of it
ITEM = 8 << 20  # bytes of one item
DISPLAYS = 100  # displays of one job that are kept
KEPT = 64 << 20  # bytes of these displays

# Types that are known by their package and name, and the readers of their values.
KNOWN = {
    ("matplotlib", "Figure"): "figure",
    ("PIL", "Image"): "picture",
    ("plotly", "BaseFigure"): "plot",
    ("pandas", "DataFrame"): "frame",
    ("pandas", "Series"): "series",
}
# How other types say it, in the order of preference.
METHODS = {
    "_repr_mimebundle_": "", "_repr_png_": "image/png", "_repr_jpeg_": "image/jpeg",
    "_repr_markdown_": "text/markdown", "_repr_svg_": "image/svg+xml", "_repr_html_": "text/html",
    "_repr_latex_": "text/latex", "_repr_json_": "application/json",
}
# What HTML has that says more than text.
MORE = b"<script", b"<svg", b"<img", b"<canvas", b"<iframe", b"<video", b"<audio", b"<object"


class Choice:
    """The MIME types to show, as display()'s arguments say."""

    def __init__(self, include: Any = None, exclude: Any = None) -> None:
        self._include, self._exclude = names_of(include), names_of(exclude)

    def has(self, mime: str) -> bool:
        """Report whether a type is to be shown."""
        return (not self._include or mime in self._include) and mime not in self._exclude


@breakable
def names_of(types: Any) -> list[Any]:
    """Return MIME types that are given as a collection, as one text or as None."""
    return [types] if type(types) is str else list(types or ())


class View:
    """The text, picture or document that shows a value."""

    def __init__(self) -> None:
        self.text: str | None = None  # None: its repr
        self.markdown = False  # the text is Markdown
        self.label = ""  # figure, image, svg, …
        self.about = ""  # the data, in a few words
        self.items: Items = []  # first what a model sees, then the full size; none: only text
        self.picture = False  # a model sees the first item
        self.left = False  # there is no room for it
        self.quiet = False  # no line in the output stands for it: the text says the same


def known(kind: type) -> str:
    """Return the reader of a type that is known, or "".

    A type derived from one counts as that, unless it says itself how it is shown."""
    for each in bases_of(kind):
        reader = KNOWN.get((library_of(each), name_of(each)))
        if reader:
            return reader
        own = contents(each)
        if "__repr__" in own or any([name in own for name in METHODS]):
            return ""
    return ""


def has(kind: type, method: str) -> bool:
    """Report whether a type has a method. None in its place says that it has none."""
    for each in bases_of(kind):
        if method in contents(each):
            return contents(each)[method] is not None
    return False


@breakable
def text_of(value: object) -> str:
    """Return the repr of a value as a plain string."""
    text = repr(value)
    return text if type(text) is str else str.__str__(text)


def only_a_name(text: str) -> bool:
    """Report whether a repr says no more than the name and the address of a value."""
    return text.startswith("<") and "\n" not in text.strip()


def repeats(html: bytes, text: str, kind: type) -> bool:
    """Report whether HTML says the same as the text of a value of that type.

    A picture or a script can say more. The scripts of scikit-learn only unfold what is folded."""
    if not text or only_a_name(text):
        return False
    if any([library_of(each) == "sklearn" for each in bases_of(kind)]):
        return True
    return not any([tag in html for tag in MORE])


def amount(size: int) -> str:
    """Return a number of bytes in words."""
    if size < 1024:
        return "%d bytes" % size
    return "%.1f KiB" % (size / 1024) if size < 1 << 20 else "%.1f MiB" % (size / 1048576)


def unseen(size: tuple[int, int], data: bytes) -> str:
    """Return a note that says why a model does not see a picture, or ""."""
    if max(size) > SIDE:
        return ", not shown: more than %d pixels a side" % SIDE
    return "" if len(data) <= SHOWN else ", not shown: more than %d MiB" % (SHOWN >> 20)
