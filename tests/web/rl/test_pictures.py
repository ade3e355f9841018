"""Which pictures may be shown."""

from __future__ import annotations

import base64
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis.strategies import binary, integers

from hostler.web.rl.pictures import BYTES_MAX, SIDE_MAX, picture
from hostler.workloads.gameboy.pictures import png as drawn
from tests.web.rl.builders import SIGNATURE, base64_of, chunk, png


def test_what_our_trainings_draw_is_shown() -> None:
    found = picture(drawn(np.ones((72, 80), np.uint8)))
    assert (found.width, found.height) == (80, 72)


def test_it_is_shown_as_it_was_told() -> None:
    assert picture(base64_of(png())).png == png()
    assert picture(base64_of(png(grey=1))).mark != picture(base64_of(png(grey=2))).mark


@pytest.mark.parametrize(
    "data",
    [
        b"",
        SIGNATURE,
        b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>",
        b"GIF89a" + png(),
        png()[:-1],
        png()[:-12],
        png() + b"<script>alert(1)</script>",
        png(more=chunk(b"tEXt", b"Comment\0<script>")),
        png(more=chunk(b"acTL", b"\0" * 8)),
        png(more=chunk(b"IHDR", b"\0" * 13)),
        png(width=SIDE_MAX + 1),
        png(width=0),
        png(height=1 << 20),
        png().replace(b"IDAT", b"IDAU"),
        SIGNATURE + chunk(b"IHDR", b"\0" * 12) + chunk(b"IDAT", b"") + chunk(b"IEND", b""),
        SIGNATURE + chunk(b"IDAT", b"") + chunk(b"IEND", b""),
        SIGNATURE + b"\xff\xff\xff\xffIHDR",
        png(more=chunk(b"IDAT", b"\0" * BYTES_MAX)),
    ],
)
def test_what_browsers_should_not_be_given_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="picture"):
        picture(base64_of(data))


@pytest.mark.parametrize("text", ["no base64!", "\u202e", "iVBORw0KGgo", "a" * (1 << 20), "ä"])
def test_what_is_no_base64_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        picture(text)


@given(integers(0, len(png()) - 1), integers(1, 255))
def test_no_byte_of_it_may_be_another(at: int, by: int) -> None:
    damaged = bytearray(png())
    damaged[at] ^= by
    with pytest.raises(ValueError, match="picture"):
        picture(base64_of(bytes(damaged)))


@given(binary(max_size=200))
def test_nothing_else_is_raised(data: bytes) -> None:
    for made in (data, SIGNATURE + data):
        with suppress(ValueError):
            picture(base64.b64encode(made).decode())
