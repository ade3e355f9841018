"""What befalls a town, and when: all of it follows from a seed, so that it can be played again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random

from tests.lab.network import BOTH, WAYS

LEADER, STANDBY, DATABASE = "leader", "standby", "database"
"""Whoever it is at that moment."""
HOSTS = "hosts"
"""All of them at once."""
PAUSE_S = (1.5, 5.0)
"""From one blow to the next."""
LONG = 0.15
"""The share of cuts and stops of hosts that outlast the lease of what runs there."""


@dataclass(frozen=True)
class Blow:
    """Something that befalls somebody `at_s` seconds after the beginning, for so long."""

    at_s: float
    kind: str
    on: str
    seconds: float
    far: str = ""
    """Of a cut: whom from."""
    way: str = BOTH
    how: str = ""
    """Of a restart: `fast`, `immediate`, or `kill`. Of a host: what of it."""

    def __str__(self) -> str:
        words = [self.kind, self.on, self.far and f"from {self.far} ({self.way})", self.how]
        return f"{self.at_s:7.2f} s  {' '.join(filter(None, words))}, for {self.seconds:.2f} s"


def plan(seed: int, span_s: float, hosts: Sequence[str], long_s: float | None = None) -> list[Blow]:
    """Blows for so long. Every kind comes before one comes again, so that short plans are no poor ones.

    `long_s`: how long is long enough for leases to end; `None`: nothing lasts so long.
    """
    random = Random(seed)
    blows: list[Blow] = []
    at_s = 2.0
    for deal in _deck(random):
        if at_s >= span_s:
            return blows
        blows.append(deal(at_s, random, hosts, long_s))
        at_s += random.uniform(*PAUSE_S)
    raise AssertionError("a deck has no end")


_Deal = Callable[[float, Random, Sequence[str], float | None], Blow]


def _deck(random: Random) -> Iterator[_Deal]:
    while True:
        cards = [*_CARDS]
        random.shuffle(cards)
        yield from cards


def _kill_controller(on: str) -> _Deal:
    return lambda at_s, random, _hosts, _long: Blow(at_s, "kill", on, random.uniform(0.2, 4.0))


def _kill_on_host(what: str) -> _Deal:
    return lambda at_s, random, hosts, _long: Blow(at_s, "kill", random.choice(hosts), 0.0, how=what)


def _stop_controller(on: str) -> _Deal:
    return lambda at_s, random, _hosts, _long: Blow(at_s, "stop", on, random.uniform(6.0, 12.0))


def _stop_agent(at_s: float, random: Random, hosts: Sequence[str], long_s: float | None) -> Blow:
    return Blow(at_s, "stop", random.choice(hosts), _lasting(random, long_s), how="agent")


def _cut(near: str, far: str) -> _Deal:
    def deal(at_s: float, random: Random, hosts: Sequence[str], long_s: float | None) -> Blow:
        whom = random.choice(hosts) if far == "host" else far
        seconds = _lasting(random, long_s if far == "host" else None)
        return Blow(at_s, "cut", near, seconds, far=whom, way=random.choice([BOTH, *WAYS]))

    return deal


def _restart(how: str) -> _Deal:
    return lambda at_s, random, _hosts, _long: Blow(at_s, "restart", DATABASE, random.uniform(0.0, 4.0), how=how)


def _fill(on: str) -> _Deal:
    def deal(at_s: float, random: Random, hosts: Sequence[str], _long: float | None) -> Blow:
        return Blow(at_s, "fill", random.choice(hosts) if on == "host" else on, random.uniform(1.0, 8.0))

    return deal


def _reboot(at_s: float, random: Random, hosts: Sequence[str], _long: float | None) -> Blow:
    return Blow(at_s, "reboot", random.choice(hosts), 0.0)


def _lasting(random: Random, long_s: float | None) -> float:
    if long_s is not None and random.random() < LONG:
        return long_s * random.uniform(1.0, 1.3)
    return random.uniform(2.0, 15.0)


_CARDS: Sequence[_Deal] = (
    _kill_controller(LEADER),
    _kill_controller(LEADER),
    _kill_controller(STANDBY),
    *(_kill_on_host(what) for what in ("agent", "supervisor", "worker", "script")),
    _stop_controller(LEADER),
    _stop_controller(STANDBY),
    _stop_agent,
    _cut(LEADER, DATABASE),
    _cut(LEADER, DATABASE),
    _cut(LEADER, HOSTS),
    _cut(LEADER, "host"),
    _cut(LEADER, "host"),
    _cut(STANDBY, DATABASE),
    *(_restart(how) for how in ("fast", "immediate", "kill")),
    *(_fill(on) for on in (LEADER, "host", DATABASE)),
    _reboot,
)
