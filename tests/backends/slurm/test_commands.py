"""Slurm's commands against a fake one: what they are told, what is understood, and what failures mean."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from hostler.backends.slurm import answers
from hostler.backends.slurm.commands import ACTING_MAX, LOOKING_MAX, Ran, Slurm
from hostler.backends.slurm.errors import NoAccounting, SlurmDown, SlurmRefused
from hostler.backends.slurm.options import Options
from hostler.backends.slurm.states import Outcome, Phase
from hostler.model.errors import LinkLost

from .fake import calls, install, table_of
from .running import Here, Impatient, Wound, names_of, slurm

RECORDED = Path(__file__).parent / "recorded"
PARTITION: dict[str, Any] = {
    "name": "gpu", "default": True, "max_time": "1-00:00:00",
    "nodes": [{"name": "n1", "state": "mixed", "cpus": [2, 6, 0, 8], "gres": "gpu:h100:2", "used": "gpu:h100:1(IDX:0)"}]
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    script = tmp_path / "script.sh"
    script.write_text("#!/bin/bash\nexit 3\n")
    return install(tmp_path / "bin", partitions=[PARTITION])


def options(folder: Path, **changed: Any) -> Options:
    said: dict[str, Any] = {
        "name": "hostler-a1", "comment": "hostler:a1", "partition": "gpu", "time_s": 3600.0, "cpus": 2,
        "memory_gb": 1.0, "warn_s": 60, "folder": str(folder.parent), "chdir": str(folder.parent),
    }  # fmt: skip
    return Options(**{**said, **changed})


async def submit(folder: Path, cluster: Slurm, **changed: Any) -> str:
    return await cluster.submit(options(folder, **changed), str(folder.parent / "script.sh"))


async def test_a_job_from_its_submission_to_its_end(folder: Path) -> None:
    with table_of(folder) as table:
        table["plan"] = {"*": ["PENDING", "RUNNING", {"state": "FAILED", "exit": "3:0"}, "gone"]}
    cluster, budget = slurm(Here(folder))
    job = await submit(folder, cluster)
    assert job == "1"
    phases = []
    for _ in range(3):
        (row,) = (await cluster.queue()).rows
        phases.append((row.job, row.name, row.comment, row.state.phase))
    assert phases == [("1", "hostler-a1", "hostler:a1", phase) for phase in (Phase.WAITING, Phase.RUNNING, Phase.OVER)]
    assert (await cluster.queue()).rows == ()
    (kept,) = (await cluster.accounting([job], 0.0)).rows
    assert (kept.job, kept.status, kept.state.outcome, kept.started is not None) == ("1", 3, Outcome.FAILED, True)
    (record,) = (await cluster.jobs([job])).rows
    assert (record.status, record.name, record.state.outcome) == (3, "hostler-a1", Outcome.FAILED)
    assert budget.counts == {"sbatch": 1, "squeue": 4, "sacct": 1, "scontrol": 1}


async def test_a_job_that_runs_writes_its_output_and_ends_by_itself(folder: Path) -> None:
    with table_of(folder) as table:
        table.update(run=True, plan={"*": ["PENDING", "RUNNING"]})
    script = folder.parent / "script.sh"
    script.write_text(
        '#!/bin/bash\necho "task $SLURM_ARRAY_TASK_ID of $SLURM_ARRAY_JOB_ID"\nexit $SLURM_ARRAY_TASK_ID\n'
    )
    cluster, _ = slurm(Here(folder))
    assert await submit(folder, cluster, tasks=2, limit=1) == "1"
    rows: Sequence[Any] = ()
    for _ in range(500):
        rows = (await cluster.queue()).rows
        if all(row.state.over for row in rows):
            break
    assert [names_of(row) for row in rows] == [("1_0",), ("1_1",)]
    ended = (await cluster.accounting(["1"], 0.0)).rows
    assert [(row.tasks, row.status, row.state.text) for row in ended] == [((0,), 0, "COMPLETED"), ((1,), 1, "FAILED")]
    assert (folder.parent / "slurm-1_1.out").read_text() == "task 1 of 1\n"


async def test_what_users_set_does_not_reach_the_commands(folder: Path) -> None:
    mine = {
        "SQUEUE_FORMAT": "%i", "SQUEUE_STATES": "R", "SACCT_FORMAT": "User", "SBATCH_WAIT": "1", "SINFO_SORT": "N",
        "SBATCH_EXCLUSIVE": "1", "SLURM_TIME_FORMAT": "relative", "SLURM_CLUSTERS": "other", "SLURM_MEM_PER_CPU": "9",
        "SCANCEL_USER": "x", "SCANCEL_INTERACTIVE": "1", "SCONTROL_ALL": "1", "LC_ALL": "de_DE.UTF-8",
        "SLURM_CONF": "/etc/slurm/slurm.conf",
    }  # fmt: skip
    cluster, _ = slurm(Here(folder, **mine))
    await submit(folder, cluster)
    await cluster.queue()
    await cluster.accounting(["1"], 0.0)
    await cluster.nodes()
    await cluster.jobs(["1"])
    await cluster.cancel(["1"])
    made = calls(folder)
    assert [call["argv"][0] for call in made] == ["sbatch", "squeue", "sacct", "sinfo", "scontrol", "scancel"]
    fixed = {"SLURM_TIME_FORMAT": "%s", "SLURM_BITSTR_LEN": "0", "LC_ALL": "C", "SLURM_CONF": "/etc/slurm/slurm.conf"}
    for call in made:
        own = call["argv"][0].upper()
        seen = {name: value for name, value in call["env"].items() if name.startswith((own, "SLURM_", "LC_"))}
        if own != "SBATCH":
            assert seen.pop("SLURM_MEM_PER_CPU") == "9"  # it means nothing to the others
        assert seen == fixed, own


async def test_a_lost_answer_is_looked_for_by_its_name(folder: Path) -> None:
    with table_of(folder) as table:
        table["modes"] = {"sbatch": ["lost"]}
        table["plan"] = {"*": ["PENDING", "gone"]}
    cluster, budget = slurm(Here(folder))
    with pytest.raises(SlurmDown) as caught:
        await submit(folder, cluster)
    assert caught.value.unknown
    assert budget.failures == 1
    assert await cluster.find("hostler-a1", 0.0) == ("1",)
    assert await cluster.find("hostler-a1", 0.0) == ("1",)  # by accounting: the queue has it no more
    assert await cluster.find("hostler-a2", 0.0) == ()
    assert await cluster.find("hostler", 0.0) == ()
    with table_of(folder) as table:
        table["accounting"] = "none"
    assert await cluster.find("hostler-a1", 0.0) == ()
    with table_of(folder) as table:
        table["accounting"] = "down"
    with pytest.raises(SlurmDown) as caught:
        await cluster.find("hostler-a1", 0.0)
    assert caught.value.unknown


class Without(Here):
    """A login node that has no sacct."""

    async def run(
        self,
        argv: Sequence[str],
        *,
        stdin: str | None = None,
        env: Mapping[str, str | None] | None = None,
        timeout_s: float,
    ) -> Ran:
        if argv[0] == "sacct":
            return Ran(status=None, out="", err="cannot start 'sacct': No such file or directory")
        return await super().run(argv, stdin=stdin, env=env, timeout_s=timeout_s)


async def test_where_there_is_no_sacct_the_queue_has_to_do(folder: Path) -> None:
    cluster, _ = slurm(Without(folder))
    await submit(folder, cluster)
    assert await cluster.find("hostler-a1", 0.0) == ("1",)
    assert await cluster.find("hostler-a2", 0.0) == ()


@pytest.mark.parametrize(("mode", "unknown"), [("cut", True), ("slow", True), ("lost", True), ("down", False)])
async def test_a_submission_may_have_been_made(folder: Path, mode: str, unknown: bool) -> None:
    with table_of(folder) as table:
        table["modes"] = {"sbatch": [mode]}
    cluster, _ = slurm((Impatient if mode == "slow" else Here)(folder))
    with pytest.raises(SlurmDown) as caught:
        await submit(folder, cluster)
    assert caught.value.unknown is unknown
    with table_of(folder) as table:
        assert len(table["jobs"]) == int(unknown)


async def test_a_site_may_talk_before_the_id(folder: Path) -> None:
    with table_of(folder) as table:
        table["modes"] = {"sbatch": ["noise", "garbage"]}
    cluster, _ = slurm(Here(folder))
    assert await submit(folder, cluster) == "1"
    with pytest.raises(SlurmDown, match="sbatch told no job id") as caught:
        await submit(folder, cluster)
    assert caught.value.unknown


@pytest.mark.parametrize("mode", ["cut", pytest.param("slow", marks=pytest.mark.long), "down", "lost"])
@pytest.mark.parametrize("command", ["squeue", "sinfo", "scontrol", "sacct"])
async def test_slurm_command_that_fails_raises_slurm_down(folder: Path, command: str, mode: str) -> None:
    with table_of(folder) as table:
        table["modes"] = {command: [mode]}
    clock = Wound()
    cluster, budget = slurm((Impatient if mode == "slow" else Here)(folder), clock)
    asked = {"squeue": cluster.queue, "sinfo": cluster.nodes, "scontrol": cluster.partitions}
    with pytest.raises(SlurmDown) as caught:
        await (cluster.accounting(["1"], 0.0) if command == "sacct" else asked[command]())
    assert not caught.value.unknown
    assert (budget.failures, clock.slept) == (1, [])
    await cluster.queue()
    assert (budget.failures, clock.slept) == (0, [5.0])


async def test_an_answer_that_is_not_understood_is_not_whole(folder: Path) -> None:
    with table_of(folder) as table:
        table["modes"] = {"squeue": ["garbage!"]}
    cluster, _ = slurm(Here(folder))
    answer = await cluster.queue()
    assert not answer.whole
    with pytest.raises(SlurmDown, match="was not understood"):
        await cluster.find("hostler-a1", 0.0)


async def test_accounting_that_there_is_none_of_is_another_case_than_one_that_is_down(folder: Path) -> None:
    cluster, _ = slurm(Here(folder))
    for accounting, configured in (("none", False), ("down", True)):
        with table_of(folder) as table:
            table["accounting"] = accounting
        with pytest.raises(NoAccounting) as caught:
            await cluster.accounting(["1"], 0.0)
        assert caught.value.configured is configured


async def test_cancelling(folder: Path) -> None:
    cluster, _ = slurm(Here(folder))
    await submit(folder, cluster, tasks=3)
    await cluster.cancel(["1_1", "77"])
    await cluster.cancel(["1_1", "78"], "TERM")
    await cluster.cancel([])
    states = {row.tasks: row.state.text for row in (await cluster.accounting(["1"], 0.0)).rows}
    assert states == {(0,): "PENDING", (1,): "CANCELLED by 0", (2,): "PENDING"}
    told = [call["argv"][1:] for call in calls(folder) if call["argv"][0] == "scancel"]
    assert told == [["1_1", "77"], ["--signal=TERM", "--batch", "--state=RUNNING", "1_1", "78"]]
    for strange in ("", "-u", "1;2", "0", "1_", "--me", "1_[2"):
        with pytest.raises(ValueError, match="no id of a Slurm job"):
            await cluster.cancel([strange])


async def test_nodes_partitions_and_the_cluster_itself(folder: Path) -> None:
    cluster, _ = slurm(Here(folder))
    (node,) = (await cluster.nodes(["gpu"])).rows
    assert (node.node, node.default, node.gres[0].count, node.used[0].count, node.cpus_idle) == ("n1", True, 2, 1, 6)
    assert (await cluster.nodes(["other"])).rows == ()
    (partition,) = (await cluster.partitions()).rows
    assert (partition.name, partition.max_time_s, partition.default) == ("gpu", 86400.0, True)
    assert (await cluster.config())["MaxArraySize"] == "1001"
    assert await cluster.version() == (22, 5, 8)
    assert "UP" in await cluster.ping()
    assert (await cluster.jobs([])).rows == ()
    assert (await cluster.jobs(["99"])).rows == ()


async def test_programs_that_are_not_there(tmp_path: Path) -> None:
    runs = Here(tmp_path)
    runs.env["PATH"] = str(tmp_path)
    cluster, _ = slurm(runs)
    with pytest.raises(SlurmRefused, match=r"`squeue` cannot be run there: .*name the login node in `host`"):
        await cluster.queue()


class Broken:
    async def run(
        self,
        argv: Sequence[str],
        *,
        stdin: str | None = None,
        env: Mapping[str, str | None] | None = None,
        timeout_s: float,
    ) -> Ran:
        raise LinkLost("the connection to login broke")


async def test_a_link_that_breaks_under_a_submission_leaves_it_unknown(folder: Path) -> None:
    clock = Wound()
    cluster, budget = slurm(Broken(), clock)  # type: ignore[arg-type]  # it runs nothing
    with pytest.raises(SlurmDown) as caught:
        await submit(folder, cluster)
    assert caught.value.unknown
    with pytest.raises(SlurmDown) as caught:
        await cluster.queue()
    assert (caught.value.unknown, budget.failures) == (False, 2)


SAID = {
    "account": "slurm.account", "array": "slurm.max_jobs", "constraint": "slurm.constraint",
    "enforced-cpus": "slurm.resources", "enforced-time": "slurm.resources", "gres-too-many": "slurm.resources",
    "gres-unknown": "slurm.gpu_type", "gres": "slurm.resources", "memory": "slurm.resources",
    "no-script": "slurm.shared_root", "option": "slurm.extra", "partition": "partition", "qos": "slurm.qos",
    "reservation": "slurm.reservation", "time-words": "slurm.resources",
}  # fmt: skip
"""Refusals of a real sbatch (recorded/), and what has to change."""
TAKEN = {"cpus", "dependency", "time"}
"""What a real sbatch takes all the same: such jobs wait for ever."""


def said(path: Path) -> tuple[int, str]:
    """Status and error output of a recorded call."""
    head, _, rest = path.read_text(encoding="utf-8").partition("\n")
    status = re.search(r"-> status (\d+)", head)
    assert status is not None
    return int(status[1]), rest.partition("--- stderr\n")[2]


@pytest.mark.parametrize("path", sorted(RECORDED.glob("error-sbatch-*.txt")), ids=lambda path: path.stem[13:])
def test_what_a_real_sbatch_says_no_to_tells_what_to_change(path: Path) -> None:
    status, err = said(path)
    name = path.stem.removeprefix("error-sbatch-")
    if name in TAKEN:
        assert status == 0
        return
    assert answers.down("sbatch", status, err) is None
    refusal = answers.refused("sbatch", status, err)
    assert refusal.setting == SAID[name]
    assert str(refusal).startswith("sbatch: ")
    assert f"look at `{refusal.setting}`" in str(refusal)
    assert not refusal.later


def test_all_recorded_refusals_are_known() -> None:
    names = {path.stem.removeprefix("error-sbatch-") for path in RECORDED.glob("error-sbatch-*.txt")}
    assert names == {*SAID, *TAKEN}


@pytest.mark.parametrize("path", sorted(RECORDED.glob("*-slurmctld-down.txt")), ids=lambda path: path.stem)
def test_a_slurmctld_that_is_down_is_not_a_refusal(path: Path) -> None:
    status, err = said(path)
    if path.stem.startswith(("sacct", "scontrol-ping")):
        return  # they answer all the same
    trouble = answers.down("squeue", status, err)
    assert trouble is not None
    assert not trouble.unknown


def test_a_slurmdbd_that_is_down_is_told_apart() -> None:
    status, err = said(RECORDED / "sacct-slurmdbd-down.txt")
    trouble = answers.no_accounting(err, status)
    assert trouble is not None
    assert trouble.configured


@pytest.mark.parametrize(
    ("text", "later", "setting"),
    [
        ("Required partition not available (inactive or drain)", True, "partition"),
        (
            "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)",
            True,
            "slurm.max_pending",
        ),
        ("User's group not permitted to use this partition", False, None),
        ("Requested time limit is invalid (missing or exceeds some limit)", False, "slurm.resources"),
        ("Your project has no hours left", False, None),
    ],
)
def test_some_refusals_are_only_for_now(text: str, later: bool, setting: str | None) -> None:
    refusal = answers.refused("sbatch", 1, f"sbatch: error: Batch job submission failed: {text}\n")
    assert (refusal.later, refusal.setting) == (later, setting)
    assert text in str(refusal)


@pytest.mark.parametrize(
    ("limit", "later", "fewer", "setting"),
    [
        ("QOSMaxSubmitJobPerUserLimit", True, True, "slurm.max_pending"),
        ("AssocMaxSubmitJobLimit", True, True, "slurm.max_pending"),
        ("AssocGrpSubmitJobsLimit", True, True, "slurm.max_pending"),
        ("QOSMaxJobsPerUserLimit", True, False, "slurm.max_pending"),
        ("AssocGrpCPUMinutesLimit", True, False, "slurm.max_pending"),
        ("QOSMaxWallDurationPerJobLimit", False, False, "slurm.resources"),
        ("AssocMaxWallDurationPerJobLimit", False, False, "slurm.resources"),
        ("AssocMaxCpuMinutesPerJobLimit", False, False, "slurm.resources"),
        ("QOSMaxCpuPerJobLimit", False, False, "slurm.resources"),
        ("QOSGrpCpuLimit", False, False, "slurm.resources"),
        ("AssocMaxMemPerJob", False, False, "slurm.resources"),
        ("QOSMinGRES", False, False, "slurm.resources"),
        ("QOSMaxGRESPerUser", False, False, "slurm.qos"),
        ("AssocMaxNodePerJobLimit", False, False, "slurm.qos"),
    ],
)
def test_a_limit_that_is_named_tells_whether_it_passes(limit: str, later: bool, fewer: bool, setting: str) -> None:
    general = "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)"
    said = f"sbatch: error: {limit}\nsbatch: error: Batch job submission failed: {general}\n"
    refusal = answers.refused("sbatch", 1, said)
    assert (refusal.later, refusal.fewer, refusal.setting) == (later, fewer, setting)
    assert str(refusal).startswith(f"sbatch: {limit}; ")


@pytest.mark.parametrize(
    "text",
    [
        "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation",
        "sbatch: error: Batch job submission failed: Zero Bytes were transmitted or received",
        "sbatch: error: Slurm temporarily unable to accept job, sleeping and retrying",
        "sbatch: error: Batch job submission failed: I/O error writing script/environment to file",
        "sbatch: error: Batch job submission failed: Message receive failure",
        "sbatch: error: Batch job submission failed: Unable to contact slurm controller (receive failure)",
        "sbatch: error: Batch job submission failed: Unable to contact slurm controller (shutdown failure)",
        "sbatch: error: Batch job submission failed: Communication shutdown failure",
        "sbatch: error: Batch job submission failed: Unable to create job record, try again",
    ],
)
def test_what_passes_may_have_been_done(text: str) -> None:
    trouble = answers.down("sbatch", 1, text)
    assert trouble is not None
    assert trouble.unknown


def test_words_are_harmless_and_short() -> None:
    assert answers.words_of("sbatch: error: a\n\nsbatch: error: a\nb\x1b[31m\n", 1) == "a; b\\x1b[31m"
    assert len(answers.words_of("x" * 10_000, 1)) == answers.SAID_MAX
    assert answers.words_of("", 7) == "exit status 7, and it said nothing"


@pytest.mark.skipif(not Path("/bin/bash").exists(), reason="no bash")
def test_the_fake_is_installed_under_all_names(folder: Path) -> None:
    names = {path.name for path in folder.iterdir() if os.access(path, os.X_OK)}
    assert names == {"sbatch", "squeue", "sacct", "scancel", "sinfo", "scontrol"}


async def test_looks_do_not_wait_behind_submissions(folder: Path) -> None:
    there = Busy(folder)
    cluster, _ = slurm(there)
    submissions = [asyncio.create_task(submit(folder, cluster)) for _ in range(ACTING_MAX + 2)]
    looks = [asyncio.create_task(cluster.version()) for _ in range(3)]
    await asyncio.gather(*looks)
    assert there.begun.count("sbatch") == ACTING_MAX
    assert there.most == ACTING_MAX + LOOKING_MAX
    there.may_end.set()
    assert len(set(await asyncio.gather(*submissions))) == ACTING_MAX + 2


class Busy(Here):
    """A cluster that takes its time for whatever changes something."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.begun: list[str] = []
        self.now, self.most = 0, 0
        self.may_end = asyncio.Event()

    async def run(
        self,
        argv: Sequence[str],
        *,
        stdin: str | None = None,
        env: Mapping[str, str | None] | None = None,
        timeout_s: float,
    ) -> Ran:
        self.begun.append(argv[0])
        self.now += 1
        self.most = max(self.most, self.now)
        if argv[0] == "sbatch":
            await self.may_end.wait()
        ran = await super().run(argv, stdin=stdin, env=env, timeout_s=timeout_s)
        self.now -= 1
        return ran
