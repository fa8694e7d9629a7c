"""Pictures for a model, drawn by the library that made them: figures of matplotlib, images of PIL.

A model gets at most SIDE pixels a side and SHOWN bytes, as PNG, or else as JPEG of falling quality.
If that is less than there is, the full size is the second item.
"""

from __future__ import annotations

from _io import BytesIO

from .frames import breakable
from .images import png_size
from .names import modules
from .views import ITEM, SHOWN, SIDE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .views import Items, View

PIXELS = 16 << 20  # a picture of more pixels is not drawn at its full size
QUALITIES = 85, 65, 45, 25, 10
SMALLER = 0.7  # factor for each try at a figure, without PIL
PLAIN = "1", "L", "LA", "P", "RGB", "RGBA"  # modes that are written as they are


@breakable
def figure(view: View, drawn: Any) -> None:
    """Set a view to a figure of matplotlib. Its size follows from its dots per inch."""
    inches = [float(n) for n in drawn.get_size_inches()]
    own = dpi = float(drawn.get_dpi())
    if max(inches) * own > SIDE:
        dpi = SIDE / max(inches)
    data = render(drawn, dpi)
    size = png_size(data)
    if max(size) > SIDE:  # the user's settings cut to what is drawn, and that was more
        dpi *= (SIDE - 2) / max(size)
        data = render(drawn, dpi)
        size = png_size(data)
    whole, full = size, data
    if dpi < own:
        whole, full = (int(own * inches[0]), int(own * inches[1])), b""
        if whole[0] * whole[1] <= PIXELS:
            full = render(drawn, own)
            whole = png_size(full)
    items = fit(data)
    while not items and dpi > 1:
        dpi *= SMALLER
        data = render(drawn, dpi)
        size, items = png_size(data), fit(data)
    drawn.stale = False  # so that a later change is noticed, see figures
    fill(view, items, size, whole, full)


@breakable
def render(drawn: Any, dpi: float) -> bytes:
    """Return a figure as PNG."""
    out = BytesIO()
    drawn.savefig(out, format="png", dpi=dpi)
    return out.getvalue()


@breakable
def picture(view: View, image: Any) -> None:
    """Set a view to an image of PIL."""
    whole, shown, full = image.size, plain(image), b""
    if whole[0] * whole[1] <= PIXELS:
        full = encode(shown, "PNG")
    data = full
    if max(whole) > SIDE:
        if shown.mode in ("1", "P"):
            shown = shown.convert("RGBA" if "transparency" in shown.info else "RGB")
        size = [max(1, n * SIDE // max(whole)) for n in whole]
        shown = shown.resize(size, 3, reducing_gap=2.0)  # 3: bicubic
        data = encode(shown, "PNG")
    fill(view, fit(data, shown), shown.size, whole, full)


@breakable
def plain(image: Any) -> Any:
    """Return an image in a mode that is written as it is."""
    if image.mode in PLAIN:
        return image
    if image.mode[0] in "FI":  # one number a pixel: stretched to 256 greys
        low, high = image.getextrema()
        scale = 255 / (high - low or 1)
        return image.convert("F").point(lambda x: x * scale - low * scale).convert("L")
    return image.convert("RGBA" if image.mode in ("PA", "La", "RGBa") else "RGB")


@breakable
def encode(image: Any, kind: str, **options: Any) -> bytes:
    """Return an image as PNG or JPEG."""
    out = BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


@breakable
def fit(png: bytes, image: Any = None) -> Items:
    """Return a picture small enough for a model as one item, or none if it can't be that small."""
    if len(png) <= SHOWN:
        return [("image/png", png)]
    pil: Any = modules.get("PIL.Image")  # matplotlib has loaded it
    if pil is None:
        return []
    image = (image or pil.open(BytesIO(png))).convert("RGBA")
    paper = pil.new("RGB", image.size, "white")
    paper.paste(image, (0, 0), image)
    for quality in QUALITIES:
        data = encode(paper, "JPEG", quality=quality)
        if len(data) <= SHOWN:
            return [("image/jpeg", data)]
    return []


def fill(view: View, items: Items, size: Any, whole: Any, full: bytes) -> None:
    """Set a view to a picture, with the full size if a model sees less than that."""
    view.picture = bool(items)
    view.about = "%s %dx%d" % ("JPEG" if items and items[0][0] == "image/jpeg" else "PNG", *size)
    if tuple(size) != tuple(whole):
        view.about += " of %dx%d" % tuple(whole)
    if not items:
        view.about += ", not shown: more than %d MiB" % (SHOWN >> 20)
    if not items or full != items[0][1]:
        if 0 < len(full) <= ITEM:
            items = [*items, ("image/png", full)]
        else:
            view.about += ", full size not kept"
    view.items = items
