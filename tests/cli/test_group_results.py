"""`hostler results`: columns, order, widths, CSV and JSON."""

from __future__ import annotations

import csv
import io
import math
from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from hostler.cli.results import Field, fields_of, ordered
from tests.cli.conftest import Hostler
from tests.cli.fake_groups import FakeController


@pytest.fixture
def grid(fake: FakeController) -> FakeController:
    """Four jobs with two parameters, of which one failed and one still runs."""
    fake.add(lr="0.1", bs="16", result={"accuracy": 0.123456789, "best": False, "nested": {"a": 1}})
    fake.add(lr="0.01", bs="8", result={"accuracy": 0.9, "best": True, "note": 'a, "b"\nc'})
    fake.add("failed", lr="1e-3", bs="128")
    fake.add("running", lr="1", bs="64")
    return fake


def ids(out: str) -> list[str]:
    return [line.split()[0] for line in out.splitlines()[1:]]


def test_results_have_parameters_outcome_duration_and_result_fields(grid: FakeController, hostler: Hostler) -> None:
    said = hostler("results", "g1")
    assert (said.status, said.err) == (0, "3 of 4 jobs have ended\n")
    assert said.out.splitlines() == [
        "JOB    lr   bs  OUTCOME  DURATION  accuracy  best   note",
        "j1    0.1   16  done         12 s  0.123457  false  -",
        'j2   0.01    8  done         12 s       0.9  true   a, "b"\\nc',
        "j3   1e-3  128  failed       12 s         -  -      -",
        "j4      1   64  running         -         -  -      -",
    ]


@pytest.mark.parametrize(
    ("words", "order"),
    [
        (["--sort", "lr"], ["j3", "j2", "j1", "j4"]),
        (["--sort", "-bs"], ["j3", "j4", "j1", "j2"]),
        (["--sort", "bs", "--descending"], ["j3", "j4", "j1", "j2"]),
        (["--sort", "accuracy"], ["j1", "j2", "j3", "j4"]),
        (["--sort=-accuracy"], ["j2", "j1", "j3", "j4"]),
        (["--sort", "-best"], ["j2", "j1", "j3", "j4"]),
        (["--sort", "outcome"], ["j1", "j2", "j3", "j4"]),
        (["--sort", "-duration"], ["j1", "j2", "j3", "j4"]),
        (["--sort", "-job"], ["j4", "j3", "j2", "j1"]),
    ],
)
def test_results_are_sorted_by_any_field(
    grid: FakeController, hostler: Hostler, words: list[str], order: list[str]
) -> None:
    assert ids(hostler("results", "g1", *words).out) == order
    assert [row["job"] for row in hostler("results", "g1", *words, "--json").json] == order


def test_csv_has_exact_values_and_quotes(grid: FakeController, hostler: Hostler) -> None:
    grid.jobs_by_id["j1"]["duration_s"] = 100.1 - 100.0
    said = hostler("results", "g1", "--csv")
    assert said.out.startswith("job,lr,bs,outcome,duration_s,accuracy,best,note\r\n")
    assert "\r\nj4,1,64,running,,,,\r\n" in said.out
    rows = list(csv.DictReader(io.StringIO(said.out, newline="")))
    assert float(rows[0]["duration_s"]) == 100.1 - 100.0
    assert [rows[0]["accuracy"], rows[0]["best"]] == ["0.123456789", "false"]
    assert rows[1]["note"] == 'a, "b"\nc'


def test_json_has_the_rows_of_the_controller(grid: FakeController, hostler: Hostler) -> None:
    assert hostler("results", "g1", "--json").json == list(grid.group_results("g1"))


def test_results_of_several_groups_are_one_table(grid: FakeController, hostler: Hostler) -> None:
    grid.add(group="g2", lr="0.5", result={"accuracy": 0.5})
    said = hostler("results", "g1", "g2", "g1", "--sort", "-accuracy")
    assert (said.status, said.err) == (0, "4 of 5 jobs have ended\n")
    assert ids(said.out) == ["j2", "j5", "j1", "j3", "j4"]
    assert [row["job"] for row in hostler("results", "g2", "g1", "--json").json] == ["j5", "j1", "j2", "j3", "j4"]


def test_results_that_are_not_objects_have_a_column(fake: FakeController, hostler: Hostler) -> None:
    fake.add(result=0.5)
    fake.add(result=[1, 2])
    fake.add(result={"result": 3})
    lines = hostler("results", "g1").out.splitlines()
    assert lines[0].split() == ["JOB", "OUTCOME", "DURATION", "RESULT", "result.result"]
    assert [line.split()[-2:] for line in lines[1:]] == [["0.5", "-"], ["[1,2]", "-"], ["-", "3"]]


