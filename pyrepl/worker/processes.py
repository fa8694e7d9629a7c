"""multiprocessing: fork by default, and no silent hang with the other start methods.

A child that was started by spawn or forkserver (the default from 3.14 on, see
https://docs.python.org/3/library/multiprocessing.html) can't find a function or class of the
session: the child fails, and the parent waits for it for ever (measured with 3.11). So values
on their way to such a child are pickled with a check of where they come from. While a file runs,
the child imports it, by __main__.__file__, and finds what it defines.
"""

from __future__ import annotations

from .carry import wraps
from .frames import breakable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    from .names import Names

REMEDY = ("%s %r is defined in this session, where a process started by %r can't find it: "
          "put it into a module and import it, or use multiprocessing.get_context('fork')")


def default_to_fork(names: Names, context: ModuleType) -> None:
    """Make fork the default, which set_start_method still changes."""
    contexts = getattr(context, "_concrete_contexts", {})
    if "fork" in contexts:
        context._default_context._default_context = contexts["fork"]


@breakable
def checking(pickler: Any, method: str, names: Names) -> Any:
    """Return a pickler class that refuses what is defined in the session, outside of the file."""
    class Checking(pickler):  # type: ignore[misc]
        @breakable
        def reducer_override(self, value: Any) -> Any:
            module = getattr(value, "__module__", None)
            if (isinstance(value, (type(checking), type)) and module == "__main__"
                    and not names.spawnable(value)):
                kind = "class" if isinstance(value, type) else "function"
                raise RuntimeError(REMEDY % (kind, value.__qualname__, method))
            return NotImplemented

    return Checking


def check_processes(names: Names, module: ModuleType) -> None:
    """Check the Process objects that spawn and forkserver send."""
    @wraps(module.dump)
    def dump(value: Any, file: Any, protocol: Any = None) -> None:
        pickler = checking(module.ForkingPickler, "spawn or forkserver", names)
        pickler(file, protocol).dump(value)

    module.dump = dump  # type: ignore[attr-defined]


@breakable
def dumps(value: object, method: str, names: Names) -> bytes:
    """Pickle a value for a worker process, with the check."""
    from io import BytesIO
    from multiprocessing.reduction import ForkingPickler
    file = BytesIO()
    checking(ForkingPickler, method, names)(file).dump(value)
    return file.getvalue()


@breakable
def method_of(context: Any) -> str | None:
    """Return the start method, or None if the children are forks."""
    method: str = context.get_start_method()
    return None if method == "fork" else method


def check_pool(names: Names, module: ModuleType) -> None:
    """Check the tasks of a Pool; a refusal is the task's error."""
    setup = module.Pool._setup_queues

    @wraps(setup)
    def setup_queues(self: Any) -> None:
        setup(self)
        method = method_of(self._ctx)
        if method:
            send = self._inqueue._writer.send_bytes
            self._quick_put = lambda task: send(dumps(task, method, names))

    module.Pool._setup_queues = setup_queues


def check_executor(names: Names, module: ModuleType) -> None:
    """Check what is submitted to a ProcessPoolExecutor."""
    submit = module.ProcessPoolExecutor.submit

    @wraps(submit)
    def checked_submit(self: Any, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
        method = method_of(self._mp_context)
        if method:
            dumps((fn, args, kwargs), method, names)
        return submit(self, fn, *args, **kwargs)

    module.ProcessPoolExecutor.submit = checked_submit


def spare_notebooks(names: Names, module: ModuleType) -> None:
    """Have no child import a notebook: it is not Python."""
    prepare = module.get_preparation_data

    @wraps(prepare)
    def get_preparation_data(name: str) -> dict[str, Any]:
        data: dict[str, Any] = prepare(name)
        if str(data.get("init_main_from_path", "")).endswith(".ipynb"):
            del data["init_main_from_path"]
        return data

    module.get_preparation_data = get_preparation_data  # type: ignore[attr-defined]


def preload_nothing(names: Names, module: ModuleType) -> None:
    """Have the server of forkserver, which lives on, not import the file that runs at its start.

    A child of a later job would find the functions that the file had then
    (https://github.com/python/cpython/issues/126631)."""
    module.set_forkserver_preload([])


changes = {
    "multiprocessing.spawn": spare_notebooks,
    "multiprocessing.forkserver": preload_nothing,
    "multiprocessing.context": default_to_fork,
    "multiprocessing.reduction": check_processes,
    "multiprocessing.pool": check_pool,
    "concurrent.futures.process": check_executor,
}
