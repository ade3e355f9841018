"""`make gpu` without a GPU: how it counts, what it says of machines, and that its checks fail where they should."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.agent.fakegpus import build, needs_compiler
from tests.agent.toolbox import put
from tests.gpu.counting import LEAST_RUN, Outcome, Result, line_of, verdict
from tests.gpu.machine import look
from tests.gpu.world import World
from tests.integration.conftest import NODE, WHOLE_RUN_S, a_fleet, kill_below
from tests.patience import PATIENCE_S
from tests.test_tiers import REPOSITORY

UUIDS = ("GPU-8932f937-d72c-4106-c12f-20bd9faed9f6", "GPU-5a5a0000-0000-4106-c12f-20bd9faed9f6")
PLAYED = ("detection", "proof", "binding", "hiding", "default_device", "environment", "telemetry", "foreign_process")
"""What can be played on fake cards; the others need gigabytes, or PyTorch with CUDA."""
SMI = """
used() {
    total=100
    for file in "$FAKE_MEMORY/$1".*; do
        if [ -e "$file" ] && kill -0 "${file##*.}" 2>/dev/null; then total=$((total + $(cat "$file"))); fi
    done
    echo $total
}
list() { at=0; for uuid in $(echo $FAKE_UUIDS | tr , ' '); do "$@"; at=$((at+1)); done; }
listing() { echo "GPU $at: Fake 4090 (UUID: $uuid)"; }
fact() { echo "$at, Fake 4090, 24564, $uuid"; }
apps() {
    for file in "$FAKE_MEMORY/$at".*; do
        pid=${file##*.}
        if [ -e "$file" ] && kill -0 "$pid" 2>/dev/null; then echo "$uuid, $pid, $(cat "$file")"; fi
    done
}
sample() { echo "$at, 5, $(used $at), 40, $uuid, Fake 4090, [N/A]"; }
case "$1" in
-L) list listing ;;
--query-gpu=index,name,*) list fact ;;
--query-gpu=*) list sample ;;
--query-compute-apps=*) list apps ;;
esac
"""


def results(*outcomes: Outcome) -> list[Result]:
    return [Result(f"check {at}", outcome, "seen", 1.0) for at, outcome in enumerate(outcomes)]


@pytest.mark.parametrize(
    ("outcomes", "status", "said"),
    [
        (["ok"] * 5, 0, "5 checks ran, 0 failed, 0 skipped"),
        (["ok"] * 5 + ["skipped"], 0, "5 checks ran, 0 failed, 1 skipped"),
        (["ok"] * 4 + ["failed"], 1, "5 checks ran, 1 failed"),
        (["ok"] * 4 + ["skipped"] * 5, 1, "at least 5 must run"),
        (["failed"] * 2, 1, "at least 5 must run"),
        ([], 1, "0 checks ran"),
    ],
)
def test_a_verdict_counts_what_ran(outcomes: Sequence[Outcome], status: int, said: str) -> None:
    found = verdict(results(*outcomes))
    assert (found.status, said in found.line) == (status, True)


def test_a_result_is_one_bounded_line() -> None:
    line = line_of(Result("binding", "failed", "a\nb\t" + "x" * 5000, 1.25))
    assert line.startswith("failed  binding: a b xxx")
    assert line.endswith("(1.2 s)")
    assert len(line) < 500
    assert "\n" not in line


def card(pci: Path, name: str, vendor: str, kind: str = "0x030200") -> None:
    folder = pci / name
    folder.mkdir(parents=True)
    (folder / "class").write_text(kind + "\n")
    (folder / "vendor").write_text(vendor + "\n")


@pytest.mark.parametrize(
    ("vendor", "kind", "has_gpu", "said"),
    [
        ("0x10de", "0x030200", True, "an NVIDIA card is there, and nvidia-smi fails: no driver"),
        ("0x10de", "0x040300", False, "nvidia-smi fails: no driver"),
        ("0x1002", "0x030000", False, "1 of AMD are there"),
        ("0x8086", "0x030000", False, "nvidia-smi fails: no driver"),
    ],
)
def test_a_machine_whose_driver_does_not_answer_still_has_a_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, vendor: str, kind: str, has_gpu: bool, said: str
) -> None:
    put(tmp_path / "bin", "nvidia-smi", "echo no driver; exit 9\n")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    card(tmp_path / "pci", "0000:01:00.0", vendor, kind)
    found = look(tmp_path / "pci", tmp_path / "dev")
    assert (found.has_gpu, list(found.cards), said in found.says) == (has_gpu, [], True)


def run(tmp_path: Path, *names: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """`python -m tests.gpu`, on what the environment makes of this machine; nothing of it is left running."""
    bounds = {"GPU_CHECKS_S": str(2 * PATIENCE_S), "GPU_WAIT_S": str(PATIENCE_S)}
    made = {**os.environ, "TMPDIR": str(tmp_path), **bounds, **environ}
    try:
        return subprocess.run(
            [sys.executable, "-m", "tests.gpu", *names],
            cwd=REPOSITORY, env=made, capture_output=True, text=True, timeout=WHOLE_RUN_S, check=False,
        )  # fmt: skip
    finally:
        kill_below(tmp_path)


def fake_cards(tmp_path: Path, fault: str = "") -> dict[str, str]:
    """The environment of a machine with two fake cards."""
    (tmp_path / "memory").mkdir()
    put(tmp_path / "bin", "nvidia-smi", SMI)
    return {
        "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
        "LD_LIBRARY_PATH": str(build(tmp_path / "drivers")),
        "FAKE_UUIDS": ",".join(UUIDS),
        "FAKE_MEMORY": str(tmp_path / "memory"),
        "FAULT": fault,
    }


def lines(ended: subprocess.CompletedProcess[str]) -> dict[str, str]:
    """The outcome of each check by its name."""
    told = [line.split(":")[0].split(maxsplit=1) for line in ended.stdout.splitlines()]
    return {words[1]: words[0] for words in told if len(words) == 2}


def test_job_that_has_not_been_placed_has_printed_nothing(tmp_path: Path) -> None:
    with a_fleet(tmp_path, nodes=[NODE]) as fleet:
        fleet.start()
        waits = fleet.script("true", resources={"gpus": 1})
        assert World(fleet, look(), tmp_path).printed(waits) == ""


@pytest.mark.skipif(look().has_gpu, reason="this machine has a GPU; `make gpu` checks it")
def test_a_machine_without_a_gpu_is_skipped_with_the_reason(tmp_path: Path) -> None:
    ended = run(tmp_path)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.startswith("gpu: skipped: this machine has no NVIDIA GPU: ")


def test_an_unknown_check_is_refused(tmp_path: Path) -> None:
    ended = run(tmp_path, "detektion")
    assert ended.returncode == 2
    assert "there is no check 'detektion'; there are detection, proof" in ended.stderr


@needs_compiler
def test_a_machine_whose_cards_are_all_hidden_has_not_passed(tmp_path: Path) -> None:
    ended = run(tmp_path, **fake_cards(tmp_path), CUDA_VISIBLE_DEVICES="")
    assert ended.returncode == 1
    assert "CUDA_VISIBLE_DEVICES hides them all" in ended.stdout


@pytest.mark.services
@needs_compiler
def test_every_check_passes_on_sound_cards(tmp_path: Path) -> None:
    ended = run(tmp_path, *PLAYED, **fake_cards(tmp_path))
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert lines(ended) == {name.replace("_", " "): "ok" for name in PLAYED}
    assert f"gpu: {len(PLAYED)} checks ran, 0 failed, 0 skipped" in ended.stdout


@pytest.mark.long
@needs_compiler
def test_checks_of_binding_fail_where_the_driver_shows_another_card(tmp_path: Path) -> None:
    environ = {**fake_cards(tmp_path), "FAULT": str(tmp_path / "fault")}
    # The fault begins with the jobs: before, the driver shows which cards there are.
    put(tmp_path / "bin", "nvidia-smi", f'[ "$1" = -L ] || echo shuffled >{tmp_path}/fault\n{SMI}')
    ended = run(tmp_path, *PLAYED[:6], **environ)
    assert ended.returncode == 1
    found = lines(ended)
    assert (found["binding"], found["environment"]) == ("failed", "failed")
    assert (found["detection"], found["proof"], found["hiding"]) == ("ok", "ok", "ok")
    assert len(found) == LEAST_RUN + 1


@needs_compiler
def test_checks_that_have_no_time_left_are_skipped_and_not_passed(tmp_path: Path) -> None:
    ended = run(tmp_path, *PLAYED, **{**fake_cards(tmp_path), "GPU_CHECKS_S": "0.001"})
    assert ended.returncode == 1
    assert set(lines(ended).values()) == {"skipped"}
    assert "the time of all checks was over" in ended.stdout


@pytest.mark.long
@needs_compiler
def test_fewer_than_five_checks_are_not_enough(tmp_path: Path) -> None:
    ended = run(tmp_path, "detection", "hiding", **fake_cards(tmp_path))
    assert ended.returncode == 1
    assert lines(ended) == {"detection": "ok", "hiding": "ok"}
    assert "at least 5 must run" in ended.stdout
