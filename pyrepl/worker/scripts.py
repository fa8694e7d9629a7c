"""Run a file as `python file args` does, and a notebook cell by cell.

Its names stay in the session, and so does what it does to sys.path itself. sys.argv, __file__ and
the first entry of sys.path are put back when it has ended.
"""

from __future__ import annotations

import sys
from _ast import PyCF_ALLOW_TOP_LEVEL_AWAIT
from _stat import S_ISDIR, S_ISREG
from os import fsdecode, getcwd
from os.path import dirname, join, realpath
from posix import O_CLOEXEC, O_NONBLOCK, O_RDONLY, close, environ, fstat, open as open_file, read

from .frames import breakable
from .names import Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .evaluate import Evaluator
    from .session import Session

LIMIT = 16 << 20  # bytes
NESTED = 20  # files that run one another
EXPORT = b"# Session ", b", exported by async-repl"  # a file with this first line may await
NOTEBOOK = ".ipynb"
KNOWN = 200  # files of a job whose hashes are reported
MAGICS = "%matplotlib", "%config", "%load_ext", "%reload_ext", "%autoreload"  # do nothing here


class Cell:
    """A piece of a file that runs by itself."""

    def __init__(self, name: str, source: str, code: Any = None, raises: bool = False) -> None:
        """Run under the file name `name`; code is compiled already, or None.

        A cell that raises is expected to fail: it does not end the notebook."""
        self.name, self.source, self.code, self.raises = name, source, code, raises

    def file(self) -> list[str]:
        """Return path and arguments if the cell runs a file, by a line like IPython's %run."""
        line = self.source.strip()
        if self.code is not None or line.split(None, 1)[:1] != ["%run"] or "\n" in line:
            return []
        from shlex import split
        try:
            words = split(line.rstrip("; \t"))[1:]
        except ValueError:  # an open quotation mark: Python refuses the line
            return []
        while words[:1] == ["-i"]:  # the file has the variables in every case
            del words[0]
        why = ""
        if not words:
            why = "it needs the path of a file"
        elif words[0].startswith("-"):
            why = "of its options only -i is known here"
        elif words[0].endswith(";"):
            why = "a line runs one file and nothing else; put the rest into a cell of its own"
        if why:
            raise Refused("%s: %s: %s" % (self.name, line, why))
        return words

    def silent(self) -> bool:
        """Report whether the value of its last expression is not to be shown, as in Jupyter."""
        return self.source.rstrip().endswith(";")


class Script:
    """A file that is run by a job."""

    def __init__(self, session: Session, files: dict[str, str], path: str,
                 args: list[str]) -> None:
        """Read and check the file. A relative path begins in the session's directory.

        Files get the hash of its content, or an empty one if it can't be read."""
        self.session, self.futures = session, 0
        self.file = join(fsdecode(environ[b"PWD"]), path)
        self.argv = [path if join(getcwd(), path) == self.file else self.file, *args]
        self.saved: tuple[Any, ...] | None = None
        known = self.file in files or len(files) >= KNOWN
        if not known:
            files[self.file] = ""
        data, stamp = contents(self.file)
        if not known:
            files[self.file] = hash_of(data)
        if self.file.endswith(NOTEBOOK):
            self.cells = cells_of(self.file, data)
            for cell in self.cells:
                session.sources.add(cell.name, cell.source)
        else:
            text = decoded(self.file, data)
            session.sources.add(self.file, text, stamp)
            first = data[:data.find(b"\n")]
            ours = first.startswith(EXPORT[0]) and EXPORT[1] in first
            flags = PyCF_ALLOW_TOP_LEVEL_AWAIT if ours else 0
            self.cells = [Cell(self.file, text, compile(data, self.file, "exec", flags, True))]

    def enter(self, evaluator: Evaluator) -> None:
        """Set sys.argv, sys.path and __file__ for the code, and save what leave puts back."""
        self.futures, evaluator.futures = evaluator.futures, 0
        names, path = self.session.names, sys.path
        namespace, directory = names.namespace, dirname(realpath(self.file))
        first = path[:1]
        self.saved = (sys.argv, "__file__" in namespace, namespace.get("__file__"), directory,
                      first, names.before_file)
        names.before_file = None if self.file.endswith(NOTEBOOK) else names.functions()
        sys.argv = self.argv
        namespace["__file__"], namespace["__name__"] = self.file, "__main__"
        if not getattr(sys.flags, "safe_path", False):
            path[:len(first) if first == [""] else 0] = [directory]

    def leave(self, evaluator: Evaluator) -> None:
        """Put back what enter has set; what the code itself has done to sys.path stays."""
        evaluator.futures = self.futures
        evaluator.form = "uncompiled"  # the history keeps a line %run for a file, not Python
        if self.saved is None:
            return
        names, path = self.session.names, sys.path
        sys.argv, had_file, file, directory, first, names.before_file = self.saved
        namespace = names.namespace
        if had_file:
            namespace["__file__"] = file
        else:
            namespace.pop("__file__", None)
        own = first if first == [""] else []
        for i, each in enumerate(path):
            if each is directory:
                path[i:i + 1] = own
                break
        else:  # the code has taken it away
            path[:0] = [each for each in own if each not in path]


