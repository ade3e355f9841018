"""Seeds are found on a real fleet, from the command line: by algebra, by brute force; controls find nothing."""

from __future__ import annotations

import json
from itertools import islice

import pytest

from hostler.workloads.sieve import callspec
from hostler.workloads.sieve.generators import generator, oracle
from tests.integration.conftest import Fleet, Hostler

pytest.importorskip("numba", reason="searches need numba: pip install 'hostler[kernels]'")


def recorded(fleet: Fleet, name: str, calls: str, seed: int, count: int, skip: int = 0) -> str:
    """A file of draws of this seed."""
    made_by = generator(name)
    (call,) = callspec.parse(made_by, calls)
    path = fleet.path / f"{name}-{seed}.txt"
    path.write_text("".join(f"{draw}\n" for draw in islice(oracle(made_by, call, seed, skip=skip), count)))
    return str(path)


@pytest.mark.parametrize(
    ("name", "calls", "seed", "count", "more"),
    [
        ("java", "nextInt(1000)", 12_345_678_901_234, 10, []),
        pytest.param("v8", "Math.floor(Math.random()*1000)", 987_654_321_987_654_321, 64, [], marks=pytest.mark.long),
        pytest.param(
            "php8",
            "mt_rand(1,100)",
            1_000_123,
            12,
            ["--range", "1e6:1001e3", "--param", "skip=[0,9]"],
            marks=pytest.mark.long,
        ),
        pytest.param(
            "dotnet", "Next(1,50)", 70_000, 12, ["--range", "0:2**18", "--share", "1/3"], marks=pytest.mark.long
        ),
    ],
)
def test_the_seed_is_found_and_what_comes_next(
    running: Fleet, hostler: Hostler, name: str, calls: str, seed: int, count: int, more: list[str]
) -> None:
    file = recorded(running, name, calls, seed, count, skip=4 if "skip=[0,9]" in more else 0)
    words = ("sweep", "submit", "sieve", "--data", file, "--generator", name, "--calls", calls, *more, "--wait")
    said = hostler(running, *words, "--json")
    assert said.status == 0, said.err
    (found,) = map(json.loads, said.out.splitlines())
    made_by = generator(name)
    (call,) = callspec.parse(made_by, calls)
    begun = count + (4 if "skip=[0,9]" in more else 0)
    assert (found["at"], found["e_value"] < 1e-6) == (seed, True)
    assert found["next"] == list(islice(oracle(made_by, call, seed, skip=begun), 5))
    again = hostler(running, *words)
    assert again.status == 0, again.err
    assert found["job"] in again.out, "the same question is the same job"
    assert "the same draws shuffled: 0 survived" in again.out
    assert max(map(len, again.out.splitlines())) <= 80
    assert hostler(running, "sweep", "verify", found["job"]).status == 0


@pytest.mark.long
def test_all_generators_are_searched_and_one_made_the_draws(running: Fleet, hostler: Hostler) -> None:
    file = recorded(running, "go", "Intn(50)", 4321, 14)
    words = ("sweep", "submit", "who", "--data", file, "--all-generators", "--values", "0:49", "--range", "0:2**13")
    said = hostler(running, *words, "--no-control", "--wait")
    assert said.status == 0, said.err
    assert max(map(len, said.out.splitlines())) <= 80
    (row,) = [line.split() for line in said.out.splitlines() if "4321" in line]
    assert row[0] == "go-rand"
    assert "searches: 1 survived:" in said.out


@pytest.mark.long
def test_several_files_are_several_searches_with_a_page_and_lines_of_json(running: Fleet, hostler: Hostler) -> None:
    pytest.importorskip("matplotlib", reason="reports need the extra `report`")
    files = [recorded(running, "dotnet", "Next(1,50)", seed, 12) for seed in (500, 600)]
    data = [word for file in files for word in ("--data", file)]
    words = ("sweep", "submit", "two", *data, "--generator", "dotnet", "--calls", "Next(1,50)", "--range", "0:2**12")
    said = hostler(running, *words, "--wait", "--json")
    assert said.status == 0, said.err
    found = list(map(json.loads, said.out.splitlines()))
    assert sorted(each["at"] for each in found) == [500, 600]
    jobs = [each["job"] for each in found]
    again = hostler(running, "sieve", "survivors", *jobs, "--json")
    assert list(map(json.loads, again.out.splitlines())) == found
    page = running.path / "seeds.html"
    assert hostler(running, "sieve", "report", *jobs, "-o", str(page)).status == 0
    assert page.read_text().count("Found: 1 survived") == 2


def test_what_is_no_search_has_no_survivors(running: Fleet, hostler: Hostler) -> None:
    job = running.script("true")
    said = hostler(running, "sieve", "survivors", job)
    assert said.status == 2
    assert "is no search for a seed" in said.err


def test_a_search_that_settles_nothing_is_told_of(running: Fleet, hostler: Hostler) -> None:
    file = recorded(running, "php8", "mt_rand(1,6)", 77, 4)
    words = (
        "sweep",
        "submit",
        "dice",
        "--data",
        file,
        "--generator",
        "php8",
        "--calls",
        "mt_rand(1,6)",
        "--range",
        "0:1000",
    )
    said = hostler(running, *words, "--no-control")
    assert said.status == 0
    assert "WARNING: survivors of this search will mean little: 7 known draws would do" in said.out
    hostler(running, "cancel", said.out.split()[-1])  # the search itself is not what this is about


def test_what_would_take_years_needs_its_range_named(running: Fleet, hostler: Hostler) -> None:
    file = recorded(running, "splitmix64", "next() % 1000", 77, 12)
    said = hostler(
        running, "sweep", "submit", "x", "--data", file, "--generator", "splitmix64", "--calls", "next() % 1000"
    )
    assert said.status == 2
    assert "years of one core; say with --range" in said.err
