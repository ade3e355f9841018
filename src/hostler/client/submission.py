"""Submission from a program: a command with its options becomes a job, or a job group, whose folder is sent first."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

from hostler.client.calls import Answer, View, by_name, expect_ids, write
from hostler.client.grids import (
    NAME_MAX,
    GroupJob,
    Template,
    chosen_parameters,
    combinations,
    jobs_of,
    python_axes,
    repeat_axis,
)
from hostler.client.jobs import _Handle
from hostler.client.notes import file_notes, note_texts
from hostler.client.refusals import in_callers_words
from hostler.client.shells import of_this_program, with_shells
from hostler.client.snapshots import expect_small, send_folders
from hostler.client.specs import JobOptions, expect_options, expect_types, script_spec
from hostler.model.errors import UsageError

if TYPE_CHECKING:
    from hostler.snapshots.folder import FolderSnapshot

Grid: TypeAlias = Mapping[str, Iterable[object]] | Sequence[Mapping[str, object]]
"""Parameters with their values, of which each combination is a job; or the parameters of each job."""


class OneJob(JobOptions, total=False):
    """The options of a submission."""

    strict: bool
    """Whether it is refused where there would be a note on one of its jobs."""
    allow_large: bool
    """Whether a folder with more than 1 GB of files is sent."""


class ManyJobs(OneJob, total=False):
    """The options of the submission of a group."""

    max_running: int | None
    """Most jobs of the group that run at once, over all nodes."""
    max_failures: int | None
    """The rest of the group is cancelled when more jobs than this have failed."""


OWN = ("grid", "repeat", "max_running", "max_failures", "strict", "allow_large")
"""Options that are not fields of a job."""


class Made(NamedTuple):
    """A job or a group that was submitted."""

    view: View
    is_group: bool
    notes: Sequence[str]


def submit(argv: Sequence[object], given: Mapping[str, Any], home: Path | None) -> Answer[Made]:
    """Submit a command. `given` has options of jobs, and those in `OWN`.

    `home` is the controller's state directory if it is on this machine: then programs are found as this program would.
    """
    expect_options(given, OWN)
    words = _words(argv)
    options = cast(JobOptions, {name: _plain(value) for name, value in given.items() if name not in OWN})
    expect_types(options)
    _expect_folder(options)
    options = {**options, "after": _ids(given.get("after"))}
    strict = bool(given.get("strict", False))
    specs, group = _specs(words, options, given)
    missing = file_notes(specs, strict=strict, here=home is not None)
    if home is not None:
        specs, _ = with_shells(specs, of_this_program(os.environ))
    sent = yield from send_folders(specs, home, _Folders(allow_large=bool(given.get("allow_large", False))))
    query = "true" if strict else None
    path, body = ("/jobs", sent.specs) if group is None else ("/groups", {"group": group, "jobs": sent.specs})
    with in_callers_words():
        told = yield from write("POST", path, body, strict=query)
    expect_ids(told["ids"], sent.specs)
    if group is None:
        (view,) = yield from by_name("/jobs", told["ids"])
    else:
        view = told["group"]
        if view is None:
            raise UsageError(
                f"all {len(told['ids'])} jobs were submitted before under their keys, in no group. Give another key"
            )
    notes = [*missing, *note_texts(told["notes"], told["with_earlier_files"])]
    if group is not None and (known := told["known"]):
        notes.append(f"{len(known)} of the jobs were submitted before under their keys and are in another group")
    return Made(view, group is not None, notes)


class _Folders:
    """Sends folders without a question; a large one only if that was allowed."""

    remedy = "cwd=None sends no files, in_place=True runs in the folder itself"

    def __init__(self, *, allow_large: bool) -> None:
        self._allow_large = allow_large

    def confirm(self, snapshot: FolderSnapshot) -> None:
        expect_small(snapshot, self._allow_large)

    def sending(self, snapshot: FolderSnapshot) -> Callable[[int], None]:
        return lambda size: None


def _expect_folder(options: JobOptions) -> None:
    """Raise `UsageError` where the options of a job's folder contradict each other."""
    for name in ("in_place", "files"):
        if options.get("cwd", ".") is None and options.get(name):
            raise UsageError(f"{name} is about the folder of the job, and cwd is None. Give the folder as cwd")
    if options.get("in_place") and options.get("files"):
        raise UsageError("files are sent, and in_place runs in the folder itself. Leave out one of them")


