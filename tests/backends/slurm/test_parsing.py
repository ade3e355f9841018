"""Answers of a real Slurm 22.05 in our formats (ours/), answers that are torn, and any text at all."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from hostler.backends.slurm.parsing import (
    ACCOUNTING_FIELDS,
    END,
    NODE_FIELDS,
    SEPARATOR,
    Gres,
    JobRecord,
    Parsed,
    QueueRow,
    accounting_rows,
    gres_of,
    job_records,
    node_rows,
    partition_records,
    queue_rows,
    submitted_id,
    version_of,
)
from hostler.backends.slurm.spans import Tasks, counted, duration_s, duration_text, moment, tasks_of
from hostler.backends.slurm.states import Outcome, Phase, read_state

from .running import names_of

RECORDED = Path(__file__).parent / "ours"


def recorded(name: str) -> str:
    return (RECORDED / f"{name}.txt").read_text(encoding="utf-8")


def test_a_real_queue_is_read_whole() -> None:
    answer = queue_rows(recorded("squeue"))
    assert answer.whole
    rows = {row.name: row for row in answer.rows if row.name != "arr"}
    one = rows["hostler-a1-t0"]
    assert (one.job, one.array, names_of(one), one.comment, one.nodes) == ("7", None, ("7",), "hostler:a1", "cpu-1")
    assert (one.state.phase, one.submitted, one.started, one.ends) == (
        Phase.RUNNING, 1795360512.0, 1795360513.0, 1795364113.0,
    )  # fmt: skip
    assert rows["held"].reason == "JobHeldUser"
    assert (rows["held"].started, rows["held"].nodes, rows["held"].comment) == (None, None, None)
    assert rows["sparse"].tasks[:6] == (1, 2, 5, 8, 9, 12)
    assert rows["steps"].tasks == tuple(range(1, 400, 2))
    assert names_of(rows["gone"]) == ("15_0", "15_1", "15_2", "15_3")
    assert rows["gone"].state.outcome is Outcome.CANCELLED
    assert rows["ending"].state.phase is Phase.ENDING


def test_names_may_hold_anything() -> None:
    (odd,) = [row for row in queue_rows(recorded("squeue")).rows if row.job == "8"]
    assert (odd.name, odd.comment) == ("odd | \x1f 'name' ü $(x)\nnext", "two\nlines")


def test_tasks_of_an_array_run_under_ids_of_their_own() -> None:
    tasks = [row for row in queue_rows(recorded("squeue")).rows if row.array == "9"]
    assert sorted(name for row in tasks for name in names_of(row)) == sorted(f"9_{task}" for task in range(12))
    by_task = {row.tasks: (row.job, row.state.phase) for row in tasks}
    assert by_task[(1,)] == ("20", Phase.OVER)
    assert by_task[(2,)] == ("21", Phase.RUNNING)
    assert by_task[tuple(range(4, 12))] == ("9", Phase.WAITING)


def test_a_requeued_job_waits_whatever_accounting_says_of_its_first_run() -> None:
    (listed,) = [row for row in queue_rows(recorded("squeue-later")).rows if row.name == "again"]
    assert (listed.job, listed.state.text, listed.reason) == ("16", "PENDING", "BeginTime")
    (kept,) = [row for row in accounting_rows(recorded("sacct")).rows if row.name == "again"]
    assert (kept.job, kept.state.text, kept.state.phase) == ("16", "REQUEUED", Phase.WAITING)


def test_accounting_tells_status_signal_and_who_cancelled() -> None:
    answer = accounting_rows(recorded("sacct"))
    rows = {row.job: row for row in answer.rows}
    assert answer.unread == ("6\x1f6\x1fCOMPLETED\x1f0:0\x1f1795360053\x1f1795360154\x1f1795360154\x1fcpu-eval\x1fcpu-1"
                             "\x1fa", "b\x1fx", "y")  # fmt: skip
    assert (rows["20"].array, rows["20"].tasks, rows["20"].status, rows["20"].signal) == ("9", (1,), 3, 0)
    assert (rows["13"].state.outcome, rows["13"].status, rows["13"].signal) == (Outcome.FAILED, 0, 9)
    assert (rows["18"].state.outcome, rows["18"].state.by) == (Outcome.CANCELLED, 0)
    assert (rows["7"].ended, rows["1"].ended) == (None, 1795359842.0)


def test_nodes_tell_their_gpus_and_their_troubles() -> None:
    nodes = {row.node: row for row in node_rows(recorded("sinfo-trouble")).rows}
    assert (nodes["gpu-h1"].gres, nodes["gpu-h1"].used) == ((Gres(kind="gpu", type="h100", count=2),),) * 2
    assert (nodes["gpu-h1"].state, nodes["gpu-h1"].reason) == ("draining", "new fans | at last")
    assert nodes["gpu-a1"].used == (Gres(kind="gpu", type="a10", count=0),)
    assert nodes["gpu-h2"].features == ("h100", "nvlink")
    assert [name for name, row in nodes.items() if row.usable] == ["cpu-1", "gpu-a1", "gpu-h2"]
    assert (nodes["gpu-a1"].available, nodes["cpu-1"].default, nodes["gpu-a1"].default) == ("drain", True, False)
    mixed = nodes["cpu-1"]
    assert (mixed.cpus_allocated, mixed.cpus_idle, mixed.cpus, mixed.memory_mb, mixed.memory_allocated_mb) == (
        4, 28, 32, 64000, 200,
    )  # fmt: skip
    assert mixed.time_limit_s == math.inf


@pytest.mark.parametrize(
    ("state", "name", "signs", "usable"),
    [
        ("down*", "down", "*", False),
        ("idle~", "idle", "~", True),
        ("allocated*", "allocated", "*", False),
        ("IDLE#", "idle", "#", True),
        ("mixed-", "mixed", "-", True),
        ("maint$", "maint", "$", False),
        ("drained*~", "drained", "*~", False),
        ("reboot^@", "reboot", "^@", False),
        ("allocated+", "allocated+", "", True),
        ("no_such_state", "no_such_state", "", False),
    ],
)
def test_signs_behind_the_state_of_a_node(state: str, name: str, signs: str, usable: bool) -> None:
    text = SEPARATOR.join(["n", "p*", "up", state, "1/2/3/6", "9", "1", "(null)", "", "30:00", "(null)", "none"])
    (row,) = node_rows(f"{text}{SEPARATOR}{END}\n").rows
    assert (row.state, row.signs, row.usable, row.partition, row.default) == (name, signs, usable, "p", True)
    assert (row.cpus_allocated, row.cpus_idle, row.cpus, row.time_limit_s) == (1, 2, 6, 1800.0)
    assert (row.gres, row.used, row.features, row.reason) == ((), (), (), None)


def test_jobs_as_slurmctld_has_them() -> None:
    answer = job_records(recorded("scontrol-jobs"))
    assert answer.whole
    rows = {row.job: row for row in answer.rows}
    assert (rows["8"].name, rows["8"].state.phase) == ("odd | \x1f 'name' ü $(x)\nnext", Phase.WAITING)
    assert (rows["20"].array, rows["20"].tasks, rows["20"].status, rows["20"].reason) == (
        "9",
        (1,),
        3,
        "NonZeroExitCode",
    )
    assert (rows["16"].restarts, rows["16"].requeue, rows["12"].nodes) == (1, True, "gpu-h1")
    assert (rows["7"].started, rows["7"].ended, rows["7"].comment) == (1795360513.0, 1795364113.0, "hostler:a1")


def test_partitions_and_their_rules() -> None:
    rows = {row.name: row for row in partition_records(recorded("scontrol-partitions")).rows}
    assert [name for name, row in rows.items() if row.default] == ["cpu-eval"]
    train = rows["gpu-train"]
    assert (train.max_time_s, train.default_time_s, train.state, train.cpus) == (math.inf, 3600.0, "UP", 32)
    assert (train.tres["gres/gpu:h100"], train.allow_accounts, train.deny_accounts) == ("4", None, ())
    rules = "AllowAccounts=a,b AllowQos=ALL DenyQos=scavenger MaxTime=1-00:00:00 DefaultTime=NONE State=DOWN"
    (row,) = partition_records(f"PartitionName=p {rules}\n").rows
    assert (row.allow_accounts, row.allow_qos, row.deny_qos, row.max_time_s, row.default_time_s) == (
        ("a", "b"), None, ("scavenger",), 86400.0, None,
    )  # fmt: skip


def test_a_text_that_looks_like_a_key_is_not_taken_for_one() -> None:
    job = "JobId=5 JobName=x JobState=COMPLETED UserId=me(1) JobState=RUNNING Reason=None\n"
    assert job_records(job) == Parsed((), (job,))


@pytest.mark.parametrize(
    ("text", "job"),
    [
        ("123\n", "123"),
        ("123;testbed\n", "123"),
        ("Welcome to the cluster!\nYour project has 17 hours left.\n2026\n123;a-b.c\n", "123"),
        ("Submitted batch job 123\n", None),
        ("", None),
        ("0\n", None),
        ("12 3\n", None),
        ("sbatch: 123;x y\n", None),
    ],
)
def test_the_id_of_a_submission(text: str, job: str | None) -> None:
    assert submitted_id(text) == job


@pytest.mark.parametrize(
    ("text", "gres"),
    [
        ("gpu:h100:2(S:0-1)", [("gpu", "h100", 2)]),
        ("gpu:a100_3g.20gb:4(S:0),gpu:v100:1", [("gpu", "a100_3g.20gb", 4), ("gpu", "v100", 1)]),
        ("gpu:2", [("gpu", None, 2)]),
        ("gpu:h100:2(IDX:0,2),shard:8(2/8)", [("gpu", "h100", 2), ("shard", None, 8)]),
        ("nic:1G,gpu:no_consume:3", [("nic", None, 1 << 30), ("gpu", None, 3)]),
        ("(null)", []),
        ("N/A", []),
    ],
)
def test_generic_resources(text: str, gres: list[tuple[str, str | None, int]]) -> None:
    assert [(each.kind, each.type, each.count) for each in gres_of(text)] == gres


@pytest.mark.parametrize(
    ("text", "tasks"),
    [
        ("[2-4,7%2]", Tasks(indices=(2, 3, 4, 7))),
        ("3", Tasks(indices=(3,))),
        ("1-5:2", Tasks(indices=(1, 3, 5))),
        ("2,4,...", Tasks(indices=(2, 4), more=True)),
        ("1-2,5,8-9,12,14,17-1...%5", Tasks(indices=(1, 2, 5, 8, 9, 12, 14), more=True)),
        ("0-3,2-4", Tasks(indices=(0, 1, 2, 3, 4))),
        ("...", None),
        ("5-2", None),
        ("1-9:0", None),
        ("0-99999999", None),
        ("0-4000000,0-4000000", None),
        ("a", None),
        ("", None),
    ],
)
def test_tasks_of_an_array(text: str, tasks: Tasks | None) -> None:
    assert tasks_of(text) == tasks


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("infinite", math.inf),
        ("UNLIMITED", math.inf),
        ("1-00:00:00", 86400.0),
        ("1-12", 129600.0),
        ("1-12:30", 131400.0),
        ("2:30:00", 9000.0),
        ("30:00", 1800.0),
        ("90", 5400.0),
        ("n/a", None),
        ("INVALID", None),
        ("Partition_Limit", None),
        ("", None),
    ],
)
def test_spans_of_time(text: str, seconds: float | None) -> None:
    assert duration_s(text) == seconds


@given(st.floats(0.001, 1e8))
def test_a_wall_time_is_never_shorter_than_asked(seconds: float) -> None:
    told = duration_s(duration_text(seconds))
    assert told is not None
    assert seconds <= told < seconds + 60 or told == 60


def test_numbers() -> None:
    assert (counted("2K"), counted("7"), counted("x"), counted("")) == (2048, 7, None, None)
    assert (moment("1795360512"), moment("Unknown"), moment("0"), moment("2026-11-22T15:00:00")) == (
        1795360512.0, None, None, None,
    )  # fmt: skip
    assert version_of("slurm-wlm 22.05.8\n") == (22, 5, 8)
    assert version_of("slurm 23.11.10-1.el9") == (23, 11, 10)
    assert version_of("sinfo: command not found") is None


READERS: list[Callable[[str], Parsed[Any]]] = [queue_rows, accounting_rows, node_rows, job_records, partition_records]
NASTY = st.text(st.sampled_from(f"{SEPARATOR}{END}\n =:_-%[]0123JobIdSState,+*(é\x00\u2028"), max_size=80)


@pytest.mark.parametrize("read", READERS)
@given(text=st.one_of(st.text(), NASTY))
def test_any_text_is_read_without_an_error(read: Callable[[str], Parsed[Any]], text: str) -> None:
    answer = read(text)
    assert answer.whole == (answer.unread == ())


@pytest.mark.parametrize(
    ("read", "name"),
    [
        (queue_rows, "squeue"),
        (node_rows, "sinfo-trouble"),
        (accounting_rows, "sacct"),
        (job_records, "scontrol-jobs"),
        (partition_records, "scontrol-partitions"),
    ],
)
def test_a_torn_answer_invents_nothing(read: Callable[[str], Parsed[Any]], name: str) -> None:
    text = recorded(name)
    known = read(text).rows
    for cut in range(0, len(text), max(7, len(text) // 400)):
        answer = read(text[:cut])
        assert answer.rows == known[: len(answer.rows)]
        assert len(answer.rows) < len(known)


WORDS = st.text(st.characters(exclude_characters=f"{SEPARATOR}{END}", exclude_categories=["Cs"])).filter(
    lambda text: text.strip() not in {"", "(null)", "N/A", "n/a", "None", "none", "NONE", "Unknown"}
)
PLAIN = st.from_regex(r"[a-z][a-z0-9-]{0,12}", fullmatch=True).filter(lambda text: text not in {"none", "n/a"})
TIMES = st.none() | st.integers(1, 2**40).map(float)
IDS = st.integers(1, 10**9).map(str)


@st.composite
def queued(draw: st.DrawFn) -> QueueRow:
    tasks = draw(st.lists(st.integers(0, 5000), max_size=5, unique=True))
    return QueueRow(
        job=draw(IDS),
        array=draw(IDS) if tasks else None,
        tasks=tuple(tasks),
        state=read_state(draw(st.sampled_from(["PENDING", "RUNNING", "COMPLETED", "NEW"]))),
        reason=draw(st.none() | PLAIN),
        user=draw(PLAIN),
        partition=draw(PLAIN),
        submitted=draw(TIMES),
        started=draw(TIMES),
        ends=draw(TIMES),
        nodes=draw(st.none() | PLAIN),
        name=draw(WORDS),
        comment=draw(st.none() | WORDS.map(str.strip)),
    )


def printed(row: QueueRow) -> str:
    """As squeue prints it."""
    tasks = ",".join(map(str, row.tasks)) or "N/A"
    times = ("N/A" if each is None else str(round(each)) for each in (row.submitted, row.started, row.ends))
    parts = [row.job, row.array or row.job, tasks, row.state.text, row.reason or "None", row.user, row.partition]
    return SEPARATOR.join([*parts, *times, row.nodes or "", row.name, row.comment or "(null)"]) + f"{END}\n"


@settings(max_examples=30)
@given(st.lists(queued(), max_size=6))
def test_rows_of_a_queue_come_back(rows: list[QueueRow]) -> None:
    assert queue_rows("".join(map(printed, rows))) == Parsed(tuple(rows))


@given(st.integers(1, 10**9), st.sampled_from(["RUNNING", "NODE_FAIL"]), st.integers(0, 255), st.integers(0, 64), TIMES)
def test_jobs_come_back(job: int, state: str, status: int, signal: int, ended: float | None) -> None:
    end = "Unknown" if ended is None else round(ended)
    text = f"JobId={job} JobName=n UserId=u(1) JobState={state} Reason=None Restarts=2"
    expected = JobRecord(
        job=str(job), name="n", state=read_state(state), status=status, signal=signal, restarts=2, ended=ended
    )
    assert job_records(f"{text} ExitCode={status}:{signal} EndTime={end}\n").rows == (expected,)


def test_the_columns_are_as_many_as_are_asked_for() -> None:
    short = SEPARATOR.join("1" * (len(ACCOUNTING_FIELDS) - 1))
    assert accounting_rows(f"{short}\n").unread == (short,)
    row = SEPARATOR.join("1" * (len(NODE_FIELDS) + 1)) + END
    assert len(node_rows(f"{row}\n").unread) == 1


def test_a_row_that_leaves_tasks_out_is_not_taken_for_all_of_them() -> None:
    """Slurm shortens long lists, unless told otherwise (`SLURM_BITSTR_LEN`): the tasks it leaves out are there."""
    row = SEPARATOR.join(["9", "9", "4-7,9,...", "PENDING", "Resources", "u", "p", "1", "N/A", "N/A", "", "name", ""])
    answer = queue_rows(f"{row}{END}\n")
    assert (answer.rows, answer.whole) == ((), False)
