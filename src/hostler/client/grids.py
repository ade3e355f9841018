"""Parameters of job groups: options of a submission to one set of values for each job, and texts with them.

A placeholder is `{name}`: an identifier in braces. `{{name}}` is the text `{name}`; every other brace is text. Each
option is an axis, and a group has a job for each combination of their values, of which the last axis varies fastest.
"""

from __future__ import annotations

import math
import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, product
from typing import NamedTuple

from hostler.model.errors import UsageError

JOBS_MAX = 10_000
"""Most jobs of one group."""
LINES_BYTES_MAX = 16 << 20
"""Largest file of --each-line: an average of 1.6 kB for each of the most jobs."""
NAME_MAX = 256
"""`hostler.model.work.NAME_MAX`, which would cost every command the import of pydantic."""
NAME_SHOWN = 60
"""Characters of a command that are its name."""
INDEX, LINE, REPEAT = "index", "line", "repeat"
OPTION_OF = {INDEX: "--array", LINE: "--each-line", REPEAT: "--repeat"}
"""Parameters that have their own options, and so are no names for --grid."""
VARIABLES = {INDEX: "HOSTLER_INDEX", REPEAT: "HOSTLER_REPEAT"}
"""Environment variables that have the value of a parameter."""
PYTHON = "{python}"
"""As the first word of a command: the Python of the node, and no placeholder unless a parameter has this name."""

_IDENTIFIER = r"[A-Za-z_][A-Za-z0-9_]*"
_BRACES = r"\{\{(?P<text>[A-Za-z_][A-Za-z0-9_]*)\}\}|\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)\}"
_INDICES = r"([0-9]{1,18})(?:-([0-9]{1,18})(?::([0-9]{1,18}))?)?"
_COMMA = r"(?<!\\),"
_PLAIN_WORD = r"[A-Za-z0-9_@%+=:,./-]*"


class Axis(NamedTuple):
    """One parameter with the values it takes."""

    name: str
    option: str
    """The option with its value, as errors name it."""
    size: int
    values: Sequence[Sequence[object]]
    """In parts, which are ranges where there may be too many values to be listed."""


class Template(NamedTuple):
    """The texts of a submission in which placeholders stand, and its key, in which none do."""

    argv: Sequence[str]
    env: Mapping[str, str]
    """Of --env NAME=VALUE."""
    name: str | None
    outputs: Sequence[str]
    key: str | None = None
    in_python: bool = False
    """Whether it was stated in Python, and not on a command line: errors name its texts as they were written."""


class GroupJob(NamedTuple):
    """The fields in which a job differs from the others of its group."""

    parameters: dict[str, str]
    argv: list[str]
    env: dict[str, str]
    name: str
    outputs: list[str]
    key: str | None


def grid_axes(words: Sequence[str]) -> list[Axis]:
    """The axes of `NAME=V1,V2` words, in which `\\,` is a comma of a value."""
    axes: list[Axis] = []
    for word in words:
        axis = _grid_axis(word)
        if any(axis.name == other.name for other in axes):
            raise UsageError(f"--grid gives {axis.name!r} twice. Write all of its values into one --grid")
        axes.append(axis)
    return axes


def array_axis(word: str) -> tuple[Axis, int | None]:
    """The axis of `0-99`, `0-15:4` or `1,3,5-7`, and the most jobs at once where `%N` follows."""
    indices, percent, limit = word.partition("%")
    if percent and (not re.fullmatch("[0-9]{1,9}", limit) or int(limit) == 0):
        raise UsageError(f"--array {word!r}: after % comes the number of jobs at once, 1 or more. Write 0-99%8")
    ranges = [_indices(word, part) for part in indices.split(",")]
    size = sum(len(each) for each in ranges)
    axis = Axis(INDEX, f"--array {word}", size, ranges)
    if size <= JOBS_MAX:
        _expect_distinct(axis, "Write each index once")
    return axis, int(limit) if percent else None


