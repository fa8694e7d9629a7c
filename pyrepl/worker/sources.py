"""The source of jobs, for tracebacks, inspect and the debugger.

Entries of linecache without a time are not dropped by its checkcache. Until
linecache is imported the sources wait here. Together they are bounded: of a
very long session, the oldest go.
"""

LIMIT = 16 << 20  # characters
COUNT = 10_000  # jobs

texts = {}  # file name -> source
size = 0
cache = None  # linecache.cache


def filename(job):
    """The file name of a job's code."""
    return "<job %s>" % job


def add(name, source):
    """Registers the source of a job."""
    global size
    texts[name] = source
    size += len(source)
    while len(texts) > COUNT or size > LIMIT and len(texts) > 1:
        oldest = next(iter(texts))
        size -= len(texts.pop(oldest))
        if cache is not None:
            cache.pop(oldest, None)
    if cache is not None:
        enter(name, source)


def connect(linecache):
    """Enters what there is into linecache, and from now on all."""
    global cache
    cache = linecache.cache
    for name, source in texts.items():
        enter(name, source)


def enter(name, source):
    cache[name] = (len(source), None, [line + "\n" for line in split(source)], name)


def split(source):
    """The lines as the compiler counts them."""
    return source.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def line(name, number):
    """Returns one line of a job's source, or None."""
    lines = split(texts.get(name, ""))
    return lines[number - 1] if number and 0 < number <= len(lines) else None