class Scripts:
    """The files that a job runs."""

    def __init__(self, evaluator: Evaluator) -> None:
        self.evaluator = evaluator
        self.hashes: dict[str, str] = {}  # path of each file that the job has run -> its hash
        self._open: list[Script] = []  # the file that is run, and those that it runs

    @breakable
    def run(self, path: str, args: list[str]) -> None:
        """Run a file. The job leaves it at its end, and any file in it that has failed."""
        if len(self._open) == NESTED:
            raise Refused("%s: %d files already run one another" % (path, NESTED))
        script = Script(self.evaluator.session, self.hashes, path, args)
        self._enter(script)
        for cell in script.cells:
            depth = len(self._open)
            try:
                self._run_part(cell, cell is script.cells[-1])
            except (Exception, SystemExit) as error:
                if not cell.raises:
                    raise
                self.leave(depth)
                self.evaluator.ending_of(error)

    def _enter(self, script: Script) -> None:
        """Set what a file finds. No interrupt comes between, or leave would put back what was never
        set."""
        self._open.append(script)
        script.enter(self.evaluator)

    def leave(self, depth: int = 0) -> None:
        """Leave the innermost files until only depth are open. No interrupt comes between."""
        while len(self._open) > depth:
            self._open.pop().leave(self.evaluator)

    @breakable
    def _run_part(self, cell: Cell, final: bool) -> None:
        """Run a cell by what it is: a file, a line that runs one, or code of a notebook."""
        file = cell.file()
        if cell.code is not None:
            self.evaluator.run([cell.code])
        elif file:
            self._run_inner(file)
        else:
            self._run_cell(cell, final)

    @breakable
    def _run_inner(self, file: list[str]) -> None:
        """Run a file for a cell. Its sys.exit ends the file alone, as in Jupyter."""
        depth = len(self._open)
        try:
            self.run(file[0], file[1:])
        except SystemExit as error:
            if error.code:
                print("%s: SystemExit: %s" % (file[0], error.code), file=sys.stderr)
        self.leave(depth)

    @breakable
    def _run_cell(self, cell: Cell, final: bool) -> None:
        """Run a cell of a notebook and print its value. The final cell's value is the result."""
        evaluator = self.evaluator
        body, last = evaluator.compile(cell.source, cell.name)
        value = evaluator.run([code for code in (body, last) if code is not None])
        if last is not None and not cell.silent():
            evaluator.show(value)
        if not final:
            evaluator.session.end_figures()
            if evaluator.result is not None:
                print(evaluator.result)
                evaluator.result = None