def test_fields_of_one_name_are_told_apart() -> None:
    row = {"job": "j1", "state": "done", "started_at": None, "ended_at": None, "duration_s": None}
    fields = fields_of([{**row, "parameters": {"lr": "1", "job": "x"}, "result": {"lr": 2, "duration": 3, "loss": 4}}])
    assert [(each.name, each.values[0]) for each in fields] == [
        ("job", "j1"), ("lr", "1"), ("parameter.job", "x"), ("outcome", "done"), ("duration", None),
        ("result.lr", 2), ("result.duration", 3), ("loss", 4),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["g1", "--sort", "los"], "--sort 'los': the results of g1 have no such field. The fields are job, lr, bs, "),
        (["g1", "g1", "--sort", "los"], "--sort 'los': the results of g1 have no such field. "),
        (["g1", "j1"], "'j1' is not the id of a job group"),
        (["g1", "--csv", "--json"], "--csv and --json exclude each other; give one of them"),
        (["g1", "--descending"], "--descending orders by the field of --sort; give that, too"),
        (
            ["j1"],
            "'j1' is not the id of a job group: such an id is g and a number, as in g1. `hostler job show j1` prints",
        ),
        (["g7"], "there is no job group 'g7'"),
        (["--csv"], "--csv and --sort are for the jobs of groups; name a group, as `hostler results g1`"),
    ],
)
def test_results_refuse_bad_input_in_one_message(
    grid: FakeController, hostler: Hostler, words: list[str], message: str
) -> None:
    said = hostler("results", *words)
    assert (said.status, said.out) == (2, "")
    assert message in said.err
    assert said.err.count("\n") == 1


def test_table_leaves_out_columns_that_do_not_fit(fake: FakeController, hostler: Hostler) -> None:
    metrics = {f"metric-{number}": 1234.5678 for number in range(9)}
    fake.add(lr="0.1", note="a long text that gives room to numbers", result=metrics)
    said = hostler("results", "g1")
    assert all(len(line) <= 80 for line in said.out.splitlines())
    assert said.out.splitlines()[0].split()[-1] == "metric-3"
    assert "1234.57" in said.out.splitlines()[1]
    assert said.err.startswith("not shown in 80 columns: metric-4, metric-5, metric-6, metric-7, metric-8; `--csv`")
    said = hostler("results", "g1", "--sort", "metric-8")
    assert said.out.splitlines()[0].split()[-1] == "metric-8"
    assert all(len(line) <= 80 for line in said.out.splitlines())


def test_numbers_are_not_shortened_in_columns_that_have_texts_too(fake: FakeController, hostler: Hostler) -> None:
    fake.add(lr="0.0000123456", result={"x": -1.23456789e-05, "note": "n" * 70})
    fake.add(lr="auto", result={"x": "diverged"})
    said = hostler("results", "g1")
    assert said.out.splitlines()[1].split()[:6] == ["j1", "0.0000123456", "done", "12", "s", "-1.23457e-05"]
    assert len(said.out.splitlines()[1]) <= 80


def test_hostile_names_and_texts_are_harmless(fake: FakeController, hostler: Hostler) -> None:
    fake.add(**{"a\x1b[2J": "b\u202e"}, result={"c\n": "\ud800", "huge": 10**400, "nan": math.nan, "inf": math.inf})
    said = hostler("results", "g1")
    assert (said.status, all(line.isprintable() for line in said.out.splitlines())) == (0, True)
    assert "1.00000e+400" in said.out
    assert hostler("results", "g1", "--csv").status == 0
    assert hostler("results", "g1", "--sort", "x").err.rstrip("\n").isprintable()


VALUES = st.none() | st.booleans() | st.integers() | st.floats() | st.text()


@given(st.lists(VALUES), st.booleans())
def test_order_has_numbers_by_size_and_jobs_without_the_field_last(values: list[object], descending: bool) -> None:
    order = ordered(Field("loss", "loss", values), descending=descending)
    assert sorted(order) == list(range(len(values)))
    found = [values[at] for at in order]
    without = [value is None or value != value for value in found]
    assert without == sorted(without)
    numbers = [value for value in found if isinstance(value, int | float) and value == value]
    texts = [value for value in found if isinstance(value, str)]
    assert numbers == sorted(numbers, reverse=descending)
    assert texts == sorted(texts, reverse=descending)


@given(st.lists(st.integers(-5, 5)), st.booleans())
def test_order_keeps_that_of_the_jobs_among_equals(values: list[int], descending: bool) -> None:
    order = ordered(Field("loss", "loss", values, is_number=True), descending=descending)
    assert all(here < there for here, there in pairwise(order) if values[here] == values[there])


@given(st.lists(st.integers() | st.floats(allow_nan=False, allow_infinity=False), min_size=1))
def test_parameters_that_are_numbers_are_ordered_as_numbers(values: list[float]) -> None:
    row = {"job": "j1", "state": "done", "started_at": None, "ended_at": None, "duration_s": None, "result": None}
    fields = fields_of([{**row, "parameters": {"p": repr(value)}} for value in values])
    assert [values[at] for at in ordered(fields[1], descending=False)] == sorted(values)
