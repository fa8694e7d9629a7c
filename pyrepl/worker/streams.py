"""What jobs write: text to the job that it is written for.

sys.stdout and sys.stderr are routers. They give the text to the C streams of
one job: the job that the context carries (tasks inherit it, threads and pools
are made to, see carry), else the job that runs, else the last one. Under a
router no Python line stands between write(2) and its bookkeeping, so that an
interrupt of a blocked write tears and doubles nothing, and may come anywhere.

Each job has pipes of its own. They stand on descriptors 1 and 2 until the next
job starts, and on private copies, made for the routers, for as long as a
thread or a task carries the job. A forked child has one job, and its routers
write to descriptors 1 and 2, wherever they lead.
"""

import sys
from _contextvars import ContextVar
from _io import BufferedWriter, FileIO, TextIOWrapper
from _thread import _count, get_ident
from _weakref import ref
from io import BufferedIOBase, TextIOBase
from posix import close, dup, dup2, fstat, write

from .channel import high
from .interrupts import breakable

NUMBERS = {"out": 1, "err": 2}  # descriptors

carried = ContextVar("async_repl_job")
running = None  # the job that runs
last = None  # the job that ran last, or runs
ended = []  # (weak reference, descriptors) of jobs whose copies are open
settings = {"out": {}, "err": {}}  # what user code reconfigured
threads = {}  # ident -> Thread: that of threading, once it is imported
marked = []  # weak references to the threads that carry a job
pending_tasks = int  # counts the tasks that have not ended; see tasks


class Job:
    """A job's id and its streams. It lives while something carries it."""

    def __init__(self, id, files):
        self.id = id
        self.files = {"out": high(files[0]), "err": high(files[1])}

    def __getattr__(self, name):
        """Makes the stream `out` or `err` on its first use."""
        if name not in ("out", "err"):
            raise AttributeError(name)
        if not self.files:  # closed, and yet something carried it
            return getattr(running or last, name)
        stream = open_stream(self.files[name], name)
        setattr(self, name, stream)
        return stream

    def flush(self):
        """Flushes what there is, and says nothing of failures."""
        for name in ("out", "err"):
            if name in self.__dict__:
                try:
                    self.__dict__[name].flush()
                except (OSError, ValueError):
                    pass

    def mend(self, name):
        """Goes on with 1 or 2 after user code closed our copy."""
        self.files[name] = high(dup(NUMBERS[name]))
        self.__dict__.pop(name, None)

    def retire(self):
        """Forgets the descriptors, which are closed."""
        self.files = None
        self.__dict__.pop("out", None)
        self.__dict__.pop("err", None)


def open_stream(fd, name):
    """Returns a line-buffered C text stream; it does not own fd."""
    raw = FileIO(fd, "w", closefd=False)
    stream = TextIOWrapper(BufferedWriter(raw), "utf-8", "backslashreplace", None, True)
    if settings[name]:
        stream.reconfigure(**settings[name])
    return stream


def current():
    """The job that text of this thread or task is written for."""
    job = carried.get(None)
    if job is None:
        job = getattr(threads.get(get_ident()), "_async_repl_job", None) or running or last
    return job


class Binary(BufferedIOBase):
    """sys.stdout.buffer: bytes, in order with the text."""

    def __init__(self, router):
        self.router = router

    @property
    def raw(self):
        """The file itself; what was written before is in it."""
        self.flush()
        return self.router.stream().buffer.raw

    def write(self, data):
        stream = self.router.stream()
        stream.flush()
        count = stream.buffer.write(data)
        stream.buffer.flush()
        return count

    def writelines(self, lines):
        for line in lines:
            self.write(line)

    def flush(self):
        self.router.flush()

    def fileno(self):
        return self.router.fileno()

    def isatty(self):
        return False

    def readable(self):
        return False

    seekable = readable

    def writable(self):
        return True

    def close(self):
        self.flush()

    closed = False
    mode = "wb"
    name = property(lambda self: self.router.name)


