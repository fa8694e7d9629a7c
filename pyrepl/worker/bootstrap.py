# The worker's command line. The program follows on descriptor 3: a line with its length in bytes,
# then a line with a Python literal, (token, [(file name, length), ...]), then the files. The worker
# starts in / and loader.py goes to PWD: from 3.13 on the interpreter itself imports modules for -c,
# and '' leads its path by then. loader.py runs on a copy of the builtins, out of the reach of user
# code, and takes the names that are left here out of __main__. This file runs on every Python 3: it
# says which ones can't hold a session.
import posix, sys
if sys.implementation.name != "cpython":  # others do not honour a frame's own builtins
    raise SystemExit("sessions need CPython, and this is %s" % sys.implementation.name)
if sys.version_info < (3, 9):
    raise SystemExit("sessions need Python 3.9 or newer, and this is %d.%d" % sys.version_info[:2])
more = lambda n: posix.read(3, n) or posix._exit(1)
size, text, sources = int(b"".join(iter(lambda: more(1), b"\n"))), b"", {}
while len(text) < size: text += more(size - len(text))
at = text.index(b"\n") + 1
token, files = eval(text[:at])
for name, size in files: sources[name], at = text[at:at + size].decode(), at + size
loader = type(sys)("async_repl.loader")
loader.__builtins__ = dict(vars(__builtins__), __lazy_import__=__import__)  # 3.15 can import late
exec(compile(sources["loader.py"], "<async-repl/loader.py>", "exec"), vars(loader))
loader.start(loader, token, sources)
