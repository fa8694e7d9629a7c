"""plotly's figures: drawn by kaleido if it is there, else kept as JSON."""

from __future__ import annotations

from .frames import breakable
from .images import png_size
from .names import modules
from .views import ITEM, SHOWN, SIDE, amount, unseen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .views import Shows, View

JSON = "application/vnd.plotly.v1+json"
TRACES, GAP = 5, "\u2026"  # traces that are named
SCALES = 1.0, 0.6, 0.35  # tried in this order, until the picture is small enough


@breakable
def read(displays: Shows, view: View, figure: Any) -> None:
    """Set a view to a figure of plotly."""
    traces = ["%s" % trace.type for trace in figure.data]
    named = ", ".join(traces[:TRACES] + [GAP] * (len(traces) > TRACES))
    view.text = "<plotly figure, traces: %s>" % named
    view.label = "plot"
    if displays.plots_drawn and drawable():
        if not displays.room(view):
            return
        try:
            return draw(view, figure)
        except Exception as error:  # it finds no browser, or is too old: that takes it seconds
            displays.plots_drawn = False
            displays.complain("plots are kept as JSON: a picture", error)
    data = str(figure.to_json()).encode("utf-8", "replace")
    view.about = "plotly JSON %s, traces: %s" % (amount(len(data)), named)
    if len(data) > ITEM:
        displays.complain("plot (%s)" % view.about, "at most %d MiB can be kept" % (ITEM >> 20))
    else:
        view.items = [(JSON, data)]


@breakable
def drawable() -> bool:
    """Report whether plotly finds kaleido."""
    from importlib.util import find_spec
    return find_spec("kaleido") is not None


@breakable
def draw(view: View, figure: Any) -> None:
    """Draw a figure with kaleido, which scales it."""
    layout = figure.layout
    largest = SIDE / max(layout.width or 700, layout.height or 500, SIDE)
    for scale in SCALES:
        data = figure.to_image(format="png", scale=largest * scale)
        if len(data) <= SHOWN:
            break
    view.items = [("image/png", data)]
    size = png_size(data)
    view.about = "PNG %dx%d" % size
    if largest < 1:
        view.about += " of %dx%d" % (layout.width or 700, layout.height or 500)
    why = unseen(size, data)
    view.about += why
    view.picture = not why


def figure_of(fields: dict[str, Any]) -> Any:
    """Return the figure that plotly makes of a dict."""
    return modules["plotly.graph_objs"].Figure(fields)
