"""Large submissions in slices: the same entries as at once, and never more than so many jobs between two pauses."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from hostler.core import Core, submission
from hostler.core.slices import SLICE, finished
from hostler.core.submission import VettedSpecs
from hostler.model import inputs
from hostler.model.codec import dump_event
from hostler.model.errors import Conflict, SpecError
from hostler.model.groups import GroupSpec
from hostler.model.inputs import Looked
from tests.core.builders import START, script

COUNT = 10 * SLICE + 7
SPECS = tuple(script(f"s{n}", key=f"k{n}", after=(f"k{n - 1}",) if n % 3 else ()) for n in range(COUNT))
VETTED = finished(submission.vetted(SPECS))
SUBMISSIONS = {
    "plain": inputs.Submit(specs=SPECS),
    "vetted": inputs.Submit(specs=VETTED),
    "group": inputs.SubmitGroup(spec=GroupSpec(name="g"), jobs=SPECS),
    "asked": inputs.Asked(who="me", what="x", key="k", fingerprint="f", given=inputs.Submit(specs=VETTED)),
    "knowing": inputs.Knowing(
        given=inputs.Asked(who="me", what="x", given=inputs.Submit(specs=VETTED)), looked=Looked(at=0, jobs=())
    ),
}


@pytest.mark.parametrize("given", SUBMISSIONS.values(), ids=SUBMISSIONS.keys())
def test_submission_in_slices_is_the_same_as_at_once(given: Any) -> None:
    at_once, in_slices = Core(), Core()
    expected = at_once.handle(START, given)
    jobs, work = [0], in_slices.handled(START, given)
    while True:
        try:
            next(work)
        except StopIteration as done:
            outcome = done.value
            break
        jobs.append(len(in_slices.state.jobs))
    assert [dump_event(each.event) for each in outcome.entries] == [dump_event(each.event) for each in expected.entries]
    assert outcome.answers == expected.answers
    assert in_slices.state == at_once.state
    in_slices.validate()
    jobs.append(len(in_slices.state.jobs))
    assert jobs[-1] == COUNT
    assert max(after - before for before, after in pairwise(jobs)) <= SLICE
    assert jobs.count(0) >= COUNT // SLICE, "what is looked at before the first is queued is sliced, too"


def test_prefix_of_a_submission_is_a_state_that_can_be_read() -> None:
    core, pauses = Core(), 0
    for _ in core.handled(START, SUBMISSIONS["group"]):
        core.validate()
        pauses += 1
    assert pauses >= COUNT // SLICE


@pytest.mark.parametrize(
    ("specs", "error"),
    [
        ((*SPECS, script("bad", "")), SpecError),
        ((*SPECS, script("twice", key="k1")), SpecError),
        ((*SPECS, script("lost", after=("nowhere",))), SpecError),
        ((*SPECS, script("other", key="known")), Conflict),
    ],
    ids=["not valid", "key twice", "no such dependency", "known key"],
)
def test_all_or_none_of_a_submission_in_slices(specs: Any, error: type[Exception]) -> None:
    core = Core()
    core.handle(START, inputs.Submit(specs=(script("known", key="known"),)))
    seq = core.state.seq
    outcome = core.handle(START + 1, inputs.Submit(specs=finished(submission.vetted(specs))))
    assert type(outcome.answers[0]) is error
    assert core.state.seq == seq


def test_specs_are_vetted_in_slices_and_only_where_all_are_valid() -> None:
    assert isinstance(VETTED, VettedSpecs)
    assert VETTED == SPECS
    assert sum(1 for _ in submission.vetted(SPECS)) == COUNT // SLICE
    bad = finished(submission.vetted((*SPECS, script("bad", ""))))
    assert not isinstance(bad, VettedSpecs)
