"""JSON for the channel, made of C parts that user code can't patch."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    quote: Callable[[str], str]
    scan: Callable[[str, int], tuple[Any, int]]

try:
    from _json import encode_basestring_ascii as quote, make_scanner

    class Context:
        """The settings that the C scanner reads."""

        strict = False
        object_hook = object_pairs_hook = array_hook = None
        parse_float, parse_int = float, int
        parse_constant = float
        memo: dict[str, str] = {}

    scan = make_scanner(Context)  # type: ignore[arg-type]

except ImportError:  # an interpreter without the C parts
    from json import JSONDecoder
    from json.encoder import py_encode_basestring_ascii as quote

    scan = JSONDecoder(strict=False).scan_once  # type: ignore[attr-defined]


def decode(text: str) -> Any:
    """Decode one JSON value at the beginning of text."""
    return scan(text, 0)[0]


def encode(value: Any) -> str:
    """Encode a value made of str, None, bool, int, dict and list or tuple."""
    kind = type(value)
    if kind is str:
        return quote(value)
    if value is None:
        return "null"
    if kind is bool:
        return "true" if value else "false"
    if kind is int:
        return int.__repr__(value)
    if kind is dict:
        return "{" + ", ".join([quote(k) + ": " + encode(v) for k, v in value.items()]) + "}"
    return "[" + ", ".join([encode(v) for v in value]) + "]"
