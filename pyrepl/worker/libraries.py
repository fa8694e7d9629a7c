"""Change libraries when user code imports them, so that the job's displays have what they show.

None of it opens a window or a browser: the server has neither. A library that is not as expected is
left as it is.
"""

from __future__ import annotations

from .carry import wraps
from .frames import breakable
from .routers import Router

URL = 2000  # characters of an address that are shown: one with data can have millions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .session import Session


def no_browser(webbrowser: Any) -> None:
    """Have webbrowser print what it would open, and look for no browser.

    One for text would read the terminal. bokeh's show opens its file so, too."""
    class Browser(webbrowser.BaseBrowser):  # type: ignore[misc]
        @breakable
        def open(self, url: Any, new: int = 0, autoraise: bool = True) -> bool:
            text = str(url)
            rest = len(text) - URL
            if rest > 0:
                text = "%s\u2026 (%d more characters)" % (text[:URL], rest)
            print("[not opened: %s]" % text)
            return False

    webbrowser._tryorder = []  # else the first call looks for browsers
    webbrowser.register("async-repl", None, Browser("async-repl"))


def pyplot(session: Session, module: Any) -> None:
    """Have plt.show, and the end of a job, show the figures that are open."""
    from .figures import Figures
    displays = session.displays()
    displays.figures = Figures(displays, session.interrupts, module)


def ipython(session: Session, module: Any) -> None:
    """Have IPython.display.display work without IPython's shell."""
    handle = module.DisplayHandle

    @wraps(module.display)
    def display(*values: Any, include: Any = None, exclude: Any = None, raw: bool = False,
                display_id: Any = None, update: bool = False, clear: bool = False,
                **options: Any) -> Any:
        session.displays().display(values, include, exclude, raw, clear)
        if display_id is not None and not update:
            return handle() if display_id is True else handle(display_id)

    @wraps(module.publish_display_data)
    def publish_display_data(data: Any, *others: Any, **options: Any) -> None:
        session.displays().display_bundle(data)

    @wraps(module.clear_output)
    def clear_output(wait: bool = False) -> None:
        session.displays().clear(wait)

    module.display, module.publish_display_data = display, publish_display_data
    module.clear_output = clear_output


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


def tqdm(session: Session, module: Any) -> None:
    """Have the bars of tqdm.notebook be text: widgets show nothing here."""
    class tqdm_notebook(module.std_tqdm):  # type: ignore[misc]
        @breakable
        def __init__(self, *args: Any, display: bool = True, ncols: Any = None,
                     **options: Any) -> None:
            if type(ncols) is int:  # a notebook's can be a width such as 100%
                options["ncols"] = ncols
            super().__init__(*args, **options)

    tqdm_notebook.__module__, tqdm_notebook.__qualname__ = module.__name__, "tqdm_notebook"
    module.tqdm_notebook = module.tqdm = tqdm_notebook


def rich(session: Session, module: Any) -> None:
    """Have the bars of rich drawn while they change.

    Rich draws them on a terminal only, so a console that writes to our streams claims to be one as
    long as a bar is shown. By then it has found out that there are no colors."""
    start, stop = module.Progress.start, module.Progress.stop

    @wraps(start)
    def draw(self: Any) -> None:
        said = self.console.__dict__
        if (not self.disable and type(self.console.file) is Router
                and said.get("_force_terminal", "") is None and said.get("is_interactive") is False):
            said["_force_terminal"] = said["is_interactive"] = self._async_repl_draws = True
        start(self)

    @wraps(stop)
    def finish(self: Any) -> None:
        try:
            stop(self)
        finally:
            if self.__dict__.pop("_async_repl_draws", False):
                self.console._force_terminal, self.console.is_interactive = None, False

    module.Progress.start, module.Progress.stop = draw, finish


changes = {
    "matplotlib.pyplot": pyplot,
    "IPython.core.display_functions": ipython,
    "plotly.io._renderers": plotly,
    "PIL.ImageShow": pillow,
    "tqdm.notebook": tqdm,
    "rich.progress": rich,
}


@breakable
def change(session: Session, module: Any, name: str) -> None:
    """Make our change to a library, if that is what we know by its name."""
    try:
        changes[name](session, module)
    except Exception:  # another version of it, or a module of the user's
        pass