def line_axis(file: str, data: bytes) -> Axis:
    """The axis of the lines of a file that are not blank, without their ends."""
    where = f"--each-line {file!r}"
    if len(data) > LINES_BYTES_MAX:
        raise UsageError(
            f"{where} is larger than {LINES_BYTES_MAX >> 20} MiB. Split it, or write paths of larger data into it"
        )
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{where} cannot be read: it is not UTF-8. Convert it, as iconv does") from error
    if "\0" in text:
        number = text.count("\n", 0, text.index("\0")) + 1
        raise UsageError(f"{where}, line {number}, has a NUL character. Give a text file")
    lines = [line.removesuffix("\r") for line in text.split("\n") if line.strip()]
    if not lines:
        raise UsageError(f"{where} has no lines. Write one line for each job into it")
    return Axis(LINE, where, len(lines), (lines,))


def python_axes(grid: Mapping[str, Iterable[object]]) -> list[Axis]:
    """The axes of a grid that is stated in Python: `{"lr": [0.1, 0.03]}`."""
    return [_python_axis(name, values) for name, values in grid.items()]


def chosen_parameters(rows: Sequence[Mapping[str, object]]) -> tuple[list[Axis], list[dict[str, str]]]:
    """The parameters of jobs that are stated one by one, and their axes. Raises `UsageError` where they differ."""
    names = list(rows[0]) if rows else []
    for at, row in enumerate(rows):
        if set(row) != set(names):
            raise UsageError(
                f"grid[{at}] has the parameters {list(row)}, and grid[0] has {names}. Give each job the same"
            )
    axes = [Axis(name, "grid", len(rows), ([],)) for name in names]
    if not axes:
        raise UsageError("grid is empty. Give parameters with their values, as {'lr': [0.1, 0.03]}")
    for name in names:
        _python_axis(name, [0])  # its name
    made = [{name: _value_text(f"grid[{at}][{name!r}]", row[name]) for name in names} for at, row in enumerate(rows)]
    if len({tuple(each.values()) for each in made}) < len(made):
        raise UsageError("grid has the same parameters twice. Give each job its own; repeat=N runs each several times")
    if len(made) > JOBS_MAX:
        raise UsageError(f"grid has {len(made):,} jobs: a group has at most {JOBS_MAX:,}. Submit it in parts")
    return axes, made


def repeat_axis(count: int) -> Axis:
    """The axis of the numbers below `count`."""
    return Axis(REPEAT, f"--repeat {count}", count, (range(count),))


def combinations(axes: Sequence[Axis]) -> list[dict[str, str]]:
    """The parameters of each job. Raises `UsageError` before a group with too many is made."""
    size = math.prod(axis.size for axis in axes)
    if size > JOBS_MAX:
        raise UsageError(
            f"{' '.join(axis.option for axis in axes)[:NAME_MAX]} makes {size:,} jobs: a group has at most "
            f"{JOBS_MAX:,}. Submit it in parts"
        )
    names = [axis.name for axis in axes]
    return [dict(zip(names, map(str, values), strict=True)) for values in product(*(_values(axis) for axis in axes))]


def placeholders(text: str) -> list[str]:
    """The names of the placeholders of a text."""
    return [match["name"] for match in re.finditer(_BRACES, text) if match["name"]]


def substituted(text: str, parameters: Mapping[str, str]) -> str:
    """The text with values in place of its placeholders, which all name a parameter."""
    return re.sub(_BRACES, lambda match: f"{{{match['text']}}}" if match["text"] else parameters[match["name"]], text)


def jobs_of(template: Template, axes: Sequence[Axis], chosen: Sequence[dict[str, str]] | None = None) -> list[GroupJob]:
    """The jobs of a group: one for each combination of the axes, or for each of those that are `chosen`.

    Raises `UsageError` where placeholders and parameters do not match.
    """
    _expect_program(template)
    _expect_placeholders(template, axes)
    for axis in axes:
        if (variable := VARIABLES.get(axis.name)) in template.env:
            where = f"env {variable}" if template.in_python else f"--env {variable}"
            option = axis.option if template.in_python else OPTION_OF[axis.name]
            raise UsageError(f"{where} is set by {option}. Leave it out")
    jobs = [_job(template, parameters) for parameters in (combinations(axes) if chosen is None else chosen)]
    if template.key is not None:
        _expect_keys(jobs)
    return jobs


