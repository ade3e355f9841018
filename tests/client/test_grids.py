"""Parameters of job groups from options, and placeholders in texts."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, strategies as st

from hostler.client import grids
from hostler.client.grids import (
    Axis,
    Template,
    array_axis,
    combinations,
    grid_axes,
    jobs_of,
    label,
    line_axis,
    placeholders,
    repeat_axis,
    submit_command,
    substituted,
)
from hostler.model.errors import UsageError
from hostler.model.work import NAME_MAX

NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,5}", fullmatch=True).filter(lambda name: name not in grids.OPTION_OF)
VALUES = st.text(min_size=1, max_size=8).filter(lambda value: not value.endswith("\\"))
"""A backslash at the end of a value would make the next comma a part of it."""
GRIDS = st.dictionaries(NAMES, st.lists(VALUES, min_size=1, max_size=4, unique=True), min_size=1, max_size=3)
BRACES = st.text(alphabet="{}ab1_ ", max_size=12)


def words(grid: dict[str, list[str]]) -> list[str]:
    """The values of --grid that state this grid."""
    return [f"{name}={','.join(value.replace(',', chr(92) + ',') for value in grid[name])}" for name in grid]


def template(*argv: str, name: str | None = None, key: str | None = None, **env: str) -> Template:
    """A command with its variables."""
    return Template(argv, env, name, (), key)


def indices(word: str) -> list[str]:
    """The values of --array."""
    return [each["index"] for each in combinations([array_axis(word)[0]])]


def test_limits_are_those_of_the_model() -> None:
    assert grids.NAME_MAX == NAME_MAX


def test_grids_make_each_combination_and_the_last_one_varies_fastest() -> None:
    made = combinations([*grid_axes(["lr=0.1,0.03", "bs=16,32"]), repeat_axis(2)])
    assert [" ".join(each.values()) for each in made] == [
        *["0.1 16 0", "0.1 16 1", "0.1 32 0", "0.1 32 1", "0.03 16 0", "0.03 16 1", "0.03 32 0", "0.03 32 1"]
    ]
    assert list(made[0]) == ["lr", "bs", "repeat"]


@given(GRIDS)
def test_grids_come_back_exactly_from_their_words(grid: dict[str, list[str]]) -> None:
    axes = grid_axes(words(grid))
    assert {axis.name: list(axis.values[0]) for axis in axes} == grid


@given(GRIDS, st.integers(1, 4))
def test_groups_have_a_distinct_job_for_each_combination(grid: dict[str, list[str]], count: int) -> None:
    axes = [*grid_axes(words(grid)), repeat_axis(count)]
    made = combinations(axes)
    size = count
    for values in grid.values():
        size *= len(values)
    assert len(made) == size
    assert len({label(each) for each in made}) == size


def test_labels_of_different_parameters_differ() -> None:
    assert label({"a": "1 b=2", "b": "3"}) != label({"a": "1", "b": "2 b=3"})
    assert label({"lr": "0.1", "bs": "16"}) == "lr=0.1 bs=16"


@pytest.mark.parametrize(
    ("word", "values"),
    [
        ("0-4", ["0", "1", "2", "3", "4"]),
        ("0-15:4", ["0", "4", "8", "12"]),
        ("1,3,5-7", ["1", "3", "5", "6", "7"]),
        ("7", ["7"]),
        ("007-8%2", ["7", "8"]),
    ],
)
def test_arrays_list_their_indices(word: str, values: list[str]) -> None:
    assert indices(word) == values


def test_arrays_state_how_many_run_at_once() -> None:
    assert array_axis("0-99%8")[1] == 8
    assert array_axis("0-99")[1] is None


def test_lines_lose_their_ends_and_blank_ones_are_left_out() -> None:
    axis = line_axis("f", "\ufeffa b \r\n\n  \n\té\u2028x\nlast".encode())
    assert [each["line"] for each in combinations([axis])] == ["a b ", "\té\u2028x", "last"]


@given(st.text(), st.dictionaries(NAMES, VALUES))
def test_text_without_placeholders_is_left_as_it_is(text: str, parameters: dict[str, str]) -> None:
    if not re.search(grids._BRACES, text):
        assert substituted(text, parameters) == text


@given(BRACES)
def test_any_text_is_substituted_by_the_names_it_has(text: str) -> None:
    names = placeholders(text)
    made = substituted(text, dict.fromkeys(names, ""))
    assert len(made) == len(text) - sum(len(name) + 2 for name in names) - 2 * text_braces(text)


def text_braces(text: str) -> int:
    """How many `{{name}}` a text has."""
    return sum(match["text"] is not None for match in re.finditer(grids._BRACES, text))


@given(NAMES, VALUES)
def test_doubled_braces_write_a_name_in_braces(name: str, value: str) -> None:
    assert substituted(f"{{{name}}}={{{{{name}}}}}", {name: value}) == f"{value}={{{name}}}"


@pytest.mark.parametrize("text", ["{}", '{"a": 1}', "{1}", "{a b}", "${", "{a-b}", "{a,b}", "{{}}", "{é}"])
def test_other_braces_are_text(text: str) -> None:
    assert placeholders(text) == []
    assert substituted(text, {}) == text


def test_values_are_not_substituted_again() -> None:
    (job,) = jobs_of(template("p", "{a}{b}"), grid_axes(["a={b}", "b={{a}}"]))
    assert job.argv == ["p", "{b}{{a}}"]


def test_jobs_have_their_values_in_every_text() -> None:
    wanted = Template(["{tool}", "--lr={lr}"], {"SEED": "s{lr}"}, "run {lr}", ["{tool}/*.pt"])
    made = jobs_of(wanted, grid_axes(["lr=0.1,0.03", "tool=./a"]))
    assert made[1].argv == ["./a", "--lr=0.03"]
    assert (made[1].env, made[1].name, made[1].outputs) == ({"SEED": "s0.03"}, "run 0.03", ["./a/*.pt"])
    assert (made[1].parameters, made[1].key) == ({"lr": "0.03", "tool": "./a"}, None)


def test_indices_and_repeats_need_no_placeholder_and_are_variables() -> None:
    made = jobs_of(template("./run"), [array_axis("5")[0], repeat_axis(2)])
    assert [job.argv for job in made] == [["./run"]] * 2
    assert made[1].env == {"HOSTLER_INDEX": "5", "HOSTLER_REPEAT": "1"}


def test_names_and_keys_have_the_parameters() -> None:
    axes = grid_axes(["lr=0.1,0.03", "bs=16"])
    made = jobs_of(template("p", "{lr}", "{bs}", name="try", key="K"), axes)
    assert [job.name for job in made] == ["try lr=0.1 bs=16", "try lr=0.03 bs=16"]
    assert [job.key for job in made] == ["K lr=0.1 bs=16", "K lr=0.03 bs=16"]
    assert jobs_of(template("p" * 70, "{lr}", "{bs}"), axes)[0].name == "p" * 60
    (job,) = jobs_of(template("p", "{line}", name="try"), [line_axis("f", b"x" * 1000)])
    assert len(job.name) == NAME_MAX


def test_the_python_of_the_node_is_no_placeholder_unless_it_is_a_parameter() -> None:
    assert jobs_of(template("{python}", "{lr}"), grid_axes(["lr=1"]))[0].argv == ["{python}", "1"]
    assert jobs_of(template("{python}", "x.py"), grid_axes(["python=pypy"]))[0].argv == ["pypy", "x.py"]
    with pytest.raises(UsageError, match=r"placeholder \{python\}"):
        jobs_of(template("uv", "{python}", "{lr}"), grid_axes(["lr=1"]))


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (["lr=0.1,0.03"], "hostler submit --grid lr=0.1,0.03 -- COMMAND --lr {lr}"),
        (
            ["lr=0.1", "bs=16,32", "python", "train.py", "--bs={bs}"],
            "hostler submit --grid lr=0.1 --grid bs=16,32 -- python train.py --bs={bs} --lr {lr}",
        ),
        (["a=x y,*"], "hostler submit --grid 'a=x y,*' -- COMMAND --a {a}"),
    ],
)
def test_the_command_of_a_grid_can_be_typed(words: list[str], command: str) -> None:
    assert submit_command(words) == command


@given(st.lists(st.text(), max_size=4))
def test_the_command_of_a_grid_is_split_into_the_same_words(more: list[str]) -> None:
    assert shlex.split(submit_command(["a=1", "p", *more]))[5:][: len(more) + 1] == ["p", *more]


REFUSED: Sequence[tuple[Callable[[], object], str]] = [
    (lambda: grid_axes(["lr"]), "--grid 'lr': there are no values. Write NAME=V1,V2, as in lr=0.1,0.03"),
    (
        lambda: grid_axes(["9a=1"]),
        "--grid '9a=1': '9a' is not a name. Use letters, digits and _, with no digit first",
    ),
    (lambda: grid_axes(["=1"]), "--grid '=1': '' is not a name. Use letters, digits and _, with no digit first"),
    (lambda: grid_axes(["line=1"]), "--grid 'line=1': line is the parameter of --each-line. Use another name"),
    (
        lambda: grid_axes(["lr=0.1,,0.3"]),
        "--grid 'lr=0.1,,0.3': value 2 of lr is empty. Write NAME=V1,V2 with a value at each comma",
    ),
    (lambda: grid_axes(["lr="]), "--grid 'lr=': value 1 of lr is empty. Write NAME=V1,V2 with a value at each comma"),
    (
        lambda: grid_axes(["lr=1,2,1"]),
        "--grid lr=1,2,1: lr has the value 1 twice. Write each value once; --repeat N runs each combination several "
        "times",
    ),
    (lambda: grid_axes(["a=1", "a=2"]), "--grid gives 'a' twice. Write all of its values into one --grid"),
    *(
        (
            lambda word=word, part=part: array_axis(word),
            f"--array {word!r}: {part!r} is neither an index nor a range. Write 0-99, 0-15:4 (each fourth) or 1,3,5-7",
        )
        for word, part in [("-3", "-3"), ("", ""), ("a", "a"), ("1,", ""), ("0-9:-1", "0-9:-1"), ("1 - 2", "1 - 2")]
    ),
    (lambda: array_axis("5-1"), "--array '5-1': the range 5-1 ends before it begins. Write 1-5"),
    (lambda: array_axis("0-9:0"), "--array '0-9:0': the step of 0-9:0 is 0. Write 1 or more"),
    (lambda: array_axis("1,0-3"), "--array 1,0-3: index has the value 1 twice. Write each index once"),
    *(
        (
            lambda word=word: array_axis(word),
            f"--array {word!r}: after % comes the number of jobs at once, 1 or more. Write 0-99%8",
        )
        for word in ["0-9%0", "0-9%", "0-9%-1", "0-9%many"]
    ),
    (lambda: line_axis("f", b"\n  \n"), "--each-line 'f' has no lines. Write one line for each job into it"),
    (lambda: line_axis("f", b"\xff"), "--each-line 'f' cannot be read: it is not UTF-8. Convert it, as iconv does"),
    (lambda: line_axis("f", b"a\nb\0\n"), "--each-line 'f', line 2, has a NUL character. Give a text file"),
    (
        lambda: line_axis("f", b"a" * (grids.LINES_BYTES_MAX + 1)),
        "--each-line 'f' is larger than 16 MiB. Split it, or write paths of larger data into it",
    ),
    (
        lambda: combinations([*grid_axes(["a=1,2"]), repeat_axis(10**30)]),
        f"--grid a=1,2 --repeat 1{'0' * 30} makes {2 * 10**30:,} jobs: a group has at most 10,000. Submit it in parts",
    ),
    (
        lambda: combinations([array_axis("0-9999999999")[0]]),
        "--array 0-9999999999 makes 10,000,000,000 jobs: a group has at most 10,000. Submit it in parts",
    ),
    (
        lambda: jobs_of(template("p", "{lr}", "{bz}"), grid_axes(["lr=1", "bs=1"])),
        "the command has the placeholder {bz}, which is not a parameter of the group: it has {lr}, {bs}. Correct the "
        "name, or write {{bz}} for the text {bz}",
    ),
    (
        lambda: jobs_of(template("bs=1,2", "--", "p", "{lr}"), grid_axes(["lr=1"])),
        "the command begins with 'bs=1,2', which is not a program. Write --grid bs=1,2 for another parameter, or --env "
        "bs=1,2 for an environment variable",
    ),
    (
        lambda: jobs_of(template("p", "{lr}", A="{x}"), grid_axes(["lr=1"])),
        "--env A has the placeholder {x}, which is not a parameter of the group: it has {lr}. Correct the name, or "
        "write {{x}} for the text {x}",
    ),
    (
        lambda: jobs_of(template("p", "lr"), grid_axes(["lr=1,2"])),
        "--grid lr=1,2: no text has the placeholder {lr}, so its jobs would be the same. Write it into the command "
        "(as --lr {lr}), --env, --name or --output",
    ),
    (
        lambda: jobs_of(template("p", "{{line}}"), [line_axis("f", b"a")]),
        "--each-line 'f': no text has the placeholder {line}, so its jobs would be the same. Write it into the command "
        "(as {line}), --env, --name or --output",
    ),
    (
        lambda: jobs_of(template("p", HOSTLER_INDEX="1"), [array_axis("0-9")[0]]),
        "--env HOSTLER_INDEX is set by --array. Leave it out",
    ),
    (
        lambda: jobs_of(template("{line}", key="K"), [line_axis("f", b"a\nb\na")]),
        "--key: two jobs have the key 'K line=a', as their lines are equal. Leave out one of the lines, or --key",
    ),
    (
        lambda: jobs_of(template("{a}", key="K" * 300), grid_axes(["a=1"])),
        f"--key: '{'K' * 60}'... has 304 characters: with its parameters a key has at most 256. Shorten --key or the "
        "values",
    ),
]


@pytest.mark.parametrize(("make", "message"), REFUSED, ids=[message[:50] for _, message in REFUSED])
def test_invalid_groups_are_refused_with_a_remedy(make: Callable[[], object], message: str) -> None:
    with pytest.raises(UsageError) as refused:
        make()
    assert str(refused.value) == message


@given(st.text(max_size=20))
def test_any_text_is_an_axis_or_refused(text: str) -> None:
    makes: Sequence[Callable[[], list[Axis]]] = [
        lambda: grid_axes([text]),
        lambda: [array_axis(text)[0]],
        lambda: [line_axis("f", text.encode())],
    ]
    for make in makes:
        try:
            made = make()
            combinations(made)
        except UsageError:
            continue
        assert all(axis.size >= 1 for axis in made)
