"""Readers of the fields of an order: typed, strict, with messages that name the field."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hostler.workloads.alphazero.game import Game, load

MAX_SEED = 2**64 - 1
LARGEST = sys.float_info.max  # beyond it a whole number of JSON is no float
_SHA256 = re.compile(r"[0-9a-f]{64}")


class OrderError(Exception):
    """The order cannot be read; the message names the field, what is there and what must be."""


class Fields:
    """A JSON object that is read field by field; what is never asked for is unknown, and `end` says so.

    Every reader raises `OrderError` if the field is missing, of another type or out of its range. `field in fields` is
    false if it is missing or null.
    """

    def __init__(self, value: object, where: str = "order") -> None:
        if not isinstance(value, Mapping):
            raise OrderError(f"{where}: must be an object, not {_told(value)}")
        self._value, self._where, self._asked = value, where, set[str]()

    def __contains__(self, name: str) -> bool:
        self._asked.add(name)
        return self._value.get(name) is not None

    def any(self, name: str) -> Any:
        """The field as it is; it must be there, and may be null."""
        self._asked.add(name)
        if name not in self._value:
            raise OrderError(f"{self._where}.{name}: missing")
        return self._value[name]

    def integer(self, name: str, least: int = 0, most: int = 2**63 - 1) -> int:
        """A whole number in `least..most`."""
        value = self.any(name)
        if type(value) is not int or not least <= value <= most:
            raise self._wrong(name, f"an integer in {least}..{most}")
        return value

    def number(self, name: str, least: float = 0.0, most: float = float("inf")) -> float:
        """A finite number in `least..most`."""
        value = self.any(name)
        if type(value) not in (int, float) or not abs(value) <= LARGEST or not least <= value <= most:
            raise self._wrong(name, f"a number in {least:g}..{most:g}")
        return float(value)

    def boolean(self, name: str) -> bool:
        """True or false."""
        value = self.any(name)
        if not isinstance(value, bool):
            raise self._wrong(name, "true or false")
        return value

    def text(self, name: str) -> str:
        """A text that is not empty."""
        value = self.any(name)
        if not isinstance(value, str) or not value:
            raise self._wrong(name, "a text that is not empty")
        return value

    def sha256(self, name: str) -> str:
        """64 hexadecimal digits in lower case."""
        value = self.any(name)
        if not isinstance(value, str) or not _SHA256.fullmatch(value):
            raise self._wrong(name, "a SHA-256, 64 hexadecimal digits in lower case")
        return value

    def fields(self, name: str) -> Fields:
        """An object, to be read and ended in its turn."""
        return Fields(self.any(name), f"{self._where}.{name}")

    def each(self, name: str) -> list[Fields]:
        """A list of objects, each to be read and ended in its turn."""
        value = self.any(name)
        if not isinstance(value, list):
            raise self._wrong(name, "a list")
        return [Fields(item, f"{self._where}.{name}[{i}]") for i, item in enumerate(value)]

    def names(self) -> list[str]:
        """All fields that are there, for objects whose keys are data; asks for every one of them."""
        self._asked.update(self._value)
        return list(self._value)

    def end(self) -> None:
        """Nothing else may be there: raises `OrderError` naming what was never asked for."""
        if unknown := sorted(map(str, self._value.keys() - self._asked)):
            known = ", ".join(sorted(self._asked))
            raise OrderError(f"{self._where}: unknown {', '.join(unknown)}; the fields are {known}")

    def _wrong(self, name: str, must: str) -> OrderError:
        return OrderError(f"{self._where}.{name}: must be {must}, not {_told(self._value[name])}")


@dataclass(frozen=True, slots=True)
class Common:
    """What every order says."""

    config: str
    seed: int
    game: Game


def common(order: Fields) -> Common:
    """Read what every order says, and make the game."""
    for checked_before in ("schema", "stage"):
        order.any(checked_before)
    return Common(order.text("config"), order.integer("seed", 0, MAX_SEED), _game(order))


def _game(order: Fields) -> Game:
    given = order.fields("game")
    reference = {"factory": given.text("factory"), "params": given.any("params")}
    given.end()
    if not isinstance(reference["params"], Mapping):
        raise OrderError(f"order.game.params: must be an object, not {_told(reference['params'])}")
    try:
        return load(reference)
    except (ValueError, TypeError) as error:
        raise OrderError(f"order.game: {error}") from error


def _told(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