class Router(TextIOBase):
    """sys.stdout or sys.stderr."""

    def __init__(self, name, fd):
        self.which, self.fd = name, fd
        self.name = "<std%s>" % name
        self.mode = "w"
        self.buffer = Binary(self)
        self.settings = settings[name]

    def stream(self):
        return getattr(current(), self.which)

    def write(self, text):
        try:
            return getattr(carried.get(None) or current(), self.which).write(text)
        except OSError as error:
            if error.errno != 9:  # EBADF: user code closed it
                raise
            current().mend(self.which)
            return self.stream().write(text)

    def writelines(self, lines):
        for line in lines:
            self.write(line)

    def flush(self):
        self.stream().flush()

    def close(self):
        """Flushes only: there is a next job."""
        self.flush()

    def detach(self):
        """Gives the buffer away, and goes on: there is a next job."""
        self.flush()
        return self.buffer

    def reconfigure(self, **how):
        """For this job and the next ones."""
        self.stream().reconfigure(**how)
        self.settings.update({k: v for k, v in how.items() if v is not None})

    def fileno(self):
        return self.fd

    def isatty(self):
        return False

    def readable(self):
        return False

    seekable = readable

    def writable(self):
        return True

    closed = False
    encoding = property(lambda self: self.stream().encoding)
    errors = property(lambda self: self.stream().errors)
    line_buffering = property(lambda self: self.stream().line_buffering)
    write_through = property(lambda self: self.stream().write_through)
    newlines = None

    def __repr__(self):
        return "<async_repl stream name=%r encoding=%r>" % (self.name, self.encoding)

    def __reduce__(self):
        raise TypeError("cannot pickle %r object" % self.name)


def begin(id, files):
    """Makes a job the running one; its pipes are now 1 and 2."""
    global running, last
    previous, job = last, Job(id, files)
    dup2(job.files["out"], 1)  # only now: what came in may itself be 1 or 2, if user code had closed them
    dup2(job.files["err"], 2)
    running = last = job
    carried.set(job)
    if previous is not None:
        previous.flush()
        ended.append((ref(previous), previous.files))
    del previous
    if ended:
        close_ended()


def forked():
    """Has a child write to its descriptors 1 and 2. They are those of the job that it was forked in: of an earlier one
    than the last they have to be put there, where nobody, like forkpty, has put something else."""
    job = current()
    if job is None:
        return
    for name, fd in NUMBERS.items():
        try:
            if job is not last and job.files and same(fd, last.files[name]):
                dup2(job.files[name], fd)
        except OSError:  # closed by user code
            pass
        job.__dict__.pop(name, None)
    job.files = NUMBERS.copy()


def same(a, b):
    """Reports whether two descriptors lead to the same pipe."""
    a, b = fstat(a), fstat(b)
    return (a.st_dev, a.st_ino) == (b.st_dev, b.st_ino)


def finish():
    """Flushes the running job, which is now the last one."""
    global running
    last.flush()
    running = None


def close_ended():
    """Closes the copies of ended jobs that no thread or task carries.

    A job dies with the last thing that carries it. Its streams write what they
    hold when they die, so its descriptors are closed here only, later."""
    idle = _count() == 0 and pending_tasks() == 0
    unmark()
    keep = []
    for alive, files in ended:
        job = alive()
        if job is not None:
            if not idle:
                keep.append((alive, files))
                continue
            job.flush()
            job.retire()
        for fd in files.values():
            try:
                close(fd)
            except OSError:
                pass
    ended[:] = keep


def unmark():
    """Lets finished threads, which user code may keep, carry nothing."""
    if not marked:
        return
    alive, active = [], set(map(id, list(threads.values())))
    for mark in marked:
        thread = mark()
        if thread is None:
            continue
        if id(thread) in active:
            alive.append(mark)
        else:
            thread.__dict__.pop("_async_repl_job", None)
    marked[:] = alive


def flush_all():
    """Flushes the streams of all jobs."""
    if last is not None:
        last.flush()
    for job, _ in ended:
        job = job()
        if job is not None:
            job.flush()


def flush_foreign():
    """Flushes what user code put in the place of our streams, or what it holds comes out in a later job."""
    for name in ("stdout", "stderr"):
        stream = sys.__dict__.get(name)
        if type(stream) is not Router and hasattr(stream, "flush"):
            stream.flush()


def report(text):
    """Writes to the running job's stderr, whatever sys.stderr is."""
    try:
        last.err.write(text)
        last.err.flush()
    except (OSError, ValueError):
        try:
            write(2, text.encode("utf-8", "backslashreplace"))
        except OSError:
            pass


def install():
    """Puts the routers in place of the interpreter's streams."""
    sys.stdout = sys.__stdout__ = Router("out", 1)
    sys.stderr = sys.__stderr__ = Router("err", 2)


for _class in (Router, Binary):
    for _each in list(vars(_class).values()):
        if type(_each) is type(install):
            breakable(_each)
breakable(Binary.raw.fget)
for _each in (Job.__getattr__, current, open_stream, flush_foreign):
    breakable(_each)
