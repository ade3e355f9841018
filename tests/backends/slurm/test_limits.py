"""Limits that are less than the settings count on."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from hostler.backends.slurm.limits import Association, limit_findings, read_associations
from hostler.backends.slurm.resources import Place
from hostler.backends.slurm.script import Site
from hostler.backends.slurm.terms import Terms
from hostler.model.batch import SHARES
from hostler.model.pools import Mode
from hostler.model.work import WorkKind

LARGE = {"MaxArraySize": "10001", "MaxJobCount": "20000"}


def terms(max_jobs: int = 64, mode: Mode = "array", account: str | None = None) -> Terms:
    return Terms(
        place=Place(partition="gpu", account=account, shares=SHARES),
        site=Site(folder="/s"),
        modes=dict.fromkeys(WorkKind, mode),
        max_jobs=max_jobs,
        max_pending=8,
        pilot_s=600.0,
        pilot_idle_s=5.0,
        slot_cpus=4,
    )


def test_a_line_for_each_association() -> None:
    found = list(read_associations("research||normal,train||10||7\nother|gpu|||||\n\nnoise\n"))
    assert found[0] == Association(account="research", partition=None, qos=("normal", "train"), jobs=None, submitted=7)
    assert (found[1].partition, found[1].submitted) == ("gpu", None)
    assert len(found) == 2


@given(st.text())
def test_whatever_it_prints_is_no_error(text: str) -> None:
    assert all(each.account for each in read_associations(text))


@pytest.mark.parametrize(
    ("config", "known", "asked", "health", "fix"),
    [
        (LARGE, (), terms(), "ok", ""),
        ({}, (), terms(), "ok", ""),
        ({**LARGE, "MaxArraySize": "33"}, (), terms(), "warning", "MaxArraySize"),
        ({**LARGE, "MaxArraySize": "0"}, (), terms(mode="pilot"), "error", "slurm.mode: job"),
        ({**LARGE, "MaxArraySize": "0"}, (), terms(), "error", "slurm.mode: job"),
        ({**LARGE, "MaxArraySize": "0"}, (), terms(mode="job"), "ok", ""),
        ({**LARGE, "MaxJobCount": "10"}, (), terms(), "warning", "slurm.max_jobs"),
        (LARGE, (("a", None, 10),), terms(), "warning", "slurm.max_jobs: 10"),
        (LARGE, (("a", None, 10), ("b", None, None)), terms(), "ok", ""),
        (LARGE, (("a", None, 10), ("b", None, None)), terms(account="a"), "warning", "slurm.max_jobs: 10"),
        (LARGE, (("a", "other", 10),), terms(), "ok", ""),
    ],
)
def test_what_is_less_than_the_settings_count_on(
    config: dict[str, str], known: tuple[tuple[str, str | None, int | None], ...], asked: Terms, health: str, fix: str
) -> None:
    associations = [
        Association(account=account, partition=partition, qos=(), jobs=None, submitted=submitted)
        for account, partition, submitted in known
    ]
    (found,) = limit_findings("here", config, associations, [("p", asked)])
    assert found.health == health
    assert fix in found.fix
