"""multiprocessing: fork by default, and no silent hang with the others.

A function or class of the session can't be found by a child that was started
by spawn or forkserver: the child fails, and the parent waits for it for ever.
So what goes to such a child is pickled with a look at where it comes from.
"""

from .carry import like
from .interrupts import breakable

REMEDY = ("%s %r is defined in this session, where a process started by %r can't find it: "
          "put it into a module and import it, or use multiprocessing.get_context('fork')")


def default(context):
    """Makes fork the default, which set_start_method still changes."""
    contexts = getattr(context, "_concrete_contexts", {})
    if "fork" in contexts:
        context._default_context._default_context = contexts["fork"]


def checking(pickler, method):
    """Returns a pickler class that refuses what is defined in the session."""
    class Checking(pickler):
        def reducer_override(self, value):
            if isinstance(value, (type(like), type)) and getattr(value, "__module__", None) == "__main__":
                kind = "class" if isinstance(value, type) else "function"
                raise RuntimeError(REMEDY % (kind, value.__qualname__, method))
            return NotImplemented

    breakable(Checking.reducer_override)
    return Checking


def reduction(module):
    """Checks the Process objects that spawn and forkserver send."""
    def dump(value, file, protocol=None):
        checking(module.ForkingPickler, "spawn or forkserver")(file, protocol).dump(value)

    module.dump = like(module.dump, dump)


def dumps(value, method):
    """Pickles what a worker process is to be told, checked."""
    from io import BytesIO
    from multiprocessing.reduction import ForkingPickler
    file = BytesIO()
    checking(ForkingPickler, method)(file).dump(value)
    return file.getvalue()


def method_of(context):
    """The start method, or None where the children are forks."""
    method = context.get_start_method()
    return None if method == "fork" else method


def pool(module):
    """Checks the tasks of a Pool; what is refused is the task's error."""
    setup = module.Pool._setup_queues

    def setup_queues(self):
        setup(self)
        method = method_of(self._ctx)
        if method:
            send = self._inqueue._writer.send_bytes
            self._quick_put = lambda task: send(dumps(task, method))

    module.Pool._setup_queues = like(setup, setup_queues)


def executor(module):
    """Checks what is submitted to a ProcessPoolExecutor."""
    submit = module.ProcessPoolExecutor.submit

    def checked_submit(self, fn, /, *args, **kwargs):
        method = method_of(self._mp_context)
        if method:
            dumps((fn, args, kwargs), method)
        return submit(self, fn, *args, **kwargs)

    module.ProcessPoolExecutor.submit = like(submit, checked_submit)


for _each in (checking, dumps, method_of):
    breakable(_each)
