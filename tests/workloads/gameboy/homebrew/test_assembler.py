"""The assembler: every instruction as an emulator of others knows it, expressions, labels, and what is refused."""

from __future__ import annotations

import re

import pytest
from pyboy.core import opcodes

from hostler.workloads.gameboy.homebrew.assembler import CODES, HEADER_SUM, ROM_BYTES, AssemblyError, assemble

PREFIX = 0xCB
LEFT_OUT = ("ADD SP,r8", "LD HL,SP+r8")
"""Nothing of ours computes with the stack pointer."""


def written(command: str) -> tuple[str, bytes]:
    """As we write it what PyBoy calls `command`, and the bytes of its numbers."""
    text = command.lower().replace("(", "[").replace(")", "]")
    text = "ldh" + text[2:] if text in ("ld [c],a", "ld a,[c]") else text
    text = text.replace("jp [hl]", "jp hl").replace("stop 0", "stop")
    text = re.sub(r"rst ([0-9a-f]+)h", lambda match: f"rst ${match[1]}", text)
    for name, value, kept in (("d16", "$1234", b"\x34\x12"), ("a16", "$1234", b"\x34\x12"), ("d8", "$56", b"\x56")):
        if name in text:
            return text.replace(name, value), kept
    if "a8" in text:
        return text.replace("a8", "$ff78"), b"\x78"
    if "r8" in text:
        return text.replace("r8", "5 + 2"), b"\x05"  # from the next instruction on
    return text, b"\0" if text == "stop" else b""


@pytest.mark.parametrize(
    "code", [pytest.param(code, marks=pytest.mark.long if code % 9 else ()) for code in range(512)]
)
def test_every_instruction_is_that_of_the_emulator(code: int) -> None:
    command = opcodes.CPU_COMMANDS[code]
    if command in ("", "PREFIX CB", "Breakpoint/Illegal opcode") or command in LEFT_OUT:
        return
    text, numbers = written(command)
    wanted = (bytes([PREFIX, code - 256]) if code >= 256 else bytes([code])) + numbers
    made = assemble(text)
    assert made[: len(wanted)] == wanted, text


def test_there_is_nothing_else() -> None:
    known = {code[:2] if code[0] == PREFIX else code[:1] for code in CODES.values()}
    assert len(known) == 512 - 1 - 11 - len(LEFT_OUT), "all but the prefix, and what the processor has not"


def test_names_expressions_and_directives() -> None:
    made = assemble(
        """
        width equ 3 * (2 + 1)     ; a comment, "with a text"
        start:  ld a, width - 1
                jr start.next
                db "a;b", $ff, %101
        .next:  ld hl, table + 1
                ld [hl], low(table) ^ high(table)
                ds 2, 7
        table:  dw $1234, start
                org $20
                db LATER
        LATER equ 9
        """
    )
    assert made[:2] == bytes([0x3E, 8])
    assert made[2:4] == bytes([0x18, 5])
    assert made[4:9] == b"a;b\xff\x05"
    assert made[9:16] == bytes([0x21, 17, 0, 0x36, 16, 7, 7])
    assert made[16:20] == bytes([0x34, 0x12, 0, 0])
    assert made[0x20] == 9
    assert len(made) == ROM_BYTES


def test_the_header_has_its_sums() -> None:
    made = assemble('org $134\ndb "TEST", 0')
    assert (sum(made[0x134:HEADER_SUM]) + 25 + made[HEADER_SUM]) % 256 == 0
    assert int.from_bytes(made[0x14E:0x150], "big") == (sum(made[:0x14E]) + sum(made[0x150:])) & 0xFFFF


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("ld a, b, c", "no such instruction"),
        ("ld [hl], [hl]", "no such instruction"),
        ("nop\nbad: jp nowhere", "line 2: 'nowhere' is no value"),
        ("a_label: nop\na_label: nop", "line 2: 'a_label' is there already"),
        ("here: ds 200\njr here", "too far for jr"),
        ("db 256", "does not fit"),
        ("ld bc, 70000", "does not fit"),
        ("org $7fff\ndw 1", "no room"),
        ("db 1 / 2", "only numbers"),
        ("db __import__('os')", "is no value|only numbers"),
    ],
)
def test_what_cannot_be_is_told_with_its_line(source: str, why: str) -> None:
    with pytest.raises(AssemblyError, match=why):
        assemble(source)
