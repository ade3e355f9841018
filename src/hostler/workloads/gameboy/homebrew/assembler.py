"""Assembles programs for the Game Boy's processor (SM83), as much of the usual notation as our cartridge needs.

One instruction or directive a line, `;` begins a comment, a name with `:` is a label, one with a leading dot belongs to
the label before it. Numbers are `12`, `$c0`, `%101`, expressions those of Python over integers, with `high(x)` and
`low(x)`. Directives: `NAME equ x`, `org x`, `db x, "text"`, `dw x`, `ds n, fill`.

The instructions and their codes: the opcode matrix of the Pan Docs (https://gbdev.io/pandocs/CPU_Instruction_Set.html).
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

ROM_BYTES = 0x8000
EMPTY = 0xFF
HEADER, HEADER_SUM, GLOBAL_SUM = slice(0x134, 0x14D), 0x14D, 0x14E

REGISTERS = ("b", "c", "d", "e", "h", "l", "[hl]", "a")
PAIRS = ("bc", "de", "hl", "sp")
STACKED = ("bc", "de", "hl", "af")
POINTERS = ("[bc]", "[de]", "[hl+]", "[hl-]")
CONDITIONS = ("nz", "z", "nc", "c")
ARITHMETIC = ("add", "adc", "sub", "sbc", "and", "xor", "or", "cp")
SHIFTS = ("rlc", "rrc", "rl", "rr", "sla", "sra", "swap", "srl")
BITS = ("bit", "res", "set")
PLAIN = {
    "nop": 0x00,
    "rlca": 0x07,
    "rrca": 0x0F,
    "stop": 0x10,
    "rla": 0x17,
    "rra": 0x1F,
    "daa": 0x27,
    "cpl": 0x2F,
    "scf": 0x37,
    "ccf": 0x3F,
    "halt": 0x76,
    "ret": 0xC9,
    "reti": 0xD9,
    "di": 0xF3,
    "ei": 0xFB,
}

BYTE, WORD, JUMP, IN_BYTE, IN_WORD = "n8", "n16", "e8", "[n8]", "[n16]"
WIDTHS = {BYTE: 1, WORD: 2, JUMP: 1, IN_BYTE: 1, IN_WORD: 2}

Operands: TypeAlias = tuple[str, ...]
Names: TypeAlias = dict[str, int]

LINE = re.compile(r"""(?:(?P<label>\.?[A-Za-z_]\w*):)?\s*(?P<rest>.*)""", re.DOTALL)
TOKEN = re.compile(r'"[^"]*"|;.*')
NUMBER = re.compile(r"\$([0-9a-fA-F]+)|%([01]+)")
QUALIFIED = re.compile(r"(?<=\w)\.(?=[A-Za-z_])")
LOCAL = re.compile(r"(?<![\w.])\.([A-Za-z_]\w*)")


class AssemblyError(Exception):
    """A line that cannot be assembled; the message names it."""


def assemble(source: str, defines: Mapping[str, int] | None = None) -> bytes:
    """A cartridge of 32 KiB: the bytes of `source`, empty places filled, with the sums of its header.

    `defines` are names that the source may use and does not define. Raises `AssemblyError`.
    """
    names = dict(defines or {})
    _place(source, names, None)
    rom = bytearray([EMPTY]) * ROM_BYTES
    _place(source, names, rom)
    rom[HEADER_SUM] = _header_sum(rom)
    rom[GLOBAL_SUM : GLOBAL_SUM + 2] = bytes(2)
    rom[GLOBAL_SUM : GLOBAL_SUM + 2] = (sum(rom) & 0xFFFF).to_bytes(2, "big")
    return bytes(rom)


@dataclass(slots=True)
class _Place:
    """Where the next byte goes, and what labels with a dot belong to."""

    at: int = 0
    label: str = ""


def _place(source: str, names: Names, rom: bytearray | None) -> None:
    """Go through the source: without `rom`, to learn where labels are; with it, to write."""
    place = _Place()
    for number, text in enumerate(source.splitlines(), 1):
        try:
            _line(text, place, names, rom)
        except (AssemblyError, ValueError, OverflowError) as error:
            raise AssemblyError(f"line {number}: {error}: {text.strip()}") from error


def _line(text: str, place: _Place, names: Names, rom: bytearray | None) -> None:
    match = LINE.fullmatch(_without_comment(text).strip())
    assert match is not None  # everything is optional in it
    label, rest = match["label"], match["rest"]
    if label is not None:
        if not label.startswith("."):
            place.label = label
        _name(_full(label, place), place.at, names, rom)
    if not rest:
        return
    words = rest.split(None, 2)
    if len(words) == 3 and words[1].lower() == "equ":
        _name(words[0], _value(words[2], place, names), names, rom)
        return
    written = _written(rest, place, names, lenient=rom is None)
    if written is None:  # org
        place.at = _value(rest.split(None, 1)[1], place, names)
        return
    if rom is not None:
        if place.at + len(written) > len(rom):
            raise AssemblyError(f"no room at {place.at:#06x}")
        rom[place.at : place.at + len(written)] = written
    place.at += len(written)


def _name(name: str, value: int, names: Names, rom: bytearray | None) -> None:
    if rom is None and name in names:
        raise AssemblyError(f"{name!r} is there already")
    if rom is not None and names[name] != value:
        raise AssemblyError(f"{name!r} is {names[name]} once and {value} another time")
    names[name] = value


def _written(rest: str, place: _Place, names: Names, *, lenient: bool) -> bytes | None:
    """The bytes of an instruction or a directive; with `lenient`, names that are not known yet stand for anything."""
    mnemonic, _, tail = rest.partition(" ")
    operands = _split(tail)

    def value(text: str) -> int:
        return _value(text, place, names, lenient=lenient)

    mnemonic = mnemonic.lower()
    if mnemonic == "org":
        return None
    if mnemonic in _DIRECTIVES:
        return _DIRECTIVES[mnemonic](operands, value)
    return _instruction(mnemonic, operands, value, place.at, lenient=lenient)


def _bytes(operands: list[str], value: Callable[[str], int]) -> bytes:
    made = bytearray()
    for each in operands:
        made += each[1:-1].encode("ascii") if each.startswith('"') else _unsigned(value(each), 1)
    return bytes(made)


def _words(operands: list[str], value: Callable[[str], int]) -> bytes:
    return b"".join(_unsigned(value(each), 2) for each in operands)


def _space(operands: list[str], value: Callable[[str], int]) -> bytes:
    fill = value(operands[1]) if len(operands) > 1 else 0
    return _unsigned(fill, 1) * value(operands[0])


_DIRECTIVES: Mapping[str, Callable[[list[str], Callable[[str], int]], bytes]] = {
    "db": _bytes,
    "dw": _words,
    "ds": _space,
}


def _instruction(mnemonic: str, operands: list[str], value: Callable[[str], int], at: int, *, lenient: bool) -> bytes:
    for shape in _shapes(mnemonic, operands):
        code = CODES.get((mnemonic, *shape))
        if code is not None:
            break
    else:
        raise AssemblyError("there is no such instruction")
    made = bytearray(code)
    for kind, text in zip(shape, operands, strict=True):
        if kind not in WIDTHS:
            continue
        number = value(text.strip("[]") if kind in (IN_BYTE, IN_WORD) else text)
        if kind == JUMP:
            made += _distance(number - at - 2, lenient=lenient)
        elif kind == IN_BYTE:
            made += _unsigned(number & 0xFF if number >= 0xFF00 else number, 1)
        else:
            made += _unsigned(number, WIDTHS[kind])
    return bytes(made)


def _shapes(mnemonic: str, operands: list[str]) -> Iterator[Operands]:
    """What the operands may be meant as, the most special first."""
    choices = [_choices(mnemonic, each) for each in operands]
    made: list[Operands] = [()]
    for several in choices:
        made = [(*before, each) for before in made for each in several]
    yield from made


def _choices(mnemonic: str, operand: str) -> list[str]:
    plain = operand.lower().replace(" ", "")
    if mnemonic == "rst" and (number := NUMBER.fullmatch(plain)) is not None:
        plain = str(_number(number))
    if plain.startswith("["):
        return [plain, IN_BYTE if mnemonic == "ldh" else IN_WORD]
    return [plain, JUMP if mnemonic == "jr" else BYTE, WORD]


def _unsigned(value: int, width: int) -> bytes:
    top = 1 << 8 * width
    if not -(top // 2) <= value < top:
        raise AssemblyError(f"{value} does not fit into {width} bytes")
    return (value % top).to_bytes(width, "little")


def _distance(value: int, *, lenient: bool) -> bytes:
    if lenient:
        return b"\0"
    if not -128 <= value < 128:
        raise AssemblyError(f"{value} is too far for jr")
    return value.to_bytes(1, "little", signed=True)


def _full(label: str, place: _Place) -> str:
    return place.label + label if label.startswith(".") else label


def _without_comment(text: str) -> str:
    return TOKEN.sub(lambda match: "" if match[0].startswith(";") else match[0], text)


def _split(tail: str) -> list[str]:
    """Operands between commas, but for those in texts and in brackets of any kind."""
    parts, depth, quoted = [""], 0, False
    for char in tail.strip():
        quoted ^= char == '"'
        depth += (char in "([") - (char in ")]")
        if char == "," and not depth and not quoted:
            parts.append("")
        else:
            parts[-1] += char
    return [part.strip() for part in parts] if tail.strip() else []


def _value(text: str, place: _Place, names: Names, *, lenient: bool = False) -> int:
    """An expression over numbers and names. Raises `AssemblyError`."""
    plain = NUMBER.sub(lambda match: str(_number(match)), text)
    plain = QUALIFIED.sub("__", plain)
    plain = LOCAL.sub(lambda match: f"{place.label}__{match[1]}", plain)
    known = {name.replace(".", "__"): value for name, value in names.items()}
    try:
        return _evaluated(ast.parse(plain.strip(), mode="eval").body, known, lenient=lenient)
    except (SyntaxError, KeyError, TypeError, ZeroDivisionError) as error:
        raise AssemblyError(f"{text!r} is no value that is known ({error})") from error


def _number(match: re.Match[str]) -> int:
    return int(match[1], 16) if match[1] else int(match[2], 2)


_BINARY: Mapping[type, Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
}
_CALLS: Mapping[str, Callable[[int], int]] = {"high": lambda value: value >> 8, "low": lambda value: value & 0xFF}


def _evaluated(node: Any, names: Names, *, lenient: bool) -> int:
    match node:
        case ast.Constant(value=int(number)):
            return number
        case ast.Name(id=name):
            return names.get(name, 0) if lenient else names[name]
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return -_evaluated(inner, names, lenient=lenient)
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _BINARY:
            both = (_evaluated(each, names, lenient=lenient) for each in (left, right))
            return _BINARY[type(sign)](*both)
        case ast.Call(func=ast.Name(id=name), args=[inner]):
            return _CALLS[name](_evaluated(inner, names, lenient=lenient))
    raise AssemblyError("only numbers, names and + - * // % & | ^ << >> are understood")


def _header_sum(rom: bytearray) -> int:
    """Over title, kind and version (https://gbdev.io/pandocs/The_Cartridge_Header.html)."""
    total = 0
    for byte in rom[HEADER]:
        total = (total - byte - 1) & 0xFF
    return total


def _codes() -> Iterator[tuple[tuple[str, ...], bytes]]:
    """All instructions: what they are written as, and their first bytes."""
    for name, code in PLAIN.items():
        yield (name,), bytes([code, 0] if name == "stop" else [code])
    yield from _loads()
    yield from _sums()
    yield from _jumps()
    for row, name in enumerate(SHIFTS):
        for column, register in enumerate(REGISTERS):
            yield (name, register), bytes([0xCB, 8 * row + column])
    for row, name in enumerate(BITS, 1):
        for bit in range(8):
            for column, register in enumerate(REGISTERS):
                yield (name, str(bit), register), bytes([0xCB, 64 * row + 8 * bit + column])


def _loads() -> Iterator[tuple[tuple[str, ...], bytes]]:
    for row, to in enumerate(REGISTERS):
        yield ("ld", to, BYTE), bytes([0x06 + 8 * row])
        for column, register in enumerate(REGISTERS):
            if not to == register == "[hl]":
                yield ("ld", to, register), bytes([0x40 + 8 * row + column])
    for row, (pair, pointer, stacked) in enumerate(zip(PAIRS, POINTERS, STACKED, strict=True)):
        yield ("ld", pair, WORD), bytes([0x01 + 16 * row])
        yield ("ld", pointer, "a"), bytes([0x02 + 16 * row])
        yield ("ld", "a", pointer), bytes([0x0A + 16 * row])
        yield ("pop", stacked), bytes([0xC1 + 16 * row])
        yield ("push", stacked), bytes([0xC5 + 16 * row])
    yield ("ld", IN_WORD, "sp"), b"\x08"
    yield ("ldh", IN_BYTE, "a"), b"\xe0"
    yield ("ldh", "a", IN_BYTE), b"\xf0"
    yield ("ldh", "[c]", "a"), b"\xe2"
    yield ("ldh", "a", "[c]"), b"\xf2"
    yield ("ld", IN_WORD, "a"), b"\xea"
    yield ("ld", "a", IN_WORD), b"\xfa"
    yield ("ld", "sp", "hl"), b"\xf9"


def _sums() -> Iterator[tuple[tuple[str, ...], bytes]]:
    for row, name in enumerate(ARITHMETIC):
        yield (name, "a", BYTE), bytes([0xC6 + 8 * row])
        yield (name, BYTE), bytes([0xC6 + 8 * row])
        for column, register in enumerate(REGISTERS):
            yield (name, "a", register), bytes([0x80 + 8 * row + column])
            yield (name, register), bytes([0x80 + 8 * row + column])
    for row, register in enumerate(REGISTERS):
        yield ("inc", register), bytes([0x04 + 8 * row])
        yield ("dec", register), bytes([0x05 + 8 * row])
    for row, pair in enumerate(PAIRS):
        yield ("inc", pair), bytes([0x03 + 16 * row])
        yield ("dec", pair), bytes([0x0B + 16 * row])
        yield ("add", "hl", pair), bytes([0x09 + 16 * row])


def _jumps() -> Iterator[tuple[tuple[str, ...], bytes]]:
    yield ("jr", JUMP), b"\x18"
    yield ("jp", WORD), b"\xc3"
    yield ("jp", "hl"), b"\xe9"
    yield ("call", WORD), b"\xcd"
    for row, condition in enumerate(CONDITIONS):
        yield ("jr", condition, JUMP), bytes([0x20 + 8 * row])
        yield ("ret", condition), bytes([0xC0 + 8 * row])
        yield ("jp", condition, WORD), bytes([0xC2 + 8 * row])
        yield ("call", condition, WORD), bytes([0xC4 + 8 * row])
    for target in range(0, 0x40, 8):
        yield ("rst", str(target)), bytes([0xC7 + target])


CODES: Mapping[tuple[str, ...], bytes] = dict(_codes())
