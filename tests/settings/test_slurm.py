"""Partitions of Slurm clusters in a fleet file: what classes share, what follows, and what contradicts itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from hostler.model.batch import SHARES
from hostler.model.codec import record_fault
from hostler.model.errors import SettingsError
from hostler.model.work import BatchOptions, WorkKind
from hostler.settings import (
    Loaded,
    config_specs,
    load,
    load_jobs,
    node_spec,
    slurm_job_dir,
    slurm_modes,
    slurm_shares,
    specs,
)
from hostler.settings.slurm import Slurm

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

FILE = """\
classes:
  cluster:
    backend: slurm
    host: login
    slurm:
      shared_root: /shared
      account: research
      qos: normal
      resources:
        training: {memory_gb: 128, cpus_most: 48}
        selfplay: {least_s: 600}
nodes:
- {name: train, class: cluster, partition: gpu-train}
- name: eval
  class: cluster
  host: other
  slurm: {qos: null, resources: {training: {cpus_most: 16}, evaluation: {memory_gb: 4}}}
"""


def written(folder: Path, text: str) -> Loaded:
    path = folder / "fleet.yaml"
    path.write_text(text, encoding="utf-8")
    return load(path, {})


def section(loaded: Loaded, index: int = 0) -> Slurm:
    asked = loaded.fleet.nodes[index].slurm
    assert asked is not None
    return asked


def test_a_class_is_the_cluster_and_its_nodes_are_the_partitions(tmp_path: Path) -> None:
    loaded = written(tmp_path, FILE)
    train, evaluation = loaded.fleet.nodes
    assert (train.backend, train.host, train.partition, evaluation.host, evaluation.partition) == (
        "slurm", "login", "gpu-train", "other", None,
    )  # fmt: skip
    assert (section(loaded, 0).qos, section(loaded, 1).qos, section(loaded, 1).account) == ("normal", None, "research")
    assert node_spec(train).devices == ()


def test_sections_are_merged_to_their_depth_and_every_value_keeps_its_place(tmp_path: Path) -> None:
    loaded = written(tmp_path, FILE)
    shares = slurm_shares(section(loaded, 1))
    assert (shares[WorkKind.TRAINING].memory_gb, shares[WorkKind.TRAINING].cpus_most) == (128.0, 16)
    assert (shares[WorkKind.SELFPLAY].least_s, shares[WorkKind.EVALUATION].memory_gb) == (600.0, 4.0)
    assert slurm_shares(section(loaded, 0))[WorkKind.TRAINING].cpus_most == 48
    assert slurm_shares(Slurm()) == SHARES
    path = ("nodes", 1, "slurm", "resources", "training")
    lines = [loaded.origin((*path, key)).rsplit(":", 2)[1] for key in ("memory_gb", "cpus_most")]
    assert lines == ["10", "17"]
    assert loaded.origin(("nodes", 1, "slurm", "shared_root")).endswith("fleet.yaml:6:20")


def test_how_work_becomes_jobs() -> None:
    usual = slurm_modes(Slurm())
    assert {work: mode for work, mode in usual.items() if mode != "job"} == {
        WorkKind.SELFPLAY: "array",
        WorkKind.SWEEP: "pilot",
    }
    assert set(usual) == set(WorkKind)
    assert set(slurm_modes(Slurm(mode="pilot")).values()) == {"pilot"}
    assert slurm_modes(Slurm(mode={WorkKind.TRAINING: "array"})) == {**usual, WorkKind.TRAINING: "array"}


def test_where_jobs_are_kept() -> None:
    assert slurm_job_dir(Slurm(shared_root="/shared/")) == "/shared/.hostler"
    assert slurm_job_dir(Slurm(shared_root="/shared", job_dir="/scratch/jobs")) == "/scratch/jobs"


@pytest.mark.parametrize("text", ["", "shared_root: /s, account: a b", "shared_root: /s, mode: {sweep: array}"])
def test_what_may_be_said(tmp_path: Path, text: str) -> None:
    if text:
        assert (
            section(written(tmp_path, f"nodes: [{{name: n, backend: slurm, slurm: {{{text}}}}}]")).shared_root == "/s"
        )
        return
    with pytest.raises(SettingsError, match=r"slurm\.shared_root is missing: name the folder that all"):
        written(tmp_path, "nodes: [{name: n, backend: slurm}]")


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("shared_root: relative", "nodes[0].slurm.shared_root: the text should match"),
        ("shared_root: /a:b", "nodes[0].slurm.shared_root: the text should match"),
        ("shared_root: /s, accounts: a", "is no setting; did you mean 'account'?"),
        ("shared_root: /s, account: --wrap=x", "nodes[0].slurm.account: the text should match"),
        ("shared_root: /s, gpu_type: 'h100:2'", "nodes[0].slurm.gpu_type: the text should match"),
        ("shared_root: /s, extra: ['--array=0-3']", "'--array=0-3' is not for you to say: Hostler says that itself"),
        ("shared_root: /s, extra: ['--priority=9']", "'--priority=9' is not for you to say: what begins first"),
        ("shared_root: /s, extra: ['--tasks=2']", "'--tasks=2' is not for you to say: Hostler says that itself"),
        ("shared_root: /s, extra: ['--tasks-per-node=2']", "is not for you to say: Hostler says that itself"),
        ("shared_root: /s, extra: ['--tres-per-task=cpu:2']", "is not for you to say: GPUs and cores follow"),
        ("shared_root: /s, extra: ['--container-id=x']", "is not for you to say: write `container_runtime`"),
        ("shared_root: /s, extra: ['--uid=me']", "'--uid=me' is not for you to say: its jobs are those of the user"),
        ("shared_root: /s, extra: ['--gid=us']", "'--gid=us' is not for you to say: its jobs are those of the user"),
        ("shared_root: /s, extra: ['--arr=0-3']", "'--arr=0-3' is not for you to say"),
        ("shared_root: /s, extra: ['--partition=x']", "write `partition`"),
        ("shared_root: /s, extra: ['-A', x]", "'-A' is no option in its long form"),
        ("shared_root: /s, extra: [script.sh]", "'script.sh' is no option in its long form"),
        ("shared_root: /s, extra: ['--']", "'--' names no option"),
        ("shared_root: /s, extra: [--wait]", "sbatch waits for the end of the job"),
        ("shared_root: /s, extra: [--gpus=2]", "how many GPUs there are follows from the work"),
        ("shared_root: /s, container_runtime: docker", "container_runtime runs nothing without an image"),
        ("shared_root: /s, container_runtime: podman", "'apptainer', 'singularity', 'docker' or 'pyxis'"),
        (
            "shared_root: /s, container_image_arm64: i.sif",
            "slurm.container_image_arm64 says nothing without a container_",
        ),
        ("shared_root: /s, container_args: [--x]", "slurm.container_args says nothing without a container_runtime"),
        (
            "shared_root: /s, container_runtime: pyxis, container_image_x86_64: i, venv_activate: /v",
            "slurm.venv_activate and container_image_x86_64 are for the same nodes",
        ),
        (
            "shared_root: /s, container_runtime: pyxis, container_image_arm64: i, venv_activate_arm64: /v",
            "slurm.venv_activate_arm64 and container_image_arm64 are for the same nodes",
        ),
        ("shared_root: /s, pilot_s: 60", "slurm.pilot_idle_s 60 is all of pilot_s 60"),
        ("shared_root: /s, resources: {training: {most_s: 60}}", "training: least_s 14400 is more than most_s 60"),
        ("shared_root: /s, resources: {sweep: {cpus_least: 32}}", "sweep: cpus_least 32 is more than cpus_most 16"),
        ("shared_root: /s, resources: {gaming: {}}", "nodes[0].slurm.resources"),
        ("shared_root: /s, mode: {training: batch}", "nodes[0].slurm.mode"),
        ("shared_root: /s, max_pending: 0", "nodes[0].slurm.max_pending: should be greater than or equal to 1"),
    ],
)
def test_what_contradicts_itself_is_refused(tmp_path: Path, said: str, why: str) -> None:
    with pytest.raises(SettingsError) as caught:
        written(tmp_path, f"nodes:\n- {{name: n, backend: slurm, slurm: {{{said}}}}}")
    assert why in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("node", "why"),
    [
        ("{name: n, slurm: {shared_root: /s}}", "slurm: that is for partitions; write `backend: slurm`, too"),
        ("{name: n, backend: ssh, partition: p}", "partition: that is for partitions; write `backend: slurm`, too"),
        ("{name: n, backend: slurm, user: me, slurm: {shared_root: /s}}", "user: that is for a login node; name it in"),
        ("{name: n, backend: slurm, dir: ~/x, slurm: {shared_root: /s}}", "dir: that is for nodes elsewhere"),
        ("{name: n, backend: slurm, partition: 'a,b', slurm: {shared_root: /s}}", "partition: the text should match"),
        ("{name: n, backend: slurm, partition: 'p*', slurm: {shared_root: /s}}", "partition: the text should match"),
        (
            "{name: n, backend: slurm, gpus: none, slurm: {shared_root: /s, gpu_type: a}}",
            "slurm.gpu_type is for GPUs, and `gpus: none` leaves them alone",
        ),
        (
            "{name: n, backend: slurm, setup: [' #SBATCH --exclusive'], slurm: {shared_root: /s}}",
            "in which #SBATCH says nothing",
        ),
        ("{name: n, backend: slurm, gpus: [{model: H100}], slurm: {shared_root: /s}}", "write `gpus: auto` or `none`"),
    ],
)
def test_nodes_that_are_no_partitions_or_only_half_of_one(tmp_path: Path, node: str, why: str) -> None:
    with pytest.raises(SettingsError) as caught:
        written(tmp_path, f"nodes:\n- {node}")
    assert why in str(caught.value)


SEVERAL = """\
classes: {{hpc: {{backend: slurm, host: login, slurm: {{shared_root: /s}}}}}}
nodes:
- {{name: gpu, class: hpc}}
- {{name: cpu, class: hpc, {cpu}}}
- {{name: other, class: hpc, host: elsewhere, slurm: {{calls_per_minute: 60, poll_s: 5}}}}
"""


@pytest.mark.parametrize(
    ("cpu", "why"),
    [
        ("slurm: {calls_per_minute: 12}", "slurm.calls_per_minute is for all partitions of a cluster together, and "),
        ("slurm: {calls_per_minute: 12}", "here it is 6 for 'gpu', 12 for 'cpu'; say it once, in their class"),
        ("slurm: {poll_s: 2.5}, python: python3.12", "slurm.poll_s is for all partitions of a cluster together, and"),
        ("slurm: {poll_s: 2.5, job_dir: /elsewhere}", "here it is 30 for 'gpu', 2.5 for 'cpu'"),
    ],
)
def test_partitions_of_one_cluster_do_not_differ_in_how_often_it_is_asked(tmp_path: Path, cpu: str, why: str) -> None:
    with pytest.raises(SettingsError) as caught:
        written(tmp_path, SEVERAL.format(cpu=cpu))
    assert why in str(caught.value)
    written(tmp_path, SEVERAL.format(cpu="slurm: {calls_per_minute: 6, poll_s: 30}"))


def test_only_a_cluster_may_name_a_host_for_all(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"classes\.rig: a host is that of one node"):
        written(tmp_path, "classes: {rig: {backend: ssh, host: h}}\nnodes: [{name: n, class: rig}]")


def test_what_a_job_wants_of_a_cluster(tmp_path: Path) -> None:
    path = tmp_path / "jobs.yaml"
    wants = "{account: a, cpus: 3, memory_gb: 1.5, time_s: 90, requeue: false, extra: [--exclusive]}"
    path.write_text(f"[{{name: one, argv: [x], slurm: {wants}}}, {{name: two, argv: [x]}}]")
    one, two = load_jobs(path)
    assert one.batch == BatchOptions(
        account="a", cpus=3, memory_gb=1.5, time_s=90.0, requeue=False, extra=("--exclusive",)
    )
    assert two.batch is None
    assert record_fault(one.batch) is None
    path.write_text("[{name: one, argv: [x], slurm: {extra: [--wrap=y]}}]")
    with pytest.raises(SettingsError, match=r"extra: '--wrap=y' is not for you to say"):
        load_jobs(path)


def test_the_example_is_a_cluster_of_four_partitions() -> None:
    loaded = load(EXAMPLES / "slurm.yaml", {})
    assert [node.partition or node.name for node in loaded.fleet.nodes] == [
        "gpu-train", "gpu-selfplay", "cpu-eval", "gpu-gh200",
    ]  # fmt: skip
    assert {section(loaded, index).shared_root for index in range(4)} == {"/shared/hostler"}
    assert slurm_modes(section(loaded, 3))[WorkKind.SELFPLAY] == "pilot"
    assert slurm_shares(section(loaded, 0))[WorkKind.TRAINING].most_s == 28800.0
    (config,) = config_specs(loaded, until_idle=False)
    assert config.training.stage.batch == BatchOptions(time_s=14400.0)
    assert config.selfplay.stage.batch is None
    (about,) = [spec for spec in specs(loaded) if spec.name == "about"]
    assert about.batch == BatchOptions(cpus=1, memory_gb=1.0, time_s=300.0)
