"""Values to words for pages: short, in one place; what is unknown is a dash that says so, and never 0."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from markupsafe import Markup, escape

from hostler.model import units

UNKNOWN = Markup('<abbr class="unknown" title="unknown">–</abbr>')
HASH_SHOWN = 10
OPEN_AGE = re.compile("\x02(-?[0-9]{1,12}\\.[0-9]{3}) (ago|since|until)\x03")
"""An age that is left open. Whoever gets one into a name gets an age to see."""


def known(value: Any, words: Callable[[Any], str] = str) -> Markup:
    """A value in words, escaped; `UNKNOWN` where there is none."""
    return UNKNOWN if value is None or value == "" else escape(words(value))


def quantity(value: float | None, unit: str = "") -> Markup:
    """An amount with three figures: `131 M/s`."""
    return known(value, lambda amount: units.quantity(amount, unit))


def size(value: float | None) -> Markup:
    """Bytes with three figures: `2.45 kB`."""
    return known(value, lambda amount: units.quantity(amount, " B" if abs(amount) < 999.5 else "B"))


def number(value: float | None, digits: int = 0, unit: str = "") -> Markup:
    """A number with so many digits behind the point, and thousands set apart."""
    return known(value, lambda amount: f"{amount:,.{digits}f}".replace(",", "\N{NARROW NO-BREAK SPACE}") + unit)


def percent(value: float | None, digits: int = 0) -> Markup:
    """A share of 1 as a percentage; 100 % only if it is the whole."""
    return known(value, lambda part: f"{_short_of_whole(100 * part, digits):.{0 if part == 1 else digits}f} %")


def duration(seconds: float | None) -> Markup:
    """`3m 20s`."""
    return known(seconds, units.duration)


def money(amount: float | None, digits: int = 2) -> Markup:
    """An amount in the currency of the fleet file."""
    return known(amount, lambda known_amount: f"{known_amount:,.{digits}f}")


def reading(value: float | None, unit: str) -> Markup:
    """What was measured, in its unit: shares as percentages, seconds as durations."""
    match unit:
        case "share":
            return percent(value)
        case "s":
            return duration(value)
    return quantity(value, f" {unit}")


def integer(value: int) -> str:
    """An integer of any size: long ones in the middle of a table as `1.2e40`."""
    text = str(value)
    return text if len(text) <= 16 else f"{text[0]}.{text[1:3]}e{len(text) - 1}"


def age(at: float | None, now: float | None) -> Markup:
    """How long ago something was, which the page counts on; exactly when, it shows under the pointer.

    Without `now` it is left open, to be `filled`; so are the next two.
    """
    return UNKNOWN if at is None else _time(at, now, "ago")


def since(at: float | None, now: float | None) -> Markup:
    """The same without `ago`: how long something has lasted."""
    return UNKNOWN if at is None else _time(at, now, "since")


def until(at: float | None, now: float | None) -> Markup:
    """In how long something will be."""
    return UNKNOWN if at is None else _time(at, now, "until")


def filled(text: str, now: float) -> str:
    """A text with the ages filled in that were left open."""
    return OPEN_AGE.sub(lambda found: _how_long(float(found[1]), now, found[2]), text)


def moment(at: float | None) -> Markup:
    """When something was, as people write it (UTC)."""
    return UNKNOWN if at is None else _clock(at, _utc(at).strftime("%d %b %H:%M:%S"), "")


def short(text: str | None) -> Markup:
    """The beginning of a hash; all of it under the pointer."""
    if text is None:
        return UNKNOWN
    return Markup('<span class="hash" title="{}">{}</span>').format(text, text[:HASH_SHOWN])


def part_of_path(name: object) -> str:
    """A name as one part of a path, whatever it holds."""
    return quote(str(name), safe="")


FILTERS: Mapping[str, Callable[..., Any]] = {
    each.__name__: each
    for each in (
        known,
        quantity,
        size,
        number,
        percent,
        duration,
        reading,
        money,
        integer,
        age,
        since,
        until,
        moment,
        short,
    )
} | {"part_of_path": part_of_path}


def _short_of_whole(percents: float, digits: int) -> float:
    whole = math.isclose(percents, 100) or percents >= 100
    return percents if whole else min(percents, 100 - 10**-digits)


def _span(seconds: float) -> str:
    return units.duration(max(float(math.floor(seconds)), 0.0)).replace(".0 s", " s")


def _how_long(at: float, now: float, how: str) -> str:
    if how == "until":
        return "now" if at <= now else f"in {_span(at - now)}"
    return _span(now - at) + (" ago" if how == "ago" else "")


def _time(at: float, now: float | None, how: str) -> Markup:
    return _clock(at, f"\x02{at:.3f} {how}\x03" if now is None else _how_long(at, now, how), how)


def _clock(at: float, words: str, how: str) -> Markup:
    exactly = _utc(at).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    counted = f' data-how="{how}"' if how else ""
    # Nothing here needs escaping, and a page has thousands of these.
    return Markup(f'<time datetime="{exactly}"{counted}>{words}</time>')  # noqa: S704


def _utc(at: float) -> datetime:
    return datetime.fromtimestamp(at, UTC)
