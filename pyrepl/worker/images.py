"""PNG and JPEG: whether data is one, and of what size. Nothing is decoded."""

from __future__ import annotations

from binascii import crc32

PNG, JPEG = b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff"
# Markers of a JPEG: start of frame has the size; some have no length.
FRAMES = [n for n in range(0xC0, 0xD0) if n not in (0xC4, 0xC8, 0xCC)]
BARE = [0x01, *range(0xD0, 0xD8)]


def png_size(data: bytes) -> tuple[int, int]:
    """Return width and height of a PNG, or raise ValueError.

    A damaged picture would be refused together with the conversation that it stands in, so each
    chunk is checked."""
    if data[:8] != PNG or data[12:16] != b"IHDR":
        raise ValueError("the data is no PNG")
    at = 8
    kinds: list[bytes] = []
    while at + 12 <= len(data) and kinds[-1:] != [b"IEND"]:
        end = at + 8 + int.from_bytes(data[at:at + 4], "big")
        if crc32(data[at + 4:end]) != int.from_bytes(data[end:end + 4], "big"):
            break
        kinds.append(data[at + 4:at + 8])
        at = end + 4
    size = int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")
    if kinds[-1:] != [b"IEND"] or b"IDAT" not in kinds or 0 in size:
        raise ValueError("the PNG is damaged")
    return size


def jpeg_size(data: bytes) -> tuple[int, int]:
    """Return width and height of a JPEG, or raise ValueError."""
    if data[:3] != JPEG:
        raise ValueError("the data is no JPEG")
    at = 2
    while at + 9 <= len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if marker in FRAMES:
            height, width = data[at + 5] << 8 | data[at + 6], data[at + 7] << 8 | data[at + 8]
            if width and height and b"\xff\xd9" in data[-64:]:
                return width, height
            break
        at += 1 if marker == 0xFF else 2
        if marker not in BARE and marker != 0xFF:
            at += data[at] << 8 | data[at + 1]
    raise ValueError("the JPEG is damaged")
