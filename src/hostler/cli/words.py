"""Words of a command line to values: whole numbers, ranges, assignments."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from hostler.model.errors import UsageError
from hostler.settings.ranges import MAX_BITS, parse_integer

_SCIENTIFIC = r"([+-]?)([0-9]+)(?:\.([0-9]+))?[eE]\+?([0-9]{1,6})"


def whole(option: str, word: str) -> int:
    """A whole number, exactly: `4294967296`, `4_294_967_296`, `2**32 - 1`, `0x10`, `1e9`, `4.3e9`."""
    try:
        match = re.fullmatch(_SCIENTIFIC, word.strip())
        return parse_integer(word) if match is None else _scientific(*match.groups(default=""))
    except ValueError as error:
        raise UsageError(f"{option} {word!r} {error}") from error


def interval(option: str, word: str) -> tuple[int, int]:
    """A half-open range `A:B`; `:B` begins at 0."""
    start, colon, stop = word.partition(":")
    if not colon or not stop.strip():
        raise UsageError(f"{option} {word!r} is no range; write START:STOP, as in 0:2**32 (STOP is not part of it)")
    first, last = whole(option, start or "0"), whole(option, stop)
    if first >= last:
        raise UsageError(f"{option} {word!r} is empty; its end lies beyond its start")
    return first, last


def assignments(
    option: str, words: Sequence[str] | None, form: str = "NAME=VALUE", example: str | None = None
) -> dict[str, str]:
    """`NAME=VALUE` words; no name twice. An error names the form, and an example."""
    found: dict[str, str] = {}
    for word in words or ():
        name, sign, value = word.partition("=")
        if not sign or not name:
            such = "" if example is None else f", as in `{option} {example}`"
            raise UsageError(f"{option} {word!r}: {form} is expected{such}")
        if name in found:
            raise UsageError(f"{option} gives {name!r} twice; once is enough")
        found[name] = value
    return found


def json_or_text(word: str) -> Any:
    """The value of a word: JSON where it is JSON, otherwise the text itself."""
    try:
        return json.loads(word, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return word


def _scientific(sign: str, digits: str, decimals: str, exponent: str) -> int:
    power = int(exponent) - len(decimals)
    # Far more digits than bits are allowed; checked before the power is taken, because that would take for ever.
    if len(digits) + int(exponent) > MAX_BITS:
        raise ValueError(f"is too big: a number has at most {MAX_BITS} bits")
    numerator = int(sign + digits + decimals) * 10 ** max(power, 0)
    value, rest = divmod(numerator, 10 ** max(-power, 0))
    if rest:
        raise ValueError("is no whole number")
    return parse_integer(value)


def _refuse(constant: str) -> Any:
    raise ValueError(constant)
