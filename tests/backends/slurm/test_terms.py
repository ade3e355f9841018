"""What is asked of a partition, within what it allows."""

from __future__ import annotations

import pytest

from hostler.backends.slurm.parsing import NodeRow, PartitionRecord
from hostler.model.errors import SpecError
from hostler.model.work import BatchOptions, WorkKind

from .stage import an_ask, terms


def host(name: str = "n1", cpus: int | None = 16, memory_mb: int | None = None) -> NodeRow:
    return NodeRow(
        node=name, partition="gpu", default=False, available="up", state="idle", cpus=cpus, memory_mb=memory_mb
    )


def limits(max_time_s: float | None) -> PartitionRecord:
    return PartitionRecord(name="gpu", default=True, state="UP", max_time_s=max_time_s, tres={})


def test_within_what_the_partition_and_its_largest_host_allow() -> None:
    use = terms().within(limits(1800.0), [host(cpus=2, memory_mb=4096), host("n2", cpus=1, memory_mb=2048)])
    asked = use.options(an_ask(work=WorkKind.TRAINING), "job", "t", 1, "/shared")
    assert (asked.time_s, asked.cpus, asked.memory_gb) == (1800.0, 2, 4.0)
    assert (asked.folder, asked.chdir, asked.name, asked.comment) == ("/shared/jobs/t", "/shared", "t", "t")


def test_hosts_of_which_nothing_is_known_bound_nothing() -> None:
    use = terms().within(limits(None), [host(cpus=None)])
    assert (use.place.host_cpus, use.place.host_memory_gb, use.place.max_time_s) == (None, None, None)


@pytest.mark.parametrize(("mode", "tasks"), [("job", None), ("array", 5), ("pilot", 5)])
def test_tasks_and_time_of_each_mode(mode: str, tasks: int | None) -> None:
    asked = terms(pilot_s=7200.0).options(an_ask(), mode, "t", 5, "/")  # type: ignore[arg-type]
    assert asked.tasks == tasks
    assert (asked.time_s == 7200.0) is (mode == "pilot")


def test_what_there_is_no_more_time_for() -> None:
    use = terms(pilot_s=7200.0).within(limits(86400.0), [host()])
    assert not use.time(an_ask(), "job").longest
    assert use.time(an_ask(expected_s=86400.0), "job").longest
    wants = an_ask(options=BatchOptions(time_s=3600.0))
    assert use.time(wants, "job").longest, "a job that says for how long gets no more when it is tried again"
    assert not use.time(wants, "pilot").longest


def test_a_pilot_may_be_too_short_for_what_came_late() -> None:
    use = terms(pilot_s=7200.0).within(limits(3600.0), [host()])
    assert not use.time(an_ask(), "pilot").longest
    assert use.time(an_ask(longer=2.0), "pilot").longest, "it had all of the one before, too"
    assert use.time(an_ask(expected_s=3600.0), "pilot").longest


def test_in_words() -> None:
    assert terms().in_words(an_ask(model="h100"), "job").startswith("gpu: 1 × h100, 4 cores, 8 GB, ")
    with pytest.raises(SpecError, match="allows jobs"):
        terms().within(limits(60.0), [host()]).in_words(an_ask(walltime_s=7200.0), "job")


@pytest.mark.parametrize(
    ("mode", "stays", "idle_s"),
    [("pilot", True, "9"), ("array", True, "20"), ("job", False, "0"), ("array", False, "0")],
)
def test_how_long_an_agent_stays_without_work(mode: str, stays: bool, idle_s: str) -> None:
    script = terms(pilot_idle_s=9.0).script("/shared", "t", mode, stays=stays)  # type: ignore[arg-type]
    assert f"--idle-s {idle_s}\n" in script
