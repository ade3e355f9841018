"""The command line, by hand."""

import json
import random
from pathlib import Path

import pytest

from hostler.workloads.sieve.cli import main
from hostler.workloads.sieve.generators import GENERATORS, generator
from hostler.workloads.sieve.program import PROGRAM
from hostler.workloads.sieve.spec import output_arguments, parse_output

from .support import DRAWS, Output, draws, params, run


@pytest.mark.long
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


def test_the_list_of_generators_fits_80_columns(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generators"]) == 0
    listed = capsys.readouterr().out
    assert max(map(len, listed.splitlines())) <= 80
    assert all(f"\n{name}" in listed for name in GENERATORS)
    assert "lcg:A,C,M,SHIFT" in listed


@pytest.mark.parametrize("name", [*GENERATORS, "lcg:1103515245,12345,2147483648,16"])
def test_every_generator_draws(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    for kind, output in generator(name).outputs.items():
        arguments = {**dict.fromkeys(output_arguments(output), 7), "shift": 1, "bits": 3, "min": 2, "max": 9}
        given = {"kind": kind, **{field: arguments[field] for field in output_arguments(output)}}
        assert main(["draw", name, "--seed", "5", "--count", "3", "--output", json.dumps(given)]) == 0
        drawn = json.loads(capsys.readouterr().out)
        parsed = parse_output(generator(name), given)
        assert [parsed.read(draw) for draw in drawn] == draws(name, given, 5, 3)


def test_a_text_seeds_where_texts_are_seeds(capsys: pytest.CaptureFixture[str]) -> None:
    shuffle = '{"kind": "shuffle", "n": 5}'
    assert main(["draw", "python", "--seed", "text:hello", "--count", "1", "--output", shuffle]) == 0
    source, items = random.Random("hello"), list(range(5))
    source.shuffle(items)
    assert json.loads(capsys.readouterr().out) == [items]
    assert main(["draw", "php8", "--seed", "text:hello", "--output", shuffle]) == 1
    assert "takes no texts" in capsys.readouterr().err


def recorded(path: Path, name: str, output: Output, seed: int) -> Path:
    """A data file with draws of the oracle."""
    provenance = {"runtime": "none", "script": "none", "command": "none"}
    content = params(name, output, draws(name, output, seed, 6))
    del content["skip"]
    path.write_text(json.dumps({**content, "provenance": provenance}))
    return path


@pytest.mark.parametrize(
    ("name", "output"),
    [
        pytest.param("glibc-rand", {"kind": "mod", "modulus": 100}, marks=pytest.mark.long),
        pytest.param("php8", {"kind": "shuffle", "n": 5}, marks=pytest.mark.long),
        pytest.param("java", {"kind": "double"}, marks=pytest.mark.long),
        ("lcg:69069,1,4294967296,16", {"kind": "exact"}),
        pytest.param("dotnet", {"kind": "below", "n": 1000}, marks=pytest.mark.long),
    ],
)
def test_any_output_of_any_generator_is_searched(
    name: str, output: Output, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = recorded(tmp_path / "draws.json", name, output, 70_005)
    assert main(["search", str(file), "--start", "70000", "--stop", "70100", "--threads", "1"]) == 0
    (hit,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert hit["at"] == 70_005
    assert hit["next"] == [parse_output(generator(name), output).show(draw)
                           for draw in draws(name, output, 70_005, 11)[6:]]  # fmt: skip
    assert PROGRAM.prepare({"data": str(file)}, tmp_path)["generator"] == generator(name).name
