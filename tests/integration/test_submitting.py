"""`hostler submit` with notes, --strict, --wait and --follow, as somebody types it, on a real controller."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.integration.conftest import Fleet, Hostler, HostlerIn

GPU_NOTE = "fits on no device: needs a GPU, and node here has none (2 CPU slots)"


@pytest.fixture
def typed(living: Fleet, monkeypatch: pytest.MonkeyPatch, hostler_in: HostlerIn, tmp_path: Path) -> Hostler:
    """`hostler` in an empty folder, for the running fleet."""
    monkeypatch.setenv("HOSTLER_STATE_DIR", str(living.state))
    folder = tmp_path / "project"
    folder.mkdir()
    return lambda *words: hostler_in(folder, *words)


def test_submit_notes_what_no_device_can_run(living: Fleet, typed: Hostler) -> None:
    said = typed("submit", "--own-dir", "--device", "gpu", "--", "true")
    job = said.out.strip()
    assert (said.status, said.err.splitlines()[-1]) == (0, f"note: {job} {GPU_NOTE}")
    assert living.job(job)["state"] == "pending"
    assert typed("cancel", job).status == 0


def test_submit_names_jobs_that_keep_their_earlier_files(living: Fleet, typed: Hostler, tmp_path: Path) -> None:
    script = tmp_path / "project/train.py"
    script.write_text("print('first')")
    job = typed("submit", "--key", "keeps-files", "--", sys.executable, "train.py").out.strip()
    said = typed("submit", "--key", "keeps-files", "--", sys.executable, "train.py")
    assert (said.out.strip(), "note:" in said.err) == (job, False)
    script.write_text("print('second')")
    said = typed("submit", "--key", "keeps-files", "--", sys.executable, "train.py")
    assert said.out.strip() == job
    assert f"note: {job} had other files when first submitted and keeps them; another key is a new job\n" in said.err
    assert typed("wait", job).status == 0


def test_strict_submits_nothing(living: Fleet, typed: Hostler) -> None:
    before = living.client.status()["seq"], sum(living.client.status()["jobs"].values())
    said = typed("submit", "--strict", "--own-dir", "--device", "gpu", "--name", "train", "--", "true")
    assert (said.status, said.out) == (2, "")
    assert "job 'train' cannot run on any device: needs a GPU, and node here has none (2 CPU slots)" in said.err
    assert sum(living.client.status()["jobs"].values()) == before[1]


def test_submit_notes_a_held_node(living: Fleet, typed: Hostler) -> None:
    assert typed("node", "cordon", "here", "--why", "a new fan").status == 0
    try:
        said = typed("submit", "--own-dir", "--", "true")
        assert said.status == 0
        assert f"note: {said.out.strip()} cannot start now: here is cordoned" in said.err
        assert "a new fan" in said.err
    finally:
        assert typed("node", "resume", "here").status == 0
    assert typed("wait", said.out.strip()).status == 0


def test_submit_notes_a_missing_script_and_program(living: Fleet, typed: Hostler, tmp_path: Path) -> None:
    said = typed("submit", "--", "python", "trian.py")
    assert said.status == 0
    assert (
        f"note: there is no file 'trian.py' in {tmp_path}/project; correct the command or the folder (cwd)\n"
        in said.err
    )
    said = typed("submit", "--", "trian")
    assert "note: there is no program 'trian' in the PATH here; correct the command unless a node has it" in said.err
    said = typed("submit", "--", "./run")
    assert "note: there is no program './run' in" in said.err
    (tmp_path / "project/run").write_text("#!/bin/sh\n")
    said = typed("submit", "--strict", "--", "./run")
    assert (said.status, said.out) == (2, "")
    assert "'./run' in" in said.err
    assert "cannot be executed; `chmod +x ./run` makes it a program. Nothing was submitted" in said.err


@pytest.mark.parametrize(
    ("argv", "says", "remedy"),
    [
        (
            ["trian"],
            "cannot start 'trian': no such program in PATH ",
            "or install the program there and `hostler retry ",
        ),
        (["python3", "-u", "trian.py"], "there is no file 'trian.py' in ", "submit a corrected command or folder"),
        (["./notes"], "'./notes' in ", "submit a corrected command or folder"),
    ],
)
def test_a_command_that_cannot_run_fails_at_its_first_attempt(
    living: Fleet, typed: Hostler, tmp_path: Path, argv: list[str], says: str, remedy: str
) -> None:
    (tmp_path / "project/notes").write_text("no program")
    said = typed("submit", "--wait", "--", *argv)
    job, told = said.out.splitlines()
    assert said.status == 1
    assert told.startswith(f"{job} failed: {says}")
    assert remedy in told
    assert living.job(job)["attempts"] == 1


def test_job_in_place_in_a_missing_folder_is_noted_and_fails_at_its_first_attempt(
    living: Fleet, typed: Hostler, tmp_path: Path
) -> None:
    words = ("--in-place", "--cwd", str(tmp_path / "gone"), "--", "ls")
    refused = typed("submit", "--strict", *words)
    assert (refused.status, refused.out) == (2, "")
    assert "there is no folder '" in refused.err
    said = typed("submit", "--wait", *words)
    assert said.status == 1
    assert "note: there is no folder '" in said.err
    assert living.job(said.out.split()[0])["attempts"] == 1


def test_submit_and_wait_ends_with_the_exit_status_of_the_job(living: Fleet, typed: Hostler) -> None:
    words = ("submit", "--own-dir", "--max-attempts", "exit=1", "--wait", "--", sys.executable, "-c")
    said = typed(*words, "raise SystemExit(7)")
    job = said.out.split()[0]
    assert (said.status, said.out) == (7, f"{job}\n{job} failed: exit 7, attempt 1 of 1\n")
    said = typed(*words, "print('hello')")
    assert said.status == 0
    assert said.out.splitlines()[1].startswith(f"{said.out.split()[0]} done in ")


def test_submit_and_follow_prints_the_output(living: Fleet, typed: Hostler) -> None:
    words = ("submit", "--own-dir", "--max-attempts", "exit=1", "--follow", "--", sys.executable, "-c")
    said = typed(*words, "print('hello'); raise SystemExit(7)")
    job = said.out.split()[0]
    assert (said.status, said.out) == (7, f"{job}\nhello\n")
    assert f"{job} failed: exit 7, attempt 1 of 1" in said.err


def test_a_jobs_file_is_waited_for_as_a_whole(living: Fleet, typed: Hostler, tmp_path: Path) -> None:
    file = tmp_path / "jobs.yaml"
    file.write_text(
        "- {name: good, argv: [true]}\n- {name: bad, argv: [false], retry: {max_attempts: {exit: 1}}}\n".replace(
            "[true]", "['true']"
        ).replace("[false]", "['false']")
    )
    said = typed("submit", "--jobs-file", str(file), "--wait")
    assert said.status == 1
    assert {line.split()[1] for line in said.out.splitlines()[2:]} == {"done", "failed:"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--wait", "--follow", "--", "true"], "--follow waits for the end, too; leave out --wait"),
        (["--json", "--wait", "--", "true"], "--json prints one document, the ids"),
        (["--json", "--follow", "--", "true"], "--json prints one document, the ids"),
        (["--jobs-file", "x.yaml", "--follow"], "--follow does not go with --jobs-file"),
    ],
)
def test_options_that_contradict_each_other_are_refused(typed: Hostler, words: list[str], message: str) -> None:
    said = typed("submit", *words)
    assert (said.status, said.out) == (2, "")
    assert message in said.err
    assert said.err.count("\n") == 1
