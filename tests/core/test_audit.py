"""What is asserted after every step finds what `validate` finds, though it does not look at everything again."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hostler.core import Core
from hostler.core.invariants import Audit
from hostler.model import inputs
from hostler.model.errors import BrokenInvariant
from hostler.model.work import JobState
from tests.core.builders import ended, script
from tests.core.test_invariants import BREAKS, world


@pytest.mark.parametrize(("spoil", "found"), BREAKS.items(), ids=[each.__name__.strip("_") for each in BREAKS])
def test_a_contradiction_is_named(spoil: Callable[[Core], None], found: str) -> None:
    core = world().core
    core.audit()
    spoil(core)
    with pytest.raises(BrokenInvariant, match=found):
        core.audit()


def test_a_job_that_is_over_is_looked_at_once_until_it_is_tried_again() -> None:
    made, audit = world(), Audit()
    made.tell(ended("j1.1", exit_code=1))
    made.tell(inputs.Cancel(job="j3"))
    state, index = made.core.state, made.core.index
    for _ in range(2):
        audit.check(state, index)
    assert state.jobs["j3"].state is JobState.CANCELLED
    made.tell(inputs.Retry(job="j3"))
    audit.check(state, index)
    state.jobs["j3"].number = 99
    with pytest.raises(BrokenInvariant, match="wrong id or number"):
        audit.check(state, index)


def test_counts_include_what_is_over() -> None:
    made, audit = world(), Audit()
    made.tell(ended("j1.1"))
    audit.check(made.core.state, made.core.index)
    made.core.index.counts[JobState.DONE] += 1
    with pytest.raises(BrokenInvariant, match="counts are"):
        audit.check(made.core.state, made.core.index)


def test_a_node_that_changes_is_looked_at_again() -> None:
    made, audit = world(), Audit()
    audit.check(made.core.state, made.core.index)
    made.submit(script(name="more"))
    node = made.core.state.nodes["n"].spec
    made.tell(inputs.NodeFound(node=type(node)(name="n", backend="test", devices=node.devices[:1])))
    audit.check(made.core.state, made.core.index)
