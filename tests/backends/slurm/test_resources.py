"""What an attempt asks for becomes what Slurm is asked for, within what the partition allows."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, strategies as st

from hostler.backends.slurm.options import Options
from hostler.backends.slurm.parsing import NodeRow
from hostler.backends.slurm.resources import FACTOR, START_S, WARN_S, Errand, Place, options, slot_cpus, slots, wall_s
from hostler.model.batch import HOUR, SHARES, Ask, extra_fault
from hostler.model.errors import SpecError
from hostler.model.work import BatchOptions, DeviceKind, WorkKind

MARGIN = START_S + WARN_S
PLACE = Place(partition="gpu-train", shares=SHARES)
ERRAND = Errand(name="hostler-a1", comment="hostler:a1", folder="/shared/jobs/a1", chdir="/shared")
TRAINING = Ask(work=WorkKind.TRAINING, kind=DeviceKind.CUDA, devices=2, model="h100")


def asked(ask: Ask, place: Place = PLACE, **errand: Any) -> Options:
    return options(ask, place, replace(ERRAND, **errand))


def test_a_training_on_two_gpus() -> None:
    assert asked(TRAINING).argv() == [
        "--parsable", "--job-name=hostler-a1", "--comment=hostler:a1", "--partition=gpu-train", "--gres=gpu:h100:2",
        "--time=12:00:00", "--nodes=1", "--ntasks=1", "--cpus-per-task=16", "--mem=65536M", "--no-requeue",
        "--open-mode=append", "--output=/shared/jobs/a1/slurm-%j.out", "--signal=B:TERM@120", "--chdir=/shared",
        "--export=NONE",
    ]  # fmt: skip


def test_an_array_of_self_play_on_cores_with_all_wishes() -> None:
    place = Place(
        partition="cpu", shares=SHARES, account="a", qos="q", constraint="avx512&ib", reservation="r", requeue=True,
        extra=("--exclusive",), array_limit=10,
    )  # fmt: skip
    ask = Ask(work=WorkKind.SELFPLAY, kind=DeviceKind.CPU, devices=1, options=BatchOptions(extra=("--nice=5",)))
    made = asked(ask, place, tasks=100, folder="/shared/50%j").argv()
    assert made == [
        "--parsable", "--job-name=hostler-a1", "--comment=hostler:a1", "--partition=cpu", "--account=a", "--qos=q",
        "--constraint=avx512&ib", "--reservation=r", "--array=0-99%10", "--time=04:00:00", "--nodes=1", "--ntasks=1",
        "--cpus-per-task=4", "--mem=16384M", "--requeue", "--open-mode=append",
        "--output=/shared/50%%j/slurm-%A_%a.out", "--signal=B:TERM@120", "--chdir=/shared", "--export=NONE",
        "--exclusive", "--nice=5",
    ]  # fmt: skip


def test_what_a_job_wants_wins_over_the_cluster() -> None:
    place = Place(partition="p", shares=SHARES, account="a", qos="q", constraint="c", reservation="r", gpu_type="a10")
    wants = BatchOptions(
        account="A", qos="Q", constraint="C", reservation="R", gpu_type="b200", cpus=5, memory_gb=0.7, time_s=90.0,
        requeue=True,
    )  # fmt: skip
    made = asked(replace(TRAINING, options=wants, cpus=99.0, memory_gb=99.0, expected_s=1e6), place)
    assert (made.account, made.qos, made.constraint, made.reservation, made.gpu_type) == ("A", "Q", "C", "R", "b200")
    assert (made.cpus, made.memory_gb, made.time_s, made.requeue) == (5, 0.7, 90.0, True)
    assert {"--time=00:02:00", "--mem=717M", "--gres=gpu:b200:2", "--requeue"} <= set(made.argv())
    assert asked(replace(TRAINING, model=None), place).gpu_type == "a10"
    assert asked(replace(TRAINING, model=None)).argv().count("--gres=gpu:2") == 1


@pytest.mark.parametrize(
    ("work", "kind", "devices", "cpus"),
    [
        (WorkKind.TRAINING, DeviceKind.CUDA, 1, 8),
        (WorkKind.TRAINING, DeviceKind.ROCM, 4, 32),
        (WorkKind.TRAINING, DeviceKind.CUDA, 8, 32),
        (WorkKind.SELFPLAY, DeviceKind.CUDA, 1, 8),
        (WorkKind.SELFPLAY, DeviceKind.CPU, 3, 12),
        (WorkKind.EVALUATION, DeviceKind.CUDA, 1, 4),
        (WorkKind.SWEEP, DeviceKind.CPU, 1, 1),
    ],
)
def test_cores_follow_from_the_work(work: WorkKind, kind: DeviceKind, devices: int, cpus: int) -> None:
    assert asked(Ask(work=work, kind=kind, devices=devices)).cpus == cpus


def test_what_a_job_says_of_itself_counts_for_more_than_its_kind() -> None:
    made = asked(replace(TRAINING, cpus=2.5, memory_gb=7.0))
    assert (made.cpus, made.memory_gb) == (3, 8.0)


@pytest.mark.parametrize(
    ("ask", "max_time_s", "seconds"),
    [
        ({}, None, 12 * HOUR),
        ({}, math.inf, 12 * HOUR),
        ({}, 6 * HOUR, 6 * HOUR),
        ({"expected_s": 4 * HOUR}, None, 4 * HOUR * FACTOR + MARGIN),
        ({"expected_s": 60.0}, None, 4 * HOUR),
        ({"expected_s": 60.0}, 2 * HOUR, 2 * HOUR),
        ({"expected_s": 20 * HOUR}, None, 20 * HOUR * FACTOR + MARGIN),
        ({"expected_s": 20 * HOUR}, 24 * HOUR, 24 * HOUR),
        ({"expected_s": 20 * HOUR, "walltime_s": 24 * HOUR}, None, 24 * HOUR + MARGIN),
        ({"longer": 2.0}, None, 24 * HOUR),
        ({"longer": 4.0}, 36 * HOUR, 36 * HOUR),
        ({"longer": 2.0, "expected_s": 4 * HOUR}, None, 2 * (4 * HOUR * FACTOR + MARGIN)),
        ({"longer": 2.0, "walltime_s": HOUR}, None, HOUR + 2 * MARGIN),
        ({"walltime_s": 24 * HOUR, "checkpoints": True}, 6 * HOUR, 6 * HOUR),
        ({"walltime_s": HOUR}, None, HOUR + MARGIN),
        ({"walltime_s": 24 * HOUR}, None, 24 * HOUR + MARGIN),
        ({"walltime_s": 24 * HOUR, "expected_s": 4 * HOUR}, None, 4 * HOUR * FACTOR + MARGIN),
        ({"walltime_s": HOUR, "expected_s": 4 * HOUR}, None, HOUR + MARGIN),
        ({"walltime_s": HOUR, "options": BatchOptions(time_s=7200.0)}, None, 7200.0),
    ],
)
def test_wall_times(ask: dict[str, Any], max_time_s: float | None, seconds: float) -> None:
    assert wall_s(replace(TRAINING, **ask), replace(PLACE, max_time_s=max_time_s)) == seconds


def test_what_cannot_fit_is_refused_with_words() -> None:
    place = replace(PLACE, max_time_s=2 * HOUR)
    with pytest.raises(SpecError, match=r"'gpu-train' allows jobs 2h 00m, and walltime_s with its margins .* 2h 07m"):
        asked(replace(TRAINING, walltime_s=2 * HOUR), place)
    with pytest.raises(SpecError, match=r"and `slurm\.time_s` wants 3h 00m; lower it"):
        asked(replace(TRAINING, options=BatchOptions(time_s=3 * HOUR)), place)
    with pytest.raises(SpecError, match=r"slurm\.extra: '--wrap=x' is not for you to say"):
        asked(replace(TRAINING, options=BatchOptions(extra=("--wrap=x",))))


@pytest.mark.parametrize(
    ("ask", "max_time_s", "seconds"),
    [
        ({}, None, 4 * HOUR),
        ({}, HOUR, HOUR),
        ({"walltime_s": HOUR}, None, 4 * HOUR),
        ({"walltime_s": 99 * HOUR}, None, 99 * HOUR + MARGIN),
        ({"walltime_s": 99 * HOUR, "expected_s": 60.0}, None, 4 * HOUR),
        ({"expected_s": 20 * HOUR}, None, 20 * HOUR * FACTOR + MARGIN),
        ({"expected_s": 20 * HOUR}, 12 * HOUR, 12 * HOUR),
        ({"options": BatchOptions(time_s=6 * HOUR)}, None, 6 * HOUR),
        ({"options": BatchOptions(time_s=HOUR)}, None, 4 * HOUR),
        ({"longer": 2.0}, None, 8 * HOUR),
    ],
)
def test_a_pilot_stays_as_long_as_it_is_told_or_its_first_work_needs(
    ask: dict[str, Any], max_time_s: float | None, seconds: float
) -> None:
    place = replace(PLACE, max_time_s=max_time_s)
    assert asked(replace(TRAINING, **ask), place, stays_s=4 * HOUR).time_s == seconds


def test_no_pilot_is_asked_for_what_cannot_be_done_in_it() -> None:
    place = replace(PLACE, max_time_s=2 * HOUR)
    for wants in ({"walltime_s": 3 * HOUR}, {"options": BatchOptions(time_s=3 * HOUR)}):
        with pytest.raises(SpecError, match="allows jobs 2h 00m"):
            asked(replace(TRAINING, **wants), place, stays_s=HOUR)


SECONDS = st.none() | st.floats(1, 1e6)


@given(work=st.sampled_from(list(WorkKind)), expected=SECONDS, walltime=SECONDS, limit=SECONDS)
def test_no_wall_time_is_beyond_the_partition_or_useless(
    work: WorkKind, expected: float | None, walltime: float | None, limit: float | None
) -> None:
    ask = Ask(work=work, kind=DeviceKind.CPU, devices=1, expected_s=expected, walltime_s=walltime)
    place = replace(PLACE, max_time_s=limit)
    if limit is not None and walltime is not None and walltime + MARGIN > limit:
        with pytest.raises(SpecError):
            wall_s(ask, place)
        return
    seconds = wall_s(ask, place)
    assert 0 < seconds <= (math.inf if limit is None else limit)
    if expected is not None and walltime is None:
        assert seconds >= min(expected * FACTOR, math.inf if limit is None else limit)
    if walltime is not None:
        assert seconds <= walltime + MARGIN


def test_slots_of_a_partition_without_gpus() -> None:
    rows = [
        NodeRow(node=f"n{cpus}", partition="p", default=False, available="up", state="idle", cpus=cpus)
        for cpus in (32, 7, None)
    ]
    assert (slots(rows, 8, 64), slots(rows, 4, 64), slots(rows, 4, 5)) == (4, 9, 5)
    assert slot_cpus([WorkKind.SWEEP, WorkKind.EVALUATION], SHARES) == 4
    assert slot_cpus([WorkKind.SWEEP], {}) == 1


def test_shares_are_ranges() -> None:
    assert set(SHARES) == set(WorkKind)
    for share in SHARES.values():
        assert share.cpus_least <= share.cpus_most
        assert share.least_s <= share.most_s


@pytest.mark.parametrize(
    "word",
    ["--exclusive", "--nice=5", "--mail-type=FAIL", "--begin=now+1hour", "--dependency=afterok:1", "--nodelist=n[1-3]",
     "--mem-bind=local", "--exclude=n1", "--licenses=x", "--gpu-bind=none", "--tmp=10G"],
)  # fmt: skip
def test_harmless_options_may_be_added(word: str) -> None:
    assert extra_fault((word,)) is None
