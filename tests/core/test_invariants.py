"""`validate()` finds what has been broken by hand, and names it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hostler.core import Core
from hostler.model.errors import BrokenInvariant
from hostler.model.work import JobState
from tests.core.builders import Driver, fleet, script, sweep


def world() -> Driver:
    """Two devices: `j1` runs on the first, the sweep `j2` on the second; `j3` waits, `j4` waits for it."""
    made = fleet(devices=2)
    made.submit(script(), sweep(), script(priority=-1, key="k"), script(after=("k",)))
    return made


def _job_on_two_devices(core: Core) -> None:
    core.state.devices["n/cpu1"].attempts.append("j1.1")


def _job_on_no_device(core: Core) -> None:
    core.state.devices["n/cpu0"].attempts.clear()


def _chunk_on_no_device(core: Core) -> None:
    core.state.devices["n/cpu1"].chunks.pop()


def _held_without_an_attempt(core: Core) -> None:
    core.state.jobs["j3"].state = JobState.RUNNING


def _final_without_an_end(core: Core) -> None:
    core.state.jobs["j3"].state = JobState.FAILED


def _before_what_it_comes_after(core: Core) -> None:
    core.state.jobs["j4"].state = JobState.DONE


def _hole_in_a_ledger(core: Core) -> None:
    core.state.sweeps["j2"].ledger.free.clear()


def _lease_beside_the_ledger(core: Core) -> None:
    core.state.sweeps["j2"].leases.popitem()


def _done_before_its_ledger(core: Core) -> None:
    core.state.jobs["j2"].state, core.state.jobs["j2"].ended_at = JobState.DONE, 1.0


def _lost_from_the_queue(core: Core) -> None:
    core.index.ready.clear()


def _not_counted(core: Core) -> None:
    core.index.counts[JobState.PENDING] += 1


def _not_active(core: Core) -> None:
    core.index.active.clear()


def _not_blocked(core: Core) -> None:
    core.index.blocked.clear()


def _wrong_load(core: Core) -> None:
    core.index.loads["n/cpu0"].attempts_unknown = 0


def _wrong_pace(core: Core) -> None:
    core.index.fleet_per_s.clear()


def _wrong_number(core: Core) -> None:
    core.state.next_job = 1


def _barred_everywhere(core: Core) -> None:
    core.state.sweeps["j2"].barred = dict.fromkeys(core.state.devices, "?")


def _barred_on_an_unknown_device(core: Core) -> None:
    core.state.sweeps["j2"].barred = {"x/cpu0": "?"}


BREAKS: dict[Callable[[Core], None], str] = {
    _job_on_two_devices: "on two devices",
    _job_on_no_device: "is not on its device",
    _chunk_on_no_device: "is not on its device",
    _held_without_an_attempt: "running with attempt None",
    _final_without_an_end: "ended at None",
    _before_what_it_comes_after: r"done before \['j3'\]",
    _hole_in_a_ledger: "is missing|it ends at",
    _lease_beside_the_ledger: "not those of its ledger",
    _done_before_its_ledger: "its ledger complete: False",
    _lost_from_the_queue: "the queue holds",
    _not_counted: "counts are",
    _not_active: "active sweeps are",
    _not_blocked: "blocked jobs are",
    _wrong_load: "the load of n/cpu0",
    _wrong_pace: "devices at work",
    _barred_everywhere: "j2 goes on and is barred everywhere",
    _barred_on_an_unknown_device: "failures on devices that are unknown",
    _wrong_number: "wrong id or number",
}


@pytest.mark.parametrize(("spoil", "found"), BREAKS.items(), ids=[each.__name__.strip("_") for each in BREAKS])
def test_a_contradiction_is_named(spoil: Callable[[Core], None], found: str) -> None:
    core = world().core
    core.validate()
    spoil(core)
    with pytest.raises(BrokenInvariant, match=found):
        core.validate()