def label(parameters: Mapping[str, str]) -> str:
    """The parameters as words; quoted as for a shell, so that different ones have different labels."""
    return " ".join(f"{name}={shlex.quote(value)}" for name, value in parameters.items())


def names_in(words: Sequence[str]) -> list[str]:
    """The names of the words that look like the value of --grid, before the first that does not."""
    names = []
    for word in words:
        name, sign, _ = word.partition("=")
        if not sign or not re.fullmatch(_IDENTIFIER, name):
            break
        names.append(name)
    return names


def submit_command(words: Sequence[str]) -> str:
    """The `hostler submit` command line for words of a grid, which may be followed by a command."""
    names = names_in(words)
    command = list(words[len(names) :]) or ["COMMAND"]
    used = {name for word in command for name in placeholders(word)}
    grids = [part for word in words[: len(names)] for part in ("--grid", word)]
    more = [part for name in names if name not in used for part in (f"--{name}", f"{{{name}}}")]
    return " ".join(map(_typed, ["hostler", "submit", *grids, "--", *command, *more]))


def _grid_axis(word: str) -> Axis:
    name, sign, text = word.partition("=")
    where = f"--grid {word!r}"
    if not sign:
        raise UsageError(f"{where}: there are no values. Write NAME=V1,V2, as in lr=0.1,0.03")
    if not re.fullmatch(_IDENTIFIER, name):
        raise UsageError(f"{where}: {name!r} is not a name. Use letters, digits and _, with no digit first")
    if name in OPTION_OF:
        raise UsageError(f"{where}: {name} is the parameter of {OPTION_OF[name]}. Use another name")
    values = [value.replace("\\,", ",") for value in re.split(_COMMA, text)]
    if "" in values:
        number = values.index("") + 1
        raise UsageError(f"{where}: value {number} of {name} is empty. Write NAME=V1,V2 with a value at each comma")
    axis = Axis(name, f"--grid {word}", len(values), (values,))
    _expect_distinct(axis, "Write each value once; --repeat N runs each combination several times")
    return axis


def _python_axis(name: object, values: object) -> Axis:
    where = f"grid[{name!r}]"
    if not isinstance(name, str) or not re.fullmatch(_IDENTIFIER, name):
        raise UsageError(
            f"grid: {name!r} is not the name of a parameter. Use letters, digits and _, with no digit first"
        )
    if name == REPEAT:
        raise UsageError(f"{where}: {name} is the parameter of the option repeat. Use another name")
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise UsageError(f"{where} is {values!r:.60}. Give a list of the values of {name}, as [0.1, 0.03]")
    texts = [_value_text(where, value) for value in values]
    if not texts:
        raise UsageError(f"{where} is empty. Give a list of the values of {name}")
    axis = Axis(name, where, len(texts), (texts,))
    _expect_distinct(axis, "Give each value once; repeat=N runs each combination several times")
    return axis


def _value_text(where: str, value: object) -> str:
    """The text of a value. Numbers of NumPy and PyTorch are read by their `item`."""
    read = getattr(value, "item", None)
    plain = read() if callable(read) else value
    if isinstance(plain, os.PathLike):
        plain = os.fspath(plain)
    if not isinstance(plain, str | int | float) or plain == "" or "\0" in str(plain):
        raise UsageError(f"{where} has the value {value!r:.60}. A value is a number, or a text that is not empty")
    return str(plain)


def _indices(word: str, part: str) -> range:
    """The numbers of `5`, `0-99` or `0-15:4`."""
    match = re.fullmatch(_INDICES, part)
    if match is None:
        raise UsageError(
            f"--array {word!r}: {part!r} is neither an index nor a range. Write 0-99, 0-15:4 (each fourth) or 1,3,5-7"
        )
    first, last, step = int(match[1]), int(match[2] or match[1]), int(match[3] or 1)
    if last < first:
        raise UsageError(f"--array {word!r}: the range {part} ends before it begins. Write {last}-{first}")
    if step == 0:
        raise UsageError(f"--array {word!r}: the step of {part} is 0. Write 1 or more")
    return range(first, last + 1, step)


def _values(axis: Axis) -> Iterator[object]:
    return chain.from_iterable(axis.values)