@breakable
def contents(path: str) -> tuple[bytes, tuple[int, float]]:
    """Return the bytes of a regular file, and its size and time for linecache."""
    try:
        # O_NONBLOCK keeps open from waiting for the writer of a named pipe.
        fd = open_file(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC)
    except FileNotFoundError:
        raise Refused("there is no file %s" % path)
    except (OSError, ValueError) as error:
        raise Refused("%s can't be opened: %s" % (path, getattr(error, "strerror", error)))
    try:
        st = fstat(fd)
        if S_ISDIR(st.st_mode):
            raise Refused("%s is a directory: name a file in it" % path)
        if not S_ISREG(st.st_mode):
            raise Refused("%s is no regular file" % path)
        parts: list[bytes] = []
        size = 0
        while size <= LIMIT:
            data = read(fd, 1 << 20)
            if not data:
                return b"".join(parts), (st.st_size, st.st_mtime)
            parts.append(data)
            size += len(data)
        raise Refused("%s is larger than %d MiB, which is the most that can be run"
                      % (path, LIMIT >> 20))
    except OSError as error:
        raise Refused("%s can't be read: %s" % (path, error.strerror))
    finally:
        close(fd)


@breakable
def hash_of(data: bytes) -> str:
    """Return the SHA-256 of data. hashlib comes last: it loads OpenSSL, which takes a while."""
    from importlib import import_module
    for name in ("_sha2", "_sha256"):  # Python 3.12 and newer have _sha2
        try:
            return str(import_module(name).sha256(data).hexdigest())
        except ImportError:
            pass
    from hashlib import sha256
    return sha256(data).hexdigest()


@breakable
def decoded(path: str, data: bytes) -> str:
    """Return the text of a source file, which can declare its encoding."""
    from importlib.util import decode_source
    try:
        return decode_source(data.replace(b"\0", b" "))  # the compiler refuses it in its own words
    except (SyntaxError, UnicodeError, LookupError) as error:
        raise Refused("%s is neither UTF-8 nor in an encoding that it declares: %s" % (path, error))


@breakable
def cells_of(path: str, data: bytes) -> list[Cell]:
    """Return the code cells of a notebook, without the magics that do nothing here."""
    from json import loads
    try:
        notebook = loads(data)
        if notebook["nbformat"] < 4:
            raise Refused("%s has the old notebook format %s: save it again with a newer Jupyter"
                          % (path, notebook["nbformat"]))
        language = language_of(notebook)
        if not language.lower().startswith(("python", "ipython")):
            raise Refused("%s is a notebook in %s, and only Python runs here: run its code with %s "
                          "in a terminal" % (path, language, language))
        found = []
        for n, cell in enumerate(notebook["cells"], 1):
            if cell["cell_type"] == "code":
                tags = cell.get("metadata", {}).get("tags", ())  # see nbclient
                found.append(Cell("%s, cell %d" % (path, n), code_of("".join(cell["source"])),
                                  None, "raises-exception" in tags))
        return found
    except (ValueError, RecursionError) as error:
        raise Refused("%s is no notebook: %s" % (path, error))
    except (KeyError, TypeError, AttributeError):
        raise Refused("%s is no notebook: it is not of the form that nbformat 4 has" % path)


def code_of(source: str) -> str:
    """Return a cell as Jupyter runs it: without the indentation of its first line.

    In the place of magics that do nothing here is nothing, or a pass in a block."""
    lines = source.split("\n")
    first = next((line for line in lines if line.strip()), "")
    margin = first[:len(first) - len(first.lstrip())]
    code: list[str] = []
    for line in lines:
        if margin and line.startswith(margin):
            line = line[len(margin):]
        bare = line.lstrip()
        if bare.startswith(MAGICS):
            line = line[:-len(bare)] + "pass" if bare != line else ""
        code.append(line)
    return "\n".join(code)


def language_of(notebook: dict[str, Any]) -> str:
    """Return the language that the kernel of a notebook runs. A notebook need not name any."""
    metadata = notebook.get("metadata", {})
    for key, field in (("kernelspec", "language"), ("language_info", "name")):
        language = metadata.get(key, {}).get(field)
        if type(language) is str and language:
            return language
    return "Python"
