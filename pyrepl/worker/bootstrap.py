# The worker's command line. The program follows on descriptor 3: a line with its length in bytes, then a JSON object of
# strings and arrays only, {"token": ..., "session": ..., "files": [[name, source], ...]}, which is a Python literal too. It
# starts in / and goes to PWD: from 3.13 on the interpreter itself imports modules for -c, and '' leads its path by then.
# It runs on a copy of the builtins, out of the reach of user code. What is left here, loader.py takes out of __main__.
import posix
more = lambda n: posix.read(3, n) or posix._exit(1)
size, text = int(b"".join(iter(lambda: more(1), b"\n"))), b""
while len(text) < size: text += more(size - len(text))
bundle = eval(text)
exec(compile(dict(bundle["files"])["loader.py"], "<async-repl/loader.py>", "exec"), {"__name__": "async_repl.loader", "__builtins__": vars(__builtins__).copy(), "bundle": bundle})
