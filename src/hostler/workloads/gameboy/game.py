"""What there is to know of a game: where its values lie, what is seen, what is worth something, when it is over.

A file of YAML says it; docs/reference/gameboy.md tells what may stand there. Nothing in it is taken for granted: a key
that is not known, and a value of the memory that nobody uses, are errors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from functools import cached_property
from math import prod
from typing import Any, Literal, TypeAlias

from hostler.workloads.gameboy.shown import unshowable
from hostler.workloads.gameboy.strict import Fields, SpecError, fields, loaded

SCHEMA = 1
BUTTONS = ("noop", "up", "down", "left", "right", "a", "b", "start")
USUAL_BUTTONS = BUTTONS[:7]
MEMORY = 1 << 16
COMBINATIONS_MAX = 1 << 16
MICRO = 1_000_000
"""Rewards are counted in millionths, as whole numbers: what components add up to is the reward, exactly."""
MILLIONTHS_MAX = 1 << 62
"""Of an episode: they are counted in 64 bits, and advice pays as well."""
BANKED, BANKS = range(0xD000, 0xDFFF), 8
"""Addresses that a Game Boy Color has several memories for, and how many. PyBoy does not tell the last byte of one."""

Encoding: TypeAlias = Literal["scaled", "one_hot"]


@dataclass(frozen=True, slots=True)
class Value:
    """A number in the memory: `size` bytes from address `at` on, the low one first; always less than `below`."""

    name: str
    at: int
    size: int
    below: int
    bank: int | None = None
    """Of the memory of a Game Boy Color, 1 to 7; `None`: whichever is at that address just then."""

    @property
    def where(self) -> str:
        """For people."""
        return f"{self.at:#06x}" if self.bank is None else f"{self.at:#06x} of bank {self.bank}"


@dataclass(frozen=True, slots=True)
class Feature:
    """How a value is shown to the policy: as a share of what it may be, or as that many flags."""

    of: str
    encoding: Encoding


@dataclass(frozen=True, slots=True)
class Screen:
    """The picture as the policy sees it: every second pixel of every second line, in four greys."""

    height: int = 72
    width: int = 80


class Pays(StrEnum):
    """What a component of the reward is paid for."""

    FIRST = "first"
    """A combination of values that was not seen in this episode before."""
    RISE = "rise"
    """Each one by which a value grows."""
    FALL = "fall"
    """Each one by which it gets less."""
    REACH = "reach"
    """A value that is what it was not a step before."""
    STEP = "step"
    """Every step."""


@dataclass(frozen=True, slots=True)
class Component:
    """A part of the reward; `worth` and `cap` in millionths."""

    name: str
    pays: Pays
    of: tuple[str, ...]
    worth: int
    value: int | None = None
    """What it has to be, for `REACH`."""
    cap: int | None = None
    """What it pays in an episode at most; for a negative worth, what it takes."""
    once: bool = False


@dataclass(frozen=True, slots=True)
class Reward:
    """All components; when one of them makes up more than `alarm_share` of what all have paid, people are told."""

    components: tuple[Component, ...]
    alarm_share: float


@dataclass(frozen=True, slots=True)
class End:
    """An episode is over when a value is that."""

    of: str
    value: int


@dataclass(frozen=True)
class Game:
    """A game as its file says."""

    name: str
    skip: int
    boot_frames: int
    sound: bool
    actions: tuple[str, ...]
    episode_steps: int
    values: Mapping[str, Value]
    features: tuple[Feature, ...]
    screen: Screen | None
    reward: Reward
    ends: tuple[End, ...]
    map: tuple[str, ...]
    """Values whose combinations are places: what was explored is counted in them."""

    @property
    def banks(self) -> tuple[str, ...]:
        """Values that only a Game Boy Color has."""
        return tuple(each.name for each in self.values.values() if each.bank is not None)

    @cached_property
    def places(self) -> int:
        """How many there may be."""
        return combinations(self, self.map)


def combinations(game: Game, of: tuple[str, ...]) -> int:
    """How many combinations these values may have."""
    return prod(game.values[each].below for each in of)


def over_at_once(game: Game, values: Sequence[int]) -> str | None:
    """Why an episode would be over where it begins, with these values, in the order of `ram`; `None`: it is not."""
    now = dict(zip(game.values, map(int, values), strict=True))
    for index, each in enumerate(game.ends):
        if now[each.of] == each.value:
            return (
                f"end[{index}]: {each.of} is {each.value} where episodes begin already, so each would be over before "
                "its first step; begin elsewhere (`state` of the order, `boot_frames` of the game), or mend that end"
            )
    return None


def check_amounts(game: Game) -> None:
    """Raises `SpecError` where an episode might pay more than can be counted."""
    most = {each.name: _most(game, each) for each in game.reward.components}
    whole = sum(amount for amount, _ in most.values())
    if whole <= MILLIONTHS_MAX:
        return
    name, (amount, sum_) = max(most.items(), key=lambda each: each[1][0])
    others = "" if len(most) == 1 else f", all components together {whole / MICRO:.3g}"
    raise SpecError(
        f"reward.components.{name}: an episode might be paid {sum_} = {amount / MICRO:.3g}{others}; no more than "
        f"{MILLIONTHS_MAX / MICRO:.3g} can be counted. Say what values are below, give it a `cap`, or less worth"
    )


def read_game(text: str) -> Game:
    """A game from its file. Raises `SpecError`."""
    with fields(loaded(text)) as found:
        found.whole("schema", least=SCHEMA, most=SCHEMA)
        values = {name: _value(name, each, found.at(f"ram.{name}")) for name, each in found.inner("ram").each()}
        features, screen = _observation(found.inner("observation"))
        game = Game(
            name=found.text("game"),
            skip=found.whole("skip", least=1, most=600),
            boot_frames=found.whole("boot_frames", 0, most=100_000),
            sound=found.flag("sound", False),
            actions=_actions(found),
            episode_steps=found.whole("episode_steps", least=1),
            values=values,
            features=features,
            screen=screen,
            reward=_reward(found.inner("reward")),
            ends=tuple(_end(each, f"end[{index}]") for index, each in enumerate(found.listed("end", []))),
            map=found.texts("map"),
        )
    _check(game)
    check_amounts(game)
    fault = unshowable(
        [each.name for each in game.reward.components], [(each, values[each].below) for each in game.map]
    )
    if fault is not None:
        raise SpecError(fault)
    return game


def micro(number: float, where: str) -> int:
    """A number in millionths. Raises `SpecError` where that is no whole number."""
    exact = Decimal(str(number)) * MICRO
    if exact != int(exact):
        raise SpecError(f"{where} is {number}: no more than six digits behind the point are counted")
    return int(exact)


def _value(name: str, content: object, where: str) -> Value:
    with fields(content, where) as found:
        at, size = found.whole("at", most=MEMORY - 1), found.whole("size", 1, least=1, most=4)
        below = found.whole("below", 1 << 8 * size, least=2, most=1 << 8 * size)
        bank = found.whole("bank", None, least=1, most=BANKS - 1)
    if at + size > MEMORY:
        raise SpecError(f"{where}.at is {at:#06x}: its {size} bytes end beyond the memory")
    if bank is not None and not (at in BANKED and at + size - 1 in BANKED):
        raise SpecError(
            f"{where}.bank: only {BANKED[0]:#06x} to {BANKED[-1]:#06x} are in banks, not {at:#06x}"
            + (f" to {at + size - 1:#06x}" if size > 1 else "")
        )
    return Value(name, at, size, below, bank)


def _actions(found: Fields) -> tuple[str, ...]:
    actions = found.texts("actions", USUAL_BUTTONS)
    for each in actions:
        if each not in BUTTONS:
            raise SpecError(f"actions: {each!r} is no button (known: {', '.join(BUTTONS)})")
    return actions


def _observation(found: Fields) -> tuple[tuple[Feature, ...], Screen | None]:
    features = []
    for index, each in enumerate(found.listed("values", [])):
        with fields(each, found.at(f"values[{index}]")) as one:
            features.append(Feature(one.text("of"), one.choice("as", ("scaled", "one_hot"))))
    screen = Screen() if found.flag("screen", False) else None
    found.end()
    if not features and screen is None:
        raise SpecError("observation: there is nothing to see; name `values`, or say `screen: true`")
    return tuple(features), screen


def _reward(found: Fields) -> Reward:
    alarm = found.number("alarm_share", 0.75, least=0.0, most=1.0)
    components = tuple(
        _component(name, each, found.at(f"components.{name}")) for name, each in found.inner("components").each()
    )
    found.end()
    if not components:
        raise SpecError("reward.components: there is none, so nothing can be learnt")
    return Reward(components, alarm)


def _component(name: str, content: object, where: str) -> Component:
    with fields(content, where) as found:
        pays = Pays(found.choice("pays", tuple(Pays)))
        of = () if pays is Pays.STEP else found.texts("of")
        if len(of) > 1 and pays is not Pays.FIRST:
            raise SpecError(f"{where}.of names {len(of)} values; only `first` takes several")
        cap = found.number("cap", None, least=0.0)
        return Component(
            name=name,
            pays=pays,
            of=of,
            worth=micro(found.number("worth"), f"{where}.worth"),
            value=found.whole("value") if pays is Pays.REACH else None,
            cap=None if cap is None else micro(cap, f"{where}.cap"),
            once=found.flag("once", False),
        )


def _end(content: object, where: str) -> End:
    with fields(content, where) as found:
        return End(found.text("of"), found.whole("value"))


def _check(game: Game) -> None:
    """Raises `SpecError` for names that are no values, numbers they cannot have, and values that nobody uses."""
    used: dict[str, Any] = {}
    for where, names in _uses(game):
        for name in names:
            if name not in game.values:
                raise SpecError(f"{where}: there is no value {name!r} in `ram` (there are: {', '.join(game.values)})")
            used[name] = where
    for where, of, value in _asked(game):
        if value >= game.values[of].below:
            raise SpecError(f"{where}: {of} is never {value}, it is always below {game.values[of].below}")
    for where, names in _combined(game):
        if combinations(game, names) > COMBINATIONS_MAX:
            raise SpecError(
                f"{where}: {' and '.join(names)} have more than {COMBINATIONS_MAX} combinations; "
                "say what they are below"
            )
    unused = game.values.keys() - used.keys()
    if unused:
        raise SpecError(f"ram.{min(unused)}: nothing uses it; take it out, or name it in what is seen or rewarded")


def _most(game: Game, component: Component) -> tuple[int, str]:
    """What it might pay in an episode, or take, in millionths, and the sum for people."""
    worth, steps = abs(component.worth), game.episode_steps
    grows = component.pays in (Pays.RISE, Pays.FALL)
    at_once = game.values[component.of[0]].below - 1 if grows else 1
    if component.pays is Pays.FIRST:
        steps = min(steps, combinations(game, component.of) - 1)
    if component.once:
        steps = 1
    told = f"{worth / MICRO:g}{f' × {at_once}' if grows else ''} × {steps} steps"
    if component.cap is None:
        return worth * at_once * steps, told
    return component.cap + worth * at_once, f"{component.cap / MICRO:g} + {worth / MICRO:g} × {at_once}"


def _uses(game: Game) -> list[tuple[str, tuple[str, ...]]]:
    return [
        ("observation.values", tuple(each.of for each in game.features)),
        *((f"reward.components.{each.name}", each.of) for each in game.reward.components),
        ("end", tuple(each.of for each in game.ends)),
        ("map", game.map),
    ]


def _asked(game: Game) -> list[tuple[str, str, int]]:
    rewarded = (
        (f"reward.components.{each.name}", each.of[0], each.value)
        for each in game.reward.components
        if each.value is not None
    )
    return [*rewarded, *(("end", each.of, each.value) for each in game.ends)]


def _combined(game: Game) -> list[tuple[str, tuple[str, ...]]]:
    firsts = ((f"reward.components.{each.name}", each.of) for each in game.reward.components if each.pays is Pays.FIRST)
    shown = (("observation.values", (each.of,)) for each in game.features if each.encoding == "one_hot")
    return [*firsts, *shown, ("map", game.map)]
