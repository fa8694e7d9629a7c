"""JSON for the channel, out of C parts that user code can't patch."""

try:
    from _json import encode_basestring_ascii as quote, make_scanner

    class Context:
        """What the C scanner asks to be told."""
        strict = False
        object_hook = object_pairs_hook = array_hook = None
        parse_float, parse_int = float, int
        parse_constant = float
        memo = {}

    scan = make_scanner(Context)

except ImportError:  # an interpreter without the C parts
    from json.encoder import py_encode_basestring_ascii as quote
    from json import JSONDecoder

    scan = JSONDecoder(strict=False).scan_once


def decode(text):
    """Decodes an object."""
    return scan(text, 0)[0]


def encode(value):
    """Encodes what events are made of."""
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