def _expect_distinct(axis: Axis, remedy: str) -> None:
    seen: set[object] = set()
    for value in _values(axis):
        if value in seen:
            raise UsageError(f"{axis.option}: {axis.name} has the value {value} twice. {remedy}")
        seen.add(value)


def _expect_program(template: Template) -> None:
    """Raise `UsageError` for `bs=16,32` behind another --grid, which takes one word."""
    word = template.argv[0]
    if not template.in_python and names_in([word]):
        raise UsageError(
            f"the command begins with {word!r}, which is not a program. Write --grid {shlex.quote(word)} for another "
            f"parameter, or --env {shlex.quote(word)} for an environment variable"
        )


def _expect_placeholders(template: Template, axes: Sequence[Axis]) -> None:
    known = {axis.name for axis in axes}
    used: set[str] = set()
    for where, text in _texts(template, known):
        names = placeholders(text)
        unknown = next((name for name in names if name not in known), None)
        if unknown is not None:
            listed = ", ".join(f"{{{axis.name}}}" for axis in axes)
            raise UsageError(
                f"{where} has the placeholder {{{unknown}}}, which is not a parameter of the group: it has {listed}. "
                f"Correct the name, or write {{{{{unknown}}}}} for the text {{{unknown}}}"
            )
        used.update(names)
    for axis in axes:
        if axis.name not in used and axis.name not in VARIABLES:
            how = "{line}" if axis.name == LINE else f"--{axis.name} {{{axis.name}}}"
            others = "env, name or outputs" if template.in_python else "--env, --name or --output"
            raise UsageError(
                f"{axis.option}: no text has the placeholder {{{axis.name}}}, so its jobs would be the same. "
                f"Write it into the command (as {how}), {others}"
            )


def _texts(template: Template, known: set[str]) -> Iterator[tuple[str, str]]:
    """Each text in which placeholders may stand, after the words by which errors name it."""
    argv = template.argv[1:] if _is_python(template.argv[0], known) else template.argv
    yield from (("the command", word) for word in argv)
    env, output, name = ("env {}", "outputs", "name") if template.in_python else ("--env {}", "--output", "--name")
    yield from ((env.format(variable), value) for variable, value in template.env.items())
    yield from ((output, pattern) for pattern in template.outputs)
    yield name, template.name or ""


def _is_python(word: str, known: set[str]) -> bool:
    return word == PYTHON and "python" not in known


def _job(template: Template, parameters: dict[str, str]) -> GroupJob:
    first, *others = template.argv
    program = first if _is_python(first, set(parameters)) else substituted(first, parameters)
    argv = [program, *(substituted(word, parameters) for word in others)]
    return GroupJob(
        parameters=parameters,
        argv=argv,
        env={
            **{name: substituted(value, parameters) for name, value in template.env.items()},
            **{variable: parameters[name] for name, variable in VARIABLES.items() if name in parameters},
        },
        name=_name(template.name, parameters, argv),
        outputs=[substituted(pattern, parameters) for pattern in template.outputs],
        key=None if template.key is None else f"{template.key} {label(parameters)}",
    )


def _name(asked: str | None, parameters: Mapping[str, str], argv: Sequence[str]) -> str:
    if not asked:
        return " ".join(argv)[:NAME_SHOWN]
    name = substituted(asked, parameters)
    return (name if placeholders(asked) else f"{name} {label(parameters)}")[:NAME_MAX]


def _expect_keys(jobs: Sequence[GroupJob]) -> None:
    keys: set[str] = set()
    for job in jobs:
        key = job.key or ""
        if len(key) > NAME_MAX:
            raise UsageError(
                f"--key: {key[:NAME_SHOWN]!r}... has {len(key)} characters: with its parameters a key has at most "
                f"{NAME_MAX}. Shorten --key or the values"
            )
        if key in keys:
            raise UsageError(
                f"--key: two jobs have the key {key!r}, as their lines are equal. Leave out one of the lines, or --key"
            )
        keys.add(key)


def _typed(word: str) -> str:
    """A word as it is typed: placeholders are safe in a shell without quotes."""
    return word if word and re.fullmatch(_PLAIN_WORD, re.sub(_BRACES, "", word)) else shlex.quote(word)