def _words(argv: object) -> list[str]:
    if isinstance(argv, str | bytes) or not isinstance(argv, Sequence):
        raise UsageError(f"argv is {argv!r:.80}. Give a list of words, as ['python', 'train.py', '--lr', '0.1']")
    if not argv:
        raise UsageError("argv is empty. Give a program and its arguments, as ['python', 'train.py']")
    return [_word(at, each) for at, each in enumerate(argv)]


def _word(at: int, word: object) -> str:
    if isinstance(word, os.PathLike):
        word = os.fspath(word)
    word = _plain(word)
    if isinstance(word, int | float) and not isinstance(word, bool):
        return str(word)
    if not isinstance(word, str):
        raise UsageError(f"argv[{at}] is {word!r:.80}. Each word of a command is a text, a number or a path")
    if not word and at == 0:
        raise UsageError("argv[0] is empty. Give a program and its arguments, as ['python', 'train.py']")
    if "\0" in word or not _is_unicode(word):
        raise UsageError(f"argv[{at}] is {word[:80]!a}, which has a NUL or half a character. Give text")
    return word


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _plain(value: Any) -> Any:
    """A number of NumPy or PyTorch as Python's, alone or as a value of a mapping."""
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    read = getattr(value, "item", None)
    return read() if callable(read) and getattr(value, "shape", None) == () else value


def _ids(after: object) -> list[str]:
    """The ids, keys or names of what a job comes after."""
    if after is None:
        return []
    every = after if isinstance(after, list | tuple | set | frozenset) else [after]
    for each in every:
        if not isinstance(each, str | _Handle):
            raise UsageError(f"after has {each!r:.80}. Give jobs, groups, or their ids, as after=[job, 'j17']")
    return [each.id if isinstance(each, _Handle) else str(each) for each in every]


def _specs(
    argv: list[str], options: JobOptions, given: Mapping[str, Any]
) -> tuple[list[dict[str, Any]], dict[str, Any] | None]:
    """The specs of a submission, and the group that they are, unless it is one job."""
    spec = script_spec(argv, options)
    grid, repeat = given.get("grid"), given.get("repeat")
    limits = {name: given.get(name) for name in ("max_running", "max_failures")}
    if grid is None and repeat is None:
        named = next((name for name, value in limits.items() if value is not None), None)
        if named is not None:
            raise UsageError(f"{named} limits the jobs of a group, and this is one job. Give grid or repeat, too")
        return [spec], None
    payload = spec["payload"]
    template = Template(argv, payload["env"], options.get("name"), payload["outputs"], spec["key"], in_python=True)
    made = [
        {
            **spec,
            "name": job.name,
            "key": job.key,
            "parameters": job.parameters,
            "payload": {**payload, "argv": job.argv, "env": {**payload["env"], **job.env}, "outputs": job.outputs},
        }
        for job in _jobs(template, grid, repeat)
    ]
    return made, {"name": spec["name"][:NAME_MAX], **limits}


def _jobs(template: Template, grid: Grid | None, repeat: int | None) -> list[GroupJob]:
    if repeat is not None and (type(repeat) is not int or repeat < 1):
        raise UsageError(f"repeat is {repeat!r:.40}. Give a whole number, 1 or more")
    again = [] if repeat is None else [repeat_axis(repeat)._replace(option=f"repeat={repeat}")]
    if grid is None:
        return jobs_of(template, again)
    if isinstance(grid, Mapping):
        axes = python_axes(grid)
        if not axes:
            raise UsageError("grid is empty. Give parameters with their values, as {'lr': [0.1, 0.03]}")
        return jobs_of(template, [*axes, *again])
    if isinstance(grid, str) or not isinstance(grid, Sequence) or not all(isinstance(row, Mapping) for row in grid):
        raise UsageError(
            f"grid is {grid!r:.60}. Give parameters with their values, as {{'lr': [0.1, 0.03]}}, or a list with the "
            "parameters of each job"
        )
    rows_axes, chosen = chosen_parameters(grid)
    numbers = combinations(again) if again else [{}]
    return jobs_of(template, [*rows_axes, *again], [{**row, **number} for row in chosen for number in numbers])
