"""The command line, by hand."""

import json
from pathlib import Path

import pytest

from hostler.workloads.sieve.cli import main

from .support import DRAWS, draws, run


def test_search_finds_the_planted_seed() -> None:
    seed = json.loads((DRAWS / "answers.json").read_text())["seeds"]["java.json"]
    done = run("search", str(DRAWS / "java.json"), "--start", str(seed - 10**6), "--stop", str(seed + 10**6))
    assert done.returncode == 0, done.stderr
    (hit,) = map(json.loads, done.stdout.splitlines())
    assert (hit["at"], hit["draws"]) == (seed, 12)
    assert hit["expected_by_chance"] == pytest.approx(2e6 * hit["chance"])
    assert "100.0% of 2000000 seeds" in done.stderr


def test_draw_is_the_oracle(capsys: pytest.CaptureFixture[str]) -> None:
    output = '{"kind": "bound", "bound": 1000}'
    assert main(["draw", "java-random", "--seed", "0x2a", "--count", "4", "--output", output]) == 0
    assert json.loads(capsys.readouterr().out) == draws("java-random", json.loads(output), 42, 4)


def test_check_names_what_a_file_holds(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(DRAWS / "php.json"), str(DRAWS / "python.json")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "php-mt_rand, 12 known draws, chance 1e-36" in lines[0]
    assert "python-random" in lines[1]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["check", "no-such.json"], "no-such.json: cannot be read"),
        (["check", str(DRAWS / "answers.json")], "missing"),
        (["search", str(DRAWS / "php.json"), "--stop", "4294967297"], "start < stop <= 4294967296"),
        (["search", str(DRAWS / "php.json"), "--start", "9", "--stop", "9"], "start < stop"),
        (["search", str(DRAWS / "php.json"), "--threads", "0"], "at least one thread"),
        (["search", str(DRAWS / "php.json"), "--skip", "-1"], "skip"),
        (["draw", "mt19937", "--seed", "1", "--output", "{}"], "choose one of"),
        (["draw", "xorshift32", "--seed", "4294967296", "--output", '{"kind": "exact"}'], "the seed must lie"),
    ],
)
def test_mistakes_are_named(arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 1
    assert complaint in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [[], ["sieve"], ["search"], ["draw", "xorshift32", "--seed", "x"]])
def test_wrong_usage_exits_with_2(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        main(arguments)
    assert raised.value.code == 2


def test_data_is_found_from_the_working_folder(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(DRAWS)
    assert main(["check", str(Path("java.json"))]) == 0
    assert "java-random" in capsys.readouterr().out
