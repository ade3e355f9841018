"""Whole numbers as people write them in ranges: `4294967296`, `4_294_967_296`, `2**32 - 1`, `0x10`."""

from __future__ import annotations

import re

MAX_BITS = 4096
"""Bound of every number on the way: what is bigger is a slip, and could take all memory."""

_LITERAL = r"0[xX][0-9a-fA-F]+(?:_[0-9a-fA-F]+)*|0[oO][0-7]+(?:_[0-7]+)*|0[bB][01]+(?:_[01]+)*|[0-9]+(?:_[0-9]+)*"
_TOKEN = rf"\s*({_LITERAL}|\*\*|[-+*])"
_MAX_TEXT = MAX_BITS


def parse_integer(written: object) -> int:
    """The integer that `written` (an `int` or a text) stands for, exactly.

    A text is a sum of products of powers: ``sum = ["-"] product {("+" | "-") product}``,
    ``product = power {"*" power}``, ``power = literal ["**" literal]``; literals are Python's, underscores and the
    bases 2, 8 and 16 included. Raises `ValueError` for anything else and for numbers of more than `MAX_BITS` bits.
    """
    if type(written) is int:
        return _bounded(written)
    if not isinstance(written, str):
        raise ValueError(f"should be a whole number, as 4294967296 or '2**32'{_float_hint(written)}")
    tokens = _tokens(written)
    value = _sum(tokens)
    if tokens:
        raise ValueError(f"has {tokens[-1]!r} where '+', '-' or '*' should be{_power_hint(tokens[-1])}")
    return value


def _tokens(text: str) -> list[str]:
    """The tokens of a text, last one first, so that reading is popping."""
    if len(text) > _MAX_TEXT:
        raise ValueError(f"is {len(text)} characters long; a number has at most {MAX_BITS} bits")
    found, at = [], 0
    text = text.rstrip()
    while at < len(text):
        match = re.match(_TOKEN, text, at)
        if match is None:
            raise ValueError(f"cannot be read at {text[at:].strip()[:20]!r}; write as '2**32 - 1'")
        found.append(match[1])
        at = match.end()
    return found[::-1]


def _sum(tokens: list[str]) -> int:
    negative = _take(tokens, "-")
    total = -_product(tokens) if negative else _product(tokens)
    while tokens and tokens[-1] in "+-":
        sign = 1 if tokens.pop() == "+" else -1
        total = _bounded(total + sign * _product(tokens))
    return total


def _product(tokens: list[str]) -> int:
    value = _power(tokens)
    while _take(tokens, "*"):
        value = _bounded(value * _power(tokens))
    return value


def _power(tokens: list[str]) -> int:
    base = _literal(tokens)
    if not _take(tokens, "**"):
        return base
    exponent = _literal(tokens)
    # At least this many bits; checked before the power is taken, because that is what would take for ever.
    if base > 1 and (base.bit_length() - 1) * exponent > MAX_BITS:
        raise ValueError(f"is too big: a number has at most {MAX_BITS} bits")
    return _bounded(base**exponent)


def _literal(tokens: list[str]) -> int:
    word = tokens.pop() if tokens else ""
    if not word[:1].isdigit():
        raise ValueError(f"has {word!r} where a number should be" if word else "ends where a number should be")
    decimal = word[1:2].lower() not in ("x", "o", "b")
    return _bounded(int(word, 10 if decimal else 0))


def _take(tokens: list[str], word: str) -> bool:
    taken = bool(tokens) and tokens[-1] == word
    if taken:
        tokens.pop()
    return taken


def _bounded(value: int) -> int:
    if value.bit_length() > MAX_BITS:
        raise ValueError(f"is too big: a number has at most {MAX_BITS} bits")
    return value


def _float_hint(written: object) -> str:
    return "; write 10**9 for 1e9" if isinstance(written, float) else ""


def _power_hint(word: str) -> str:
    return "; powers do not nest" if word == "**" else ""
