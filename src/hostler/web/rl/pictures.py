"""Pictures that trainings tell: which of them may be shown."""

from __future__ import annotations

import base64
import binascii
import struct
import zlib
from dataclasses import dataclass
from hashlib import blake2b

SIGNATURE = b"\x89PNG\r\n\x1a\n"
BYTES_MAX = 16 << 10
SIDE_MAX = 512
HEAD = struct.Struct(">IIBBBBB")
FRAME = struct.Struct(">I4s")
KINDS = frozenset({b"IHDR", b"PLTE", b"tRNS", b"IDAT", b"IEND"})
"""Chunks that say what is seen. No other may be there: texts, profiles, animations are not looked at."""


@dataclass(frozen=True, slots=True)
class Picture:
    """A PNG that was found sound."""

    png: bytes
    width: int
    height: int

    @property
    def mark(self) -> str:
        """Short, and another for another picture."""
        return blake2b(self.png, digest_size=6).hexdigest()


def picture(text: str) -> Picture:
    """A PNG from its base64 (RFC 2083). Raises `ValueError` for whatever browsers should not be given.

    It has at most `BYTES_MAX` bytes and `SIDE_MAX` pixels on a side, every chunk has its own sum, and behind the last
    one nothing comes. What it shows is not decoded here.
    """
    if len(text) > BYTES_MAX * 4 // 3 + 4:
        raise ValueError("the picture is too large")
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"the picture is no base64: {error}") from error
    if len(data) > BYTES_MAX or not data.startswith(SIGNATURE):
        raise ValueError("the picture is no PNG, or too large")
    kinds, head = _chunks(data)
    if kinds[0] != b"IHDR" or kinds[-1] != b"IEND" or kinds.count(b"IHDR") != 1 or b"IDAT" not in kinds:
        raise ValueError("the picture's chunks are not in order")
    if len(head) != HEAD.size:
        raise ValueError("the picture's head has another length")
    width, height, *_ = HEAD.unpack(head)
    if not (0 < width <= SIDE_MAX and 0 < height <= SIDE_MAX):
        raise ValueError(f"the picture has {width} x {height} pixels")
    return Picture(data, width, height)


def _chunks(data: bytes) -> tuple[list[bytes], bytes]:
    """The kinds of its chunks, and what is in the first. They end where the data does."""
    kinds: list[bytes] = []
    head, at = b"", len(SIGNATURE)
    while not kinds or kinds[-1] != b"IEND":
        if at + FRAME.size > len(data):
            raise ValueError("the picture is cut off")
        length, kind = FRAME.unpack_from(data, at)
        begin, end = at + FRAME.size, at + FRAME.size + length
        if kind not in KINDS or end + 4 > len(data):
            raise ValueError("the picture has a chunk that is not looked at, or is cut off")
        if int.from_bytes(data[end : end + 4], "big") != zlib.crc32(data[at + 4 : end]):
            raise ValueError("a chunk of the picture is damaged")
        if not kinds:
            head = data[begin:end]
        kinds.append(kind)
        at = end + 4
    if at != len(data):
        raise ValueError("something comes behind the picture")
    return kinds, head
