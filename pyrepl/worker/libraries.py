"""Changes libraries when user code imports them, so that what they show is shown by us.

None of it opens a window or a browser: the server has neither. A library that is not as expected is
left as it is.
"""

from __future__ import annotations

from .carry import wraps
from .frames import breakable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .session import Session


def pyplot(session: Session, module: Any) -> None:
    """Have plt.show, and the end of a job, show the figures that are open."""
    from .figures import Figures
    session.figures = Figures(session.displays(), session.interrupts, module)


def ipython(session: Session, module: Any) -> None:
    """Have IPython.display.display work without IPython's shell."""
    handle = module.DisplayHandle

    @wraps(module.display)
    def display(*values: Any, include: Any = None, exclude: Any = None, raw: bool = False,
                display_id: Any = None, update: bool = False, **options: Any) -> Any:
        session.displays().display(values, include, exclude, raw)
        if display_id is not None and not update:
            return handle() if display_id is True else handle(display_id)

    @wraps(module.publish_display_data)
    def publish_display_data(data: Any, *others: Any, **options: Any) -> None:
        session.displays().display_bundle(data)

    module.display, module.publish_display_data = display, publish_display_data


def plotly(session: Session, module: Any) -> None:
    """Have fig.show() of plotly show the figure here, whatever its renderer."""
    @wraps(module.show)
    def show(fig: Any, *others: Any, **options: Any) -> None:
        if issubclass(type(fig), dict):
            from .plots import figure_of
            fig = figure_of(fig)
        session.displays().display((fig,))

    module.show = show


def pillow(session: Session, module: Any) -> None:
    """Have show() of an image of PIL show it here."""
    @wraps(module.show)
    def show(image: Any, title: Any = None, **options: Any) -> bool:
        session.displays().display((image,))
        return True

    module.show = show


changes = {
    "matplotlib.pyplot": pyplot,
    "IPython.core.display_functions": ipython,
    "plotly.io._renderers": plotly,
    "PIL.ImageShow": pillow,
}


@breakable
def change(session: Session, module: Any, name: str) -> None:
    """Make our change to a library, if that is what we know by its name."""
    try:
        changes[name](session, module)
    except Exception:  # another version of it, or a module of the user's
        pass
