"""Variables of scripts: names and values that no process can be given are refused at submission."""

from __future__ import annotations

import pytest

from hostler.core.slices import finished
from hostler.core.state import State
from hostler.core.submission import admit
from hostler.model.errors import SpecError
from hostler.model.work import JobSpec, ScriptPayload


@pytest.mark.parametrize("env", [{"A=B": "1"}, {"": "1"}, {"OK": "1", "=": ""}])
def test_variable_that_no_process_can_have_is_refused(env: dict[str, str]) -> None:
    spec = JobSpec(name="a", payload=ScriptPayload(schema=1, argv=("true",), env=env))
    with pytest.raises(SpecError, match="env has"):
        finished(admit(State(), (spec,)))


def test_variable_with_any_other_value_is_admitted() -> None:
    env = {"A": "", "B": "x=y", "C": "ä\n"}
    spec = JobSpec(name="a", payload=ScriptPayload(schema=1, argv=("true",), env=env))
    ids, events = finished(admit(State(), (spec,)))
    assert (ids, len(events)) == (("j1",), 1)
