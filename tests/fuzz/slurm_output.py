"""What is read of Slurm: its queue, its accounting, its nodes and partitions, as they are printed or torn."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hostler.backends.slurm.answers import down, no_accounting, refused, words_of
from hostler.backends.slurm.limits import read_associations
from hostler.backends.slurm.parsing import (
    UNREAD_MAX,
    accounting_rows,
    gres_of,
    job_records,
    node_rows,
    partition_records,
    queue_rows,
    submitted_id,
    version_of,
)
from hostler.backends.slurm.spans import counted, duration_s, moment, number, tasks_of
from hostler.backends.slurm.states import read_state
from hostler.model.errors import HostlerError

from .base import Target

RECORDED = Path(__file__).parents[1] / "backends" / "slurm" / "ours"
READERS = (queue_rows, accounting_rows, node_rows, job_records, partition_records)


def target(data: bytes) -> None:
    """Rows of finite numbers, or the lines that could not be read; nothing is raised, and what is whole is all."""
    text = data.decode("utf-8", "replace")
    for read in READERS:
        answer: Any = read(text)
        assert answer.whole == (not answer.unread)
        assert all(0 < len(each) <= UNREAD_MAX for each in answer.unread)
        for row in answer.rows:
            _check(row)
    _words(text)


def _words(text: str) -> None:
    for word in text.splitlines()[:20]:
        for read in (number, counted, moment, duration_s):
            value = read(word)
            assert value is None or value >= 0
        tasks = tasks_of(word[:2000])
        assert tasks is None or (tasks.indices and len(set(tasks.indices)) == len(tasks.indices)) or tasks.more
        read_state(word)
        gres_of(word)
    told = submitted_id(text)
    assert told is None or (told.isdigit() and int(told) > 0)
    version = version_of(text)
    assert version is None or len(version) > 1
    for error in (refused("sbatch", 1, text), down("sbatch", 1, text), no_accounting(text, 1)):
        assert error is None or (isinstance(error, HostlerError) and str(error))
    assert isinstance(words_of(text, 1), str)
    list(read_associations(text))


def _check(row: Any) -> None:
    for name, value in _fields(row):
        if isinstance(value, float):
            assert not math.isnan(value), name
            assert value >= 0 or name in ("time_limit_s", "max_time_s"), name
            assert math.isfinite(value) or name in ("time_limit_s", "max_time_s", "default_time_s"), name
        if name == "tasks":
            assert all(type(each) is int and each >= 0 for each in value)


def _fields(row: Any) -> Iterator[tuple[str, Any]]:
    return ((name, getattr(row, name)) for name in type(row).__dataclass_fields__)


def _recorded(name: str) -> bytes:
    return (RECORDED / f"{name}.txt").read_bytes()


TARGET = Target(
    name="slurm_output",
    run=target,
    seeds=(
        *(path.read_bytes() for path in sorted(RECORDED.glob("*.txt"))),
        b"Submitted\n17;cluster\n",
        b"slurm-wlm 22.05.8\n",
        b"1-02:03:04\n[1-9:2,11%4]\nCANCELLED by 1000\n2K\n",
    ),
    reads=(
        "hostler.backends.slurm.parsing",
        "hostler.backends.slurm.spans",
        "hostler.backends.slurm.states",
        "hostler.backends.slurm.answers",
        "hostler.backends.slurm.limits",
    ),
    large={
        "queue": lambda: _recorded("squeue") * 600,
        "jobs": lambda: _recorded("scontrol-jobs") * 60,
        "nodes": lambda: _recorded("sinfo") * 2_000,
        "one line": lambda: b"x" * (1 << 20),
        "spaces": lambda: b"JobId=1 JobName=" + b" " * (1 << 20),
        "names": lambda: b" JobName=" * 110_000,
        "gres": lambda: b"gpu:h100:2(" * 90_000,
        "commas": lambda: b",(" * 500_000,
        "keys": lambda: b"PartitionName=x State=UP " + b"A=1 " * 250_000 + b"\n",
    },
)
