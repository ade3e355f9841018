"""The cartridge "key rooms", made from its source."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from hostler.workloads.gameboy.homebrew.assembler import assemble

ROOMS = 16
"""All of them can be reached."""
BUSY = 1400
"""Turns of a loop per frame: what the game costs to emulate is then what others cost (docs/performance.md)."""


@cache
def cartridge(*, busy: int = BUSY, cgb: bool = False, sound_wait: bool = False) -> bytes:
    """Its 32 KiB; the same ones for the same arguments, everywhere.

    `busy` is work per frame, `cgb` marks it as one for the Game Boy Color, with `sound_wait` doors wait for a tone.
    """
    source = files(__package__).joinpath("keyrooms.asm").read_text()
    return assemble(source, {"BUSY": busy, "CGB": 0x80 if cgb else 0, "SOUND_WAIT": int(sound_wait)})
