"""Cartridges that stand still: at an opcode that the processor does not have."""

from __future__ import annotations

from hostler.workloads.gameboy.homebrew.assembler import assemble
from hostler.workloads.gameboy.rom import Cartridge, insert

SOURCE = """
        org $100
        nop
        jp start

        org $134            ; a plain board without a battery, for any Game Boy
        ds 25, 0

        org $150
start:  ld a, $91
        ldh [$40], a        ; the screen is on: frames go by
{wait}
        db $d3
"""
WAIT = """
.wait:  ld a, $10
        ldh [$00], a        ; A, B and START are looked at
        ldh a, [$00]
        and $01
        jr nz, .wait        ; until A is held
"""


def at_once() -> Cartridge:
    """At its start."""
    return insert(assemble(SOURCE.format(wait=""), {}))


def at_a() -> Cartridge:
    """As soon as A is pressed."""
    return insert(assemble(SOURCE.format(wait=WAIT), {}))
