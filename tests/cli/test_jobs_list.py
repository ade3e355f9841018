"""`jobs` on a terminal: a line for each job, and a short reason below it where there is one."""

from __future__ import annotations

import pytest

from hostler.model.inputs import Submit
from hostler.model.work import Resources
from tests.cli.conftest import Hostler
from tests.cli.fake_groups import FakeController
from tests.core.builders import ended, script, sweep
from tests.web.core_desk import Window
from tests.web.pages.batches import batch


def test_name_and_reason_of_a_job_are_wrapped_and_not_cut(fake: FakeController, hostler: Hostler) -> None:
    job = fake.add("failed")
    fake.jobs_by_id[job]["name"] = "train-resnet-with-a-long-name-that-does-not-fit"
    fake.jobs_by_id[job]["why"] = "there is no program 'x' in the PATH " + ":".join(["/usr/local/bin"] * 30)
    heading, row, name, *reason = hostler("jobs").out.splitlines()
    assert heading.split() == ["ID", "STATE", "WORK", "TRIES", "DURATION", "DEVICE", "NAME"]
    assert name == "    train-resnet-with-a-long-name-that-does-not-fit"
    assert reason[0].startswith("    there is no program 'x' in the PATH")
    assert all(line.startswith("    ") for line in reason)
    assert "".join(line.strip() for line in reason).count("/usr/local/bin") == 30
    assert not any("…" in line for line in (row, *reason))
    assert max(map(len, (heading, row, name, *reason))) <= 80


def test_reason_of_a_failed_job_begins_with_its_exit_status(fake: FakeController, hostler: Hostler) -> None:
    fake.add("failed")
    assert hostler("jobs").out.splitlines()[2] == "    exit 3, attempt 1 of 1: no data"


def test_program_reads_a_job_in_one_whole_line(
    fake: FakeController, hostler: Hostler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS")
    fake.jobs_by_id[fake.add("failed")]["why"] = "word " * 100 + "end"
    _, line = hostler("jobs").out.splitlines()
    assert line.endswith("end")


def test_job_that_fits_on_no_device_has_its_reason(served: Window, hostler: Hostler) -> None:
    served.tell(Submit(specs=(script("gpu", resources=Resources(device="gpu")), *(script() for _ in range(5)))))
    lines = hostler("jobs").out.splitlines()
    assert lines[2] == "    fits on no device: needs a GPU, n/cpu0 is a CPU slot"
    assert len(lines) == 8


def test_function_calls_are_listed_by_their_own_word(served: Window, hostler: Hostler) -> None:
    served.tell(Submit(specs=(batch("train", 10**9), sweep("seeds", stop=10**9))))
    assert [line.split()[2] for line in hostler("jobs").out.splitlines()[1:]] == ["calls", "sweep"]
    assert [line.split()[2] for line in hostler("queue").out.splitlines()[1:3]] == ["calls", "sweep"]
    assert "next     j1 calls train" in hostler("status", "--watch").out
    assert "calls j1." in hostler("top").out


def test_json_of_a_job_has_its_duration(served: Window, hostler: Hostler) -> None:
    served.tell(Submit(specs=(script("a", key="a"),)))
    assert hostler("job", "show", "a", "--json").json["job"]["duration_s"] is None
    served.tell(ended("j1.1"))
    assert hostler("job", "show", "a", "--json").json["job"]["duration_s"] == 1.0
    assert [job["duration_s"] for job in hostler("jobs", "--json").json] == [1.0]
    assert served.get("/api/v1/jobs/a").json["job"]["duration_s"] == 1.0
