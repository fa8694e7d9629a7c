"""Values that describe themselves by MIME type, as Jupyter asks them to.

A picture is preferred, then Markdown, then text. What else there is (SVG, GIF, HTML, PDF, the JSON
of a plot) is for other readers than a model, which sees a line about it. Data that is not what it
is said to be is passed over, and stderr says why.
"""

from __future__ import annotations

from binascii import a2b_base64

from .frames import breakable
from .images import jpeg_size, png_size
from .shapes import name_of
from .views import ITEM, METHODS, Choice, amount, has, only_a_name, text_of, unseen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .views import Shows, View

PICTURES = {"image/png": "PNG", "image/jpeg": "JPEG"}
TEXTS = {"image/svg+xml": "SVG", "text/html": "HTML"}
MEDIA = "image/", "audio/", "video/", "application/pdf"  # data that only other readers decode


class Picture:
    """A picture that is ready made. Its bytes can come as base64, too."""

    def __init__(self, mime: str, data: Any) -> None:
        self.data = decoded(data)
        self.size = png_size(self.data) if mime == "image/png" else jpeg_size(self.data)


@breakable
def of(displays: Shows, value: Any, choice: Choice | None = None) -> dict[str, Any]:
    """Return a value's data by MIME type, from its own methods. Only the needed methods run."""
    bundle: dict[str, Any] = {}
    choice = choice or Choice()
    kind = type(value)
    for method, mime in METHODS.items():
        if complete(displays, bundle):
            break
        if not has(kind, method) or mime in bundle or mime and not choice.has(mime):
            continue
        if mime in PICTURES and not displays.room():
            bundle[mime] = b""  # choose counts it
            break
        try:
            said = getattr(value, method)()
            if said is None:
                continue
            if mime:
                bundle[mime] = said[0] if type(said) is tuple and len(said) == 2 else said
            else:
                bundle.update({k: v for k, v in checked(said).items() if choice.has(k)})
        except Exception as error:
            displays.complain("%s of %s" % (method, name_of(kind)), error)
    text = bundle.get("text/latex") or bundle.get("application/json")
    if text and "text/plain" not in bundle and choice.has("text/plain"):
        plain = text_of(value)
        bundle["text/plain"] = as_text(text) if only_a_name(plain) else plain
    return bundle


@breakable
def checked(said: Any) -> dict[str, Any]:
    """Return the data of a bundle, which can come with a second dict that describes it."""
    data = said[0] if type(said) is tuple and len(said) == 2 else said
    if not issubclass(type(data), dict):
        raise TypeError("a bundle must be a dict, not %s" % name_of(type(data)))
    return {k: v for k, v in dict.items(data) if type(k) is str and v is not None}


@breakable
def complete(displays: Shows, bundle: dict[str, Any]) -> bool:
    """Report whether a bundle has a picture or Markdown, which are preferred to all else.

    A picture that can't be shown is taken out, while there is room for one."""
    for mime in PICTURES:
        if mime not in bundle:
            continue
        if type(bundle[mime]) is Picture or not displays.room():
            return True
        try:
            bundle[mime] = Picture(mime, bundle[mime])
            return True
        except (ValueError, TypeError) as error:
            del bundle[mime]
            displays.complain(mime, error)
    return issubclass(type(bundle.get("text/markdown")), str)


@breakable
def choose(displays: Shows, view: View, bundle: dict[str, Any]) -> None:
    """Set a view to the best of what a bundle holds."""
    done = complete(displays, bundle)
    for mime in ("text/markdown", "text/plain"):
        if issubclass(type(bundle.get(mime)), str):
            view.text, view.markdown = str.__str__(bundle[mime]), mime == "text/markdown"
            break
    for mime in PICTURES:
        if mime in bundle and not view.items and displays.room(view):
            show(view, mime, bundle[mime])
    if done:
        return
    for mime in sorted(bundle, key=rank):
        if mime in TEXTS or mime.startswith(MEDIA) or mime.endswith("+json"):
            try:
                return document(view, mime, bundle[mime])
            except Exception as error:
                displays.complain(mime, error)


def rank(mime: str) -> tuple[bool, ...]:
    """Return where a document comes in the order of preference."""
    return mime != "image/svg+xml", not mime.startswith("image/"), mime != "text/html"


def show(view: View, mime: str, picture: Picture) -> None:
    """Set a view to a picture. Only the library that made it could scale it."""
    view.label, view.items = "image", [(mime, picture.data)]
    why = unseen(picture.size, picture.data)
    view.about = "%s %dx%d%s" % (PICTURES[mime], *picture.size, why)
    view.picture = not why


@breakable
def document(view: View, mime: str, said: Any) -> None:
    """Set a view to a document."""
    name = TEXTS.get(mime, "JSON")
    if mime in TEXTS and not issubclass(type(said), (str, bytes)):
        raise TypeError("it is %s, not text" % name_of(type(said)))
    if mime in TEXTS or mime.endswith("+json"):
        text = as_text(said)
        bounded(len(text), "characters")
        data = text.encode("utf-8", "replace")
    else:
        name, data = mime.rpartition("/")[2].upper(), decoded(said)
    bounded(len(data))
    view.label, view.items = name.lower(), [(mime, data)]
    view.about = "%s %s" % (name, amount(len(data)))


@breakable
def decoded(said: Any) -> bytes:
    """Return data that is given as bytes or as base64."""
    if issubclass(type(said), str):
        bounded(len(said), "characters", 2 * ITEM)  # there can be line ends
        said = a2b_base64(said)
    bounded(memoryview(said).nbytes)
    return bytes(said)


def bounded(size: int, unit: str = "bytes", most: int = ITEM) -> None:
    """Raise ValueError if an item has more than the most bytes or characters."""
    if size > most:
        raise ValueError("it has {:,} {}, and at most {} MiB can be kept".format(
            size, unit, ITEM >> 20))


@breakable
def as_text(data: Any) -> str:
    """Return data as text: a str or bytes as it is, anything else in JSON."""
    if issubclass(type(data), str):
        return str.__str__(data)
    if issubclass(type(data), bytes):
        return bytes.decode(data, "utf-8", "replace")
    from json import dumps
    return dumps(data, default=text_of)
