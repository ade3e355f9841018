"""Parameters, data files, digests and chance."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hostler.workloads.sieve import spec
from hostler.workloads.sieve.errors import SpecError

from .support import DRAWS, draws, environment, params

GOOD = params("php-mt_rand", {"kind": "range", "min": 1, "max": 1000}, [12, None, 877])


def test_prepare_completes_inline_parameters() -> None:
    without_skip = {name: value for name, value in GOOD.items() if name != "skip"}
    assert spec.prepare(without_skip, Path()) == GOOD


def test_prepare_resolves_a_data_file_against_the_base_folder() -> None:
    prepared = spec.prepare({"data": "draws/php.json", "skip": 3}, DRAWS.parent)
    assert prepared["skip"] == 3
    assert "provenance" not in prepared
    assert spec.prepare(prepared, Path()) == prepared


def test_floats_of_random_become_integers() -> None:
    prepared = spec.prepare(params("python-random", {"kind": "random"}, [0.5, 0, None]), Path())
    assert prepared["draws"] == [2**52, 0, None]


def test_digest_is_that_of_the_protocol() -> None:
    text = '{"a":"\\u00e9","b":[1,null]}'
    assert spec.digest({"b": [1, None], "a": "é"}) == hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize(
    ("name", "digest"),
    [
        ("java.json", "649e70f917ac3369a2d557740c8a10c24ff162a7feccd58edc0983f95c1a9404"),
        ("php-exact.json", "3ce1b02814454e6a41f7cb83946952f4939fc7f0a70eebdf37bceacdcee55dad"),
        ("php.json", "e0e10a432c39760574a17f383f8738463960ea0f4f5a3575baf4f5e9134c6ae0"),
        ("python-random.json", "5e66a2e4bb52b2121a9f4ce6e28b32cd33f808e852e3aa5bcc2850e0c0344d70"),
        ("python.json", "11290a4ec609f829fe9aa5e03e684895172cf9d44d02a32dc851b3c496e3dd90"),
        ("xorshift32.json", "a455ce18fdd682e812091a646941c1fefa266fbf0af6b882a1f0c56a2b5158e1"),
    ],
)
def test_digests_stay_what_they_were(name: str, digest: str) -> None:
    # A sweep that was begun by an earlier version must find its own parameters again.
    assert spec.digest(spec.prepare({"data": name}, DRAWS)) == digest


def test_other_names_of_a_generator_have_its_digest() -> None:
    assert spec.prepare({**GOOD, "generator": "php8"}, Path()) == GOOD


def test_chance_of_outputs_with_huge_spaces() -> None:
    shuffle = params("php-mt_rand", {"kind": "shuffle", "n": 128}, [list(range(128))])
    assert 0 < spec.chance(shuffle) < 1e-200
    double = params("go-rand", {"kind": "float64"}, [0.75])
    assert spec.chance(double) == pytest.approx(2.0**-53)


@pytest.mark.parametrize(
    ("output", "draw", "complaint"),
    [
        ({"kind": "shuffle", "n": 3}, [0, 1, 1], "is no permutation"),
        ({"kind": "shuffle", "n": 3}, [0, 1], "is no permutation"),
        ({"kind": "shuffle", "n": 3}, 6, "lies outside 0..5"),
        ({"kind": "shuffle", "n": 1}, 0, "lies outside 2..128"),
        ({"kind": "getrandbits", "k": 0}, 0, "getrandbits"),
        ({"kind": "range", "min": 5, "max": 4}, 0, "is above max"),
        ({"kind": "floor", "n": 0}, 0, "floor"),
    ],
)
def test_impossible_new_outputs_and_draws_are_refused(output: dict[str, Any], draw: Any, complaint: str) -> None:
    with pytest.raises(SpecError, match=complaint):
        spec.parse(params("python-random", output, [draw]))


@pytest.mark.parametrize(
    ("draw", "complaint"), [("zz", "hexadecimal"), ("0102", "has 2 bytes, not 3"), (1 << 24, "lies")]
)
def test_impossible_bytes_are_refused(draw: Any, complaint: str) -> None:
    with pytest.raises(SpecError, match=complaint):
        spec.parse(params("java-random", {"kind": "bytes", "n": 3}, [draw]))


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"schema": 3}, "schema"),
        ({"schema": True}, "schema"),
        ({"generator": "mt19937"}, "generator"),
        ({"draws": []}, "draws"),
        ({"draws": "12"}, "draws"),
        ({"draws": [None]}, "every seed would pass"),
        ({"draws": [1, 1001]}, r"draws\[1\]: 1001 lies outside 1..1000"),
        ({"draws": [1.0]}, r"draws\[0\]"),
        ({"draws": [True]}, r"draws\[0\]"),
        ({"draws": [5], "output": {"kind": "range", "min": 5, "max": 5}}, "every seed would pass"),
        ({"skip": -1}, "skip"),
        ({"skip": 10**7}, "skip"),
        ({"skip": None}, "skip"),
        ({"extra": 1}, "unknown extra"),
    ],
)
def test_wrong_parameters_are_refused(change: dict[str, Any], complaint: str) -> None:
    with pytest.raises(SpecError, match=complaint):
        spec.prepare(GOOD | change, Path())


@pytest.mark.parametrize("name", ["schema", "generator", "output", "draws"])
def test_a_missing_field_is_named(name: str) -> None:
    with pytest.raises(SpecError, match=f"missing .*{name}"):
        spec.parse({key: value for key, value in GOOD.items() if key != name})


@pytest.mark.parametrize("draw", [1.0, -0.25, 0.1234567890123456789e-300, float("nan"), float("inf"), "0.5"])
def test_what_random_cannot_return_is_refused(draw: object) -> None:
    with pytest.raises(SpecError):
        spec.parse(params("python-random", {"kind": "random"}, [draw]))


def test_chance_multiplies_over_known_draws_and_is_never_zero() -> None:
    assert spec.chance(GOOD) == pytest.approx(1e-6)
    exact = {"kind": "exact"}
    many = draws("xorshift32", exact, 7, 100)
    assert 0 < spec.chance(params("xorshift32", exact, many)) < 1e-300


def test_items_are_the_generators_seeds() -> None:
    assert spec.item_range(GOOD) == (0, 2**32)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("{", "is no JSON"),
        ("[]", "holds no draws"),
        ('{"schema": 1}', "missing"),
    ],
)
def test_broken_data_files_are_named(tmp_path: Path, content: str, complaint: str) -> None:
    path = tmp_path / "draws.json"
    path.write_text(content)
    with pytest.raises(SpecError, match=f"draws.json: .*{complaint}"):
        spec.prepare({"data": path.name}, tmp_path)


def test_a_data_file_needs_its_provenance_and_nothing_else(tmp_path: Path) -> None:
    content = json.loads((DRAWS / "java.json").read_text())
    changes: list[dict[str, Any]] = [
        {"provenance": {}},
        {"provenance": {**content["provenance"], "runtime": ""}},
        {"seed": 42},
    ]
    for change in changes:
        path = tmp_path / "draws.json"
        path.write_text(json.dumps(content | change))
        with pytest.raises(SpecError, match=r"draws\.json"):
            spec.prepare({"data": path.name}, tmp_path)


def test_a_missing_data_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"none\.json: cannot be read"):
        spec.prepare({"data": "none.json"}, tmp_path)


@pytest.mark.parametrize("path", sorted(DRAWS.glob("*.json")), ids=lambda path: path.name)
def test_recorded_draws_come_from_their_answers_and_do_not_tell_them(path: Path) -> None:
    answers = json.loads((DRAWS / "answers.json").read_text())["seeds"]
    if path.name == "answers.json":
        assert sorted(answers) == sorted(file.name for file in DRAWS.glob("*.json") if file != path)
        return
    prepared = spec.prepare({"data": path.name}, DRAWS)
    seed = answers[path.name]
    assert str(seed) not in path.read_text()
    assert draws(prepared["generator"], prepared["output"], seed, len(prepared["draws"])) == prepared["draws"]
    assert spec.chance(prepared) < 1e-30


def test_the_specification_side_needs_no_numpy_and_no_numba() -> None:
    code = (
        "import sys; sys.modules['numpy'] = sys.modules['numba'] = None\n"
        "from hostler.workloads.sieve import cli, spec; sys.exit(cli.main(['generators']))"
    )
    done = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "java-random" in done.stdout


def test_columns_that_are_no_matter_are_named(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,draw\n1,12\n2,13\n")
    given = {"data": "a.csv", "generator": "php8", "calls": "mt_rand(1,100)"}
    with pytest.raises(SpecError, match=r"unknown id.*name what is to be passed over in ignore"):
        spec.prepare(given, tmp_path)
    assert spec.prepare({**given, "ignore": ["id"]}, tmp_path)["draws"] == [12, 13]
    with pytest.raises(SpecError, match="ignore: 'id': must be a list"):
        spec.prepare({**given, "ignore": "id"}, tmp_path)
