"""Hints: what an exception says about its cause, if a client can do something about it."""

from __future__ import annotations

import re
from types import ModuleType

from .loader import known_names
from .names import modules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .protocols import Fields
    from .sources import Sources

LENGTH = 300  # characters of what is reported
REMOVED = (  # modules that the standard library no longer has
    "aifc asynchat asyncore audioop cgi cgitb chunk crypt imghdr imp lib2to3 mailcap msilib nis "
    "nntplib ossaudiodev pipes smtpd sndhdr spwd sunau telnetlib uu xdrlib")
SHARED = "azure", "google", "ruamel"  # namespaces that many packages share
MAGIC = re.compile(r"%%?[A-Za-z]|!+\s*[^=\s!]|\?+[A-Za-z_]|[A-Za-z_][\w.]*\?+$"
                   r"|(?:uv\s+)?pip[\d.]*\s+install\s")
ASSIGNED = re.compile(r"[\w.,\s]+=\s*(?=[%!])")
CELL = re.compile(r"\s*(%%[A-Za-z].*)")
IMPORT = re.compile(r"\bfrom\s+([\w.]+)\s+import\s+(\w+)|\bimport\s+([\w.]+)")


def of(error: Any, sources: Sources) -> Fields:
    """Return the hint that an exception gives, if any, as a field of `done`."""
    if type(error) is ModuleNotFoundError:
        text = missing(error, sources)
        return {"hint": "no module", "subject": text[:LENGTH]} if text else {}
    if issubclass(type(error), SyntaxError):
        text = magic(error, sources)
        return {"hint": "no python", "subject": text[:LENGTH]} if text else {}
    return {}


def missing(error: ModuleNotFoundError, sources: Sources) -> str:
    """Return the module that is missing, with what the statement imports of it, or "".

    Return "" if a part of an installed package is missing, unless many packages share its
    namespace."""
    name = error.name
    if type(name) is not str:
        return ""
    top = name.partition(".")[0]
    if top[:1] == "_" or top in known_names() or top in REMOVED.split():
        return ""
    if name in modules:  # None there keeps a module from being imported
        return ""
    parent = vars(modules.get(name.rpartition(".")[0], ModuleType("")))
    if "." in name and (top not in SHARED or parent.get("__file__") is not None):
        return ""
    file, number, tb = "", 0, error.__traceback__
    while tb is not None:  # the innermost line of a job, which may call an __import__ of the user's
        if tb.tb_frame.f_code.co_filename in sources.texts:
            file, number = tb.tb_frame.f_code.co_filename, tb.tb_lineno
        tb = tb.tb_next
    for package, item, module in IMPORT.findall(sources.line(file, number) or ""):
        path: str = module or package + "." + item
        if path.startswith(name + "."):
            return path
    return name


def magic(error: SyntaxError, sources: Sources) -> str:
    """Return the line that IPython would understand, or ""."""
    text = sources.texts.get(error.filename or "")
    if text is None:
        return ""
    line = (sources.line(error.filename or "", error.lineno) or "").strip()
    line = ASSIGNED.sub("", line, 1)
    if MAGIC.match(line):
        return line
    cell = CELL.match(text)  # a cell magic: the rest of the cell is no Python at all
    return cell.group(1) if cell else ""
