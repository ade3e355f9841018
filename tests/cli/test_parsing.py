"""Words of a command line to the values of parameters."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given, settings, strategies as st

from hostler.cli.commands import COMMANDS, Command, imported
from hostler.cli.declarations import Argument, Option, Typed
from hostler.cli.parameters import signature
from hostler.cli.parsing import HelpWanted, parsed
from hostler.model.errors import UsageError


class Colour(StrEnum):
    """A choice."""

    RED = "red"
    BLUE = "blue"


def sample(
    first: Annotated[str, Argument(metavar="FIRST", help="h")],
    names: Annotated[list[str] | None, Argument(metavar="NAME", help="h")] = None,
    text: Annotated[str | None, Option(help="h")] = None,
    whole: Annotated[int, Option(min=-5, max=9, help="h")] = 0,
    number: Annotated[float | None, Option("--number", "-n", help="h")] = None,
    path: Annotated[Path | None, Option("--path", envvar="SAMPLE_PATH", help="h")] = None,
    colour: Annotated[list[Colour] | None, Option(help="h")] = None,
    size: Annotated[Literal["s", "l"], Option(help="h")] = "s",
    force: Annotated[bool, Option("--force", "-f", help="h")] = False,
    check: Annotated[bool, Option("--check/--no-check", help="h")] = True,
) -> None:
    """A command with a parameter of each kind."""


def verbatim(
    typed: Typed,
    command: Annotated[list[str], Argument(metavar="CMD", help="h", verbatim=True)],
    gpus: Annotated[int | None, Option(help="h")] = None,
) -> None:
    """A command that ends with another one."""


SAMPLE, VERBATIM = signature(sample), signature(verbatim)
ALL = [
    function
    for each in COMMANDS.values()
    for function in ([each.function] if isinstance(each, Command) else each.commands.values())
]
WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
SPELT: dict[str, st.SearchStrategy[tuple[Any, list[str]]]] = {
    "text": WORDS.map(lambda word: (word, [word])),
    "whole": st.integers(-5, 9).map(lambda value: (value, [str(value)])),
    "number": st.floats(allow_nan=False, allow_infinity=False).map(lambda value: (value, [repr(value)])),
    "path": st.sampled_from(["a", "/b/c", "-d"]).map(lambda word: (Path(word), [word])),
    "colour": st.lists(st.sampled_from(Colour), min_size=1).map(lambda some: (some, [each.value for each in some])),
    "size": st.sampled_from(["s", "l"]).map(lambda word: (word, [word])),
}


@given(st.data())
def test_values_come_back_from_words_in_any_order_and_spelling(data: st.DataObject) -> None:
    chosen = data.draw(st.lists(st.sampled_from(sorted(SPELT)), unique=True))
    drawn = {name: data.draw(SPELT[name]) for name in chosen}
    pairs = [(f"--{name}", word) for name, (_, words) in drawn.items() for word in words]
    options = [data.draw(st.sampled_from([[flag, word], [f"{flag}={word}"]])) for flag, word in pairs]
    flags = data.draw(st.lists(st.sampled_from(["--force", "-f", "--no-check"]), unique=True))
    names = data.draw(st.lists(WORDS, max_size=3))
    others = [["x"], *([flag] for flag in flags), *options]
    if "colour" not in drawn:  # values of a repeated option keep their order
        others = data.draw(st.permutations(others))
    values, _ = parsed(SAMPLE, [word for some in others for word in some] + ["--", *names], {})
    assert values == {
        "first": "x",
        "names": names or None,
        "text": None,
        "whole": 0,
        "number": None,
        "path": None,
        "colour": None,
        "size": "s",
        "force": "--force" in flags or "-f" in flags,
        "check": "--no-check" not in flags,
        **{name: value for name, (value, _) in drawn.items()},
    }


@given(st.lists(WORDS, min_size=1), st.sampled_from([[], ["--gpus", "2"], ["--gpus=2", "--"]]))
def test_words_of_a_program_stay_as_they_are(command: list[str], options: list[str]) -> None:
    begun = ["prog", *command] if not options or options[-1] != "--" else command
    values, _ = parsed(VERBATIM, [*options, *begun], {})
    assert values["command"] == begun
    assert values["typed"] == Typed(
        {"command": begun, "gpus": 2 if options else None}, frozenset({"command", *(["gpus"] if options else [])})
    )


@pytest.mark.parametrize("function", ALL)
@settings(max_examples=15)  # of each of more than a hundred commands
@given(
    words=st.lists(
        st.one_of(WORDS, st.sampled_from(["--json", "--", "-", "-1", "--state-dir", "--limit=0", "-x", "--x=y"]))
    )
)
def test_any_words_give_values_or_a_reason(function: str, words: list[str]) -> None:
    command = signature(imported(function))
    try:
        values, _ = parsed(command, words, {})
    except (UsageError, HelpWanted):
        return
    names = {each.name for each in (*command.options, *command.arguments)}
    assert values.keys() - {command.typed} == names


@pytest.mark.parametrize(
    ("words", "environ", "path"),
    [
        (["x"], {"SAMPLE_PATH": "/there"}, Path("/there")),
        (["x", "--path", "here"], {"SAMPLE_PATH": "/there"}, Path("here")),
        (["x"], {"SAMPLE_PATH": ""}, None),
    ],
)
def test_environment_variable_counts_where_nothing_is_typed(
    words: list[str], environ: dict[str, str], path: Path | None
) -> None:
    assert parsed(SAMPLE, words, environ)[0]["path"] == path


def test_negative_numbers_are_words_and_values() -> None:
    assert parsed(SAMPLE, ["-1", "-2.5"], {})[0]["names"] == ["-2.5"]
    assert parsed(SAMPLE, ["x", "-n", "-3"], {})[0]["number"] == -3.0
    assert parsed(SAMPLE, ["x", "-n-3"], {})[0]["number"] == -3.0


@pytest.mark.parametrize("words", [["--help"], ["x", "-h"], ["--whole", "1", "--help", "--nonsense"]])
def test_help_is_wanted_wherever_its_flag_stands(words: list[str]) -> None:
    with pytest.raises(HelpWanted):
        parsed(SAMPLE, words, {})
