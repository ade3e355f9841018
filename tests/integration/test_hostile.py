"""Names, arguments and environments that mean something to a shell, a terminal or a file system: here they are text."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import yaml

from hostler.model.errors import SpecError
from tests.integration.conftest import Fleet, Hostler, command

RECITE = """
import json, os, sys
said = {"argv": [os.fsencode(word).hex() for word in sys.argv[1:]], "env": os.environ.get("MOTTO")}
open(os.environ["HOSTLER_RESULT"], "w").write(json.dumps(said))
"""
KILOBYTES = 1 << 10


def hostile(canary: Path) -> list[str]:
    """Words each of which would make `canary`, or worse, if anything on the way read it."""
    touch = f"touch {canary}"
    return [
        "two words",
        "",
        f"; {touch}",
        f"$({touch})",
        f"`{touch}`",
        f"| {touch} &",
        f"'; {touch}; '",
        f'"; {touch}; "',
        f"line\n{touch}\nend\r\n",
        "\x1b[2J\x1b]0;title\x07\x08\t\x7f",
        "-rf",
        "--help",
        "{python}",
        "%s %(name)s {0} {name}",
        "../../../etc/passwd",
        "*",
        "~",
        "$HOME",
        "\\",
        "\u202egnp.exe",
        "名前 🚀 e\u0301",
        "[red]markup[/red]",
    ]


@pytest.fixture
def canary(running: Fleet) -> Path:
    return running.path / "canary"


def test_words_arrive_byte_for_byte_and_nothing_is_executed(running: Fleet, hostler: Hostler, canary: Path) -> None:
    words = hostile(canary)
    motto = f"MOTTO={' '.join(words)}"
    said = hostler(running, "submit", "--own-dir", "--env", motto, "--", sys.executable, "-c", RECITE, *words)
    assert (said.status, said.err) == (0, "")
    result = running.over(said.out.strip())["result"]
    assert [bytes.fromhex(word).decode() for word in result["argv"]] == words
    assert result["env"] == " ".join(words)
    assert not canary.exists()


def test_names_are_only_names(running: Fleet, hostler: Hostler, canary: Path) -> None:
    names = [name for name in hostile(canary) if name]
    ids = [running.script("true", name=name, key=f"key of {name}") for name in names]
    assert [running.over(job)["job"]["name"] for job in ids] == names
    listed = {job["id"]: job["name"] for job in hostler(running, "jobs", "--json").json}
    assert [listed[job] for job in ids] == names
    assert [running.client.job(f"key of {name}")["job"]["id"] for name in names] == ids
    assert not canary.exists()


def test_no_name_reaches_the_terminal_as_more_than_text(running: Fleet, hostler: Hostler, canary: Path) -> None:
    (job,) = [running.script("true", name=f"{'x' * 5}\x1b[2J\x9b31m\n{'y' * 5}", key="\x1b[31m")]
    running.over(job)
    lines = [
        ("jobs",),
        ("job", "show", job),
        ("explain", job),
        ("events", "--after", "0"),
        ("queue",),
        ("status",),
        (
            "node",
            "list",
        ),
    ]
    for words in lines:
        said = hostler(running, *words)
        assert said.status == 0, said.err
        assert not [each for each in said.out + said.err if not each.isprintable() and each != "\n"], words
    assert "\x1b" not in running.log()


def test_a_job_dir_of_a_hostile_name_stays_where_it_is(running: Fleet, tmp_path: Path) -> None:
    folder = tmp_path / "a b;c'd\"e\n$f"
    folder.mkdir()
    job = running.python("import os; open('here', 'w').close()", cwd=str(folder))
    assert running.over(job)["job"]["state"] == "done"
    assert (folder / "here").exists()


def test_a_megabyte_of_arguments_arrives(running: Fleet) -> None:
    words = [chr(97 + number) * 100 * KILOBYTES for number in range(10)]
    code = RECITE.replace(".hex()", "[:1].decode() + str(len(word))")
    result = running.over(running.python(code, *words))["result"]
    assert result["argv"] == [f"{word[0]}{100 * KILOBYTES}" for word in words]


def test_an_argument_longer_than_the_kernel_takes_is_told_so(running: Fleet) -> None:
    job = running.over(running.python(RECITE, "x" * 1000 * KILOBYTES, retry={"max_attempts": {"spawn": 1}}))["job"]
    assert (job["state"], job["failure"]) == ("failed", "spawn")
    assert "Argument list too long" in job["why"]


def test_more_than_a_megabyte_is_refused_at_once(running: Fleet, hostler: Hostler, tmp_path: Path) -> None:
    before = sum(running.client.status()["jobs"].values())
    with pytest.raises(SpecError, match="longer than 1048576 bytes; pass data in a file"):
        running.python(RECITE, "x" * (KILOBYTES**2 + 1))
    file = tmp_path / "jobs.yaml"
    jobs = [{"name": "good", "argv": ["true"]}, {"name": "long", "argv": ["true", "x" * (KILOBYTES**2 + 1)]}]
    file.write_text(yaml.safe_dump(jobs))
    said = hostler(running, "submit", "--jobs-file", str(file))
    assert (said.status, said.out) == (2, "")
    assert "pass data in a file" in said.err
    assert sum(running.client.status()["jobs"].values()) == before, "all or none"


def test_bytes_that_are_no_text_are_refused_with_a_reason(running: Fleet) -> None:
    said = command("submit", "--state-dir", running.state, "--", "echo", b"caf\xe9")
    assert (said.status, said.out) == (2, "")
    assert "Traceback" not in said.err
    assert "error" in said.err


@pytest.mark.parametrize("name", ["", "x" * 257])
def test_a_name_of_no_use_is_refused(running: Fleet, name: str) -> None:
    with pytest.raises(SpecError, match="name"):
        running.script("true", name=name)


@pytest.mark.parametrize("name", ["../j1", "j1/../../x", "%2e%2e", "j1\n", "x" * 5000, "j1.1", ".."])
def test_a_hostile_id_is_just_not_there(running: Fleet, hostler: Hostler, name: str) -> None:
    said = hostler(running, "job", "show", "--", name)
    assert (said.status, said.out) == (2, "")
    assert "no job" in said.err or "more than 256" in said.err, said.err


def test_output_is_what_the_process_wrote(running: Fleet, hostler: Hostler) -> None:
    wrote = bytes(range(256)).hex()
    job = running.python(f"import os; os.write(1, bytes.fromhex({wrote!r})); os.write(2, b'\\xff')")
    running.over(job)
    ended = command("logs", job, "--state-dir", running.state)
    assert ended.out == bytes(range(256)).decode(errors="replace")
    assert running.client.log(f"{job}.1").data == bytes(range(256))
    assert running.client.log(f"{job}.1", "err").data == b"\xff"
