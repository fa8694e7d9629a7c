"""Values that describe themselves by MIME type, as Jupyter asks them to.

A picture is preferred, then Markdown, then text. A picture in vectors and a document (SVG, HTML,
the JSON of a plot) are for other readers than a model, which sees a line about them.
"""

from __future__ import annotations

from binascii import a2b_base64

from .frames import breakable
from .images import jpeg_size, png_size
from .shapes import name_of
from .views import ITEM, METHODS, SHOWN, SIDE, Choice, amount, has, text_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .display import Displays
    from .views import View

PICTURES = {"image/png": "PNG", "image/jpeg": "JPEG"}
DOCUMENTS = {"image/svg+xml": "SVG", "text/html": "HTML"}
PREFERRED = *PICTURES, "text/markdown"  # to what follows in METHODS


@breakable
def of(displays: Displays, value: Any, choice: Choice | None = None) -> dict[str, Any]:
    """Return what a value says of itself, by MIME type. Methods that are not needed don't run."""
    bundle: dict[str, Any] = {}
    choice = choice or Choice()
    kind = type(value)
    for method, mime in METHODS.items():
        if any([each in bundle for each in PREFERRED]):
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
        bundle["text/plain"] = as_text(text) if plain.startswith("<") else plain
    return bundle


@breakable
def checked(said: Any) -> dict[str, Any]:
    """Return the data of a bundle, which can come with a second dict that describes it."""
    data = said[0] if type(said) is tuple and len(said) == 2 else said
    if not issubclass(type(data), dict):
        raise TypeError("a bundle must be a dict, not %s" % name_of(type(data)))
    return {k: v for k, v in dict.items(data) if type(k) is str and v is not None}


@breakable
def choose(displays: Displays, view: View, bundle: dict[str, Any]) -> None:
    """Set a view to the best of what a bundle holds."""
    for mime in ("text/markdown", "text/plain"):
        if issubclass(type(bundle.get(mime)), str):
            view.text = str.__str__(bundle[mime])
            break
    for mime in PICTURES:
        if mime in bundle and not view.items and displays.room(view):
            try:
                picture(view, mime, bundle[mime])
            except (ValueError, TypeError) as error:
                displays.complain(mime, error)
    if view.items or view.left or "text/markdown" in bundle:
        return
    for mime in (*DOCUMENTS, *bundle):
        if mime in bundle and (mime in DOCUMENTS or mime.endswith("+json")):
            document(displays, view, mime, as_text(bundle[mime]))
            return


def picture(view: View, mime: str, data: Any) -> None:
    """Set a view to a picture that is ready made. Its bytes can come as base64, too."""
    if len(data) > ITEM * 4 // 3 + 4:
        raise ValueError("it has %s" % amount(len(data)))
    data = a2b_base64(data) if issubclass(type(data), str) else bytes(data)
    size = png_size(data) if mime == "image/png" else jpeg_size(data)
    if len(data) > ITEM:
        raise ValueError("it has %s" % amount(len(data)))
    view.label, view.items = "image", [(mime, data)]
    view.about = "%s %dx%d" % (PICTURES[mime], *size)
    view.picture = max(size) <= SIDE and len(data) <= SHOWN
    if not view.picture:  # only the library that made it can scale it
        view.about += ", %s, too large to be shown" % amount(len(data))


def document(displays: Displays, view: View, mime: str, text: str) -> None:
    """Set a view to a document, if that is not too large to be kept."""
    name = DOCUMENTS.get(mime, "JSON")
    data = text.encode("utf-8", "replace") if len(text) <= ITEM else b""
    if text and not 0 < len(data) <= ITEM:
        displays.complain(name, "it has %s" % amount(len(data) or len(text)))
        return
    view.label, view.items = name.lower(), [(mime, data)]
    view.about = "%s %s" % (name, amount(len(data)))


@breakable
def as_text(data: Any) -> str:
    """Return text, or the JSON of data that is none."""
    if issubclass(type(data), str):
        return str.__str__(data)
    if issubclass(type(data), bytes):
        return bytes.decode(data, "utf-8", "replace")
    from json import dumps
    return dumps(data, default=text_of)
