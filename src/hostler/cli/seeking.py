"""`hostler sweep submit --data`: searches for seeds from what is wanted to who survived."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hostler.cli import prospects, sieving, survivors
from hostler.cli.prospects import Planned
from hostler.cli.show import paragraph, say, say_json
from hostler.cli.sieving import LeftOut, Search, Wanted
from hostler.model.errors import UsageError

if TYPE_CHECKING:
    from hostler.client import Client


def seek(wanted: Wanted, asked: Mapping[str, Any], controller: Client, *, wait: bool, as_json: bool) -> None:
    """Say what is worth searching, submit it, and with `wait` print who survived.

    `asked` is what all sweeps have in common, as a fleet file has it. Raises :class:`UsageError`.
    """
    found, left = _searches(wanted)
    planned = prospects.planned(found)
    if wanted.alone:
        prospects.check(planned[0], named=wanted.range is not None)
    elif wanted.who.all_generators:
        planned, dear = prospects.sorted_out(planned, wanted.who.budget_s)
        left += dear
    times = 2 if wanted.control else 1
    lines = list(_lines(wanted, planned, left))
    if not planned:
        say(lines)
        raise UsageError("nothing is left to search; name a --range, give more draws, or a larger --budget-s")
    lines.append(prospects.eta(controller, planned, times))
    if not as_json:
        say(lines)
    ids = controller.submit_jobs([_spec(sweep) for sweep in _sweeps(wanted, planned, asked)])
    if not wait:
        _submitted(ids, planned, left, lines, as_json=as_json)
        return
    survivors.wait(controller, ids)
    outcomes = survivors.outcomes(controller, ids[::times])
    if as_json:
        print("\n".join(survivors.json_lines(outcomes)))
    else:
        say(survivors.told(outcomes))


def _searches(wanted: Wanted) -> tuple[list[Search], list[LeftOut]]:
    who, left = wanted.who, list[LeftOut]()
    if who.all_generators:
        found, left = sieving.searches_of_all(wanted.files, who.values, wanted.how, Path.cwd())
    else:
        found = sieving.searches(wanted.files, who.generator, who.calls, wanted.how, Path.cwd())
    if wanted.key is not None and not wanted.alone:
        raise UsageError("--key: these are several searches, each with a key of its own; leave it out")
    parts = (sieving.narrowed(each, wanted.range, wanted.part, clipped=who.all_generators) for each in found)
    return [each for each in parts if each is not None], left


def _lines(wanted: Wanted, planned: Sequence[Planned], left: Sequence[LeftOut]) -> Iterator[str]:
    if wanted.alone:
        for line in prospects.told(planned[0]):
            yield from paragraph(line, rest="  ")
    else:
        yield from prospects.told_of_many(planned, left)


def _sweeps(wanted: Wanted, planned: Iterable[Planned], asked: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for each in planned:
        name = asked["name"] if wanted.alone else f"{asked['name']}-{each.search.generator}"
        yield from sieving.sweeps_of(each.search, {**asked, "name": name}, wanted.key, control=wanted.control)


def _spec(sweep: Mapping[str, Any]) -> Any:
    from hostler.model.codec import plain
    from hostler.settings import sweep_spec

    return plain(sweep_spec(sweep, Path.cwd()))


def _submitted(
    ids: Sequence[str], planned: Sequence[Planned], left: Sequence[LeftOut], lines: Sequence[str], *, as_json: bool
) -> None:
    if not as_json:
        say(ids)
        return
    gone = [{"generator": each.generator, "calls": each.calls, "why": each.why} for each in left]
    say_json({"ids": list(ids), "plan": lines, "searches": [each.as_dict() for each in planned], "left_out": gone})
