"""What people see of a training: pictures of its machines, small enough to stand in a line of output."""

from __future__ import annotations

import base64
import struct
import zlib
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Greys: TypeAlias = npt.NDArray[np.uint8]
"""`[height, width]`, in four greys from 0, black, to 3."""

SIGNATURE = b"\x89PNG\r\n\x1a\n"
GREYSCALE = 0
BITS = 2


def png(picture: Greys) -> str:
    """A picture as a PNG of two bits a pixel, in base64; some hundred bytes (RFC 2083, chapters 3 and 4).

    Its width has to be a multiple of 4.
    """
    height, width = picture.shape
    head = struct.pack(">IIBBBBB", width, height, BITS, GREYSCALE, 0, 0, 0)
    fours = picture.reshape(height, width // 4, 4)
    packed = (fours << np.array([6, 4, 2, 0], np.uint8)).sum(axis=2).astype(np.uint8)
    unfiltered = np.zeros((height, 1), np.uint8)
    rows = zlib.compress(np.hstack([unfiltered, packed]).tobytes())
    return base64.b64encode(SIGNATURE + _chunk(b"IHDR", head) + _chunk(b"IDAT", rows) + _chunk(b"IEND", b"")).decode()


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
