"""Candidates: a generator and the calls that may have made some draws; and the question that each of them is.

Nothing here imports numpy or numba.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from hostler.workloads.sieve import callspec
from hostler.workloads.sieve.data import Draw, Recording
from hostler.workloads.sieve.errors import SpecError
from hostler.workloads.sieve.generators import GENERATORS, Generator, Output, generator
from hostler.workloads.sieve.spec import (
    SAID,
    SCHEMA,
    Range,
    Spec,
    canonical,
    output_params,
    parse,
    parse_output,
    recorded,
)

Params: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Candidate:
    """The draws are outputs of ``calls`` of ``made_by``, in turn, plus ``shift``."""

    made_by: Generator
    calls: tuple[Output, ...]
    shift: int = 0

    @property
    def text(self) -> str:
        """The calls as the generator's language writes them."""
        calls = callspec.native(self.made_by, self.calls)
        return calls if not self.shift else f"{calls} {'+' if self.shift > 0 else '-'} {abs(self.shift)}"

    def as_dict(self) -> dict[str, Any]:
        """What :func:`given` takes."""
        calls = [output_params(call) for call in self.calls]
        return {"generator": self.made_by.name, "calls": calls, "shift": self.shift}


def given(value: object) -> Candidate:
    """From JSON: ``{"generator": NAME, "calls": TEXT or a list of outputs, "shift": INTEGER}``.

    ``shift`` may be left out. Raises :class:`SpecError`.
    """
    if not isinstance(value, dict) or not {"generator", "calls"} <= value.keys() <= {"generator", "calls", "shift"}:
        raise SpecError(f"candidates: {value!r:.80}: write generator, calls and perhaps shift")
    made_by, shift = generator(value["generator"]), value.get("shift", 0)
    if type(shift) is not int:
        raise SpecError(f"candidates: shift {shift!r} is no integer")
    return Candidate(made_by, _calls(made_by, value["calls"]), shift)


def usual(low: int, high: int) -> tuple[Candidate, ...]:
    """All generators by the calls that usually draw the integers ``low..high``."""
    if high <= low:
        raise SpecError(f"values: {low}..{high} are fewer than two; write LOW:HIGH, both included")
    each = ((made_by, callspec.natural(made_by, low, high)) for made_by in GENERATORS.values())
    return tuple(Candidate(made_by, (call.output,), call.shift) for made_by, calls in each for call in calls)


def values_of(recording: Recording) -> Output | None:
    """The output that a data file says its draws are of; ``None`` where it says none, or several in turn."""
    says = recording.says
    if "generator" not in says:
        return None
    made_by = generator(says["generator"])
    if "output" in says:
        return parse_output(made_by, says["output"])
    calls = _calls(made_by, says["calls"]) if "calls" in says else ()
    return calls[0] if len(calls) == 1 else None


def question(of: Candidate, draws: Sequence[Draw | None], skip: Range = (0, 0), gap: Range = (0, 0)) -> Spec:
    """Which seed of the candidate makes these draws; raises :class:`SpecError` where the calls give no such draws."""
    return _asked(of, draws, {"skip": list(skip), "gap": list(gap)})


def questions(path: Path, values: Range | None, how: Mapping[str, Any]) -> Iterator[tuple[Candidate, Params | str]]:
    """Which seed made the draws of a file, asked of all generators by their usual calls; ``how`` to search as always.

    Canonical parameters, or why the candidate cannot be asked. ``values`` are the lowest and the highest integer that
    the draws could be; ``None``: as the file says. Raises :class:`SpecError` where neither says so.
    """
    recording = recorded(path, how)
    how = {name: value for name, value in how.items() if name not in SAID}
    for of in usual(*(values or _said_values(recording))):
        try:
            yield of, canonical(_asked(of, recording.draws, how))
        except SpecError as error:
            yield of, str(error)


def never_given(error: SpecError) -> bool:
    """Whether :func:`question` refused draws since the calls never give them, which is an answer, not a mistake."""
    return str(error).startswith("draws[") and "no integer" not in str(error)


def _said_values(recording: Recording) -> Range:
    output = values_of(recording)
    if output is None:
        raise SpecError(f"{recording.source}: does not say which integers its draws can be; give values, LOW:HIGH")
    return output.lowest, output.lowest + output.size - 1


def _asked(of: Candidate, draws: Sequence[Draw | None], how: Mapping[str, Any]) -> Spec:
    asked = {
        "schema": SCHEMA,
        "generator": of.made_by.name,
        "calls": [output_params(call) for call in of.calls],
        "draws": [_unshifted(draw, of.shift) for draw in draws],
    }
    return parse({**asked, **how})


def _unshifted(draw: Draw | None, shift: int) -> Draw | None:
    if draw is None or not shift:
        return draw
    if type(draw) is not int:
        raise SpecError(f"draws: {draw!r:.40} is no integer, and {shift} is added to the calls; leave shift out")
    return draw - shift


def _calls(made_by: Generator, value: object) -> tuple[Output, ...]:
    if isinstance(value, str):
        return callspec.parse(made_by, value)
    if not isinstance(value, list) or not value:
        raise SpecError(f"calls: {value!r:.60}: write calls as text, or a list of outputs")
    return tuple(parse_output(made_by, each) for each in value)
