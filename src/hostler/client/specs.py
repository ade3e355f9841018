"""Specs of script jobs from the options of a submission: one meaning for the command line and for programs."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypedDict, cast, get_args

from hostler.client.grids import NAME_SHOWN
from hostler.model.errors import UsageError
from hostler.model.patterns import pattern_fault

Device = Literal["any", "cpu", "gpu"]
Work = Literal["script", "selfplay", "training", "evaluation", "export", "rl"]

RESOURCES = (
    "device",
    "vram_gb",
    "memory_gb",
    "cpus",
    "shards",
    "shared",
    "tiers",
    "nodes",
    "exclude_nodes",
    "gpu_models",
    "exclude_gpu_models",
    "providers",
)
ID = r"[gj][0-9]+"
"""The form of ids of jobs and groups (`model.work.RESERVED_NAME`, which imports pydantic)."""
NAMED = ("nodes", "exclude_nodes", "gpu_models", "exclude_gpu_models", "providers")
"""Of these, the constraints by names; one name needs no list."""
USUAL = {"timeout": "walltime_s", "time_limit": "walltime_s", "memory": "memory_gb", "gpu_memory": "vram_gb"}
"""Options that others call so."""


class JobOptions(TypedDict, total=False):
    """What may be said of a job beside its command. All of it may be left out."""

    name: str | None
    """What people call it; by default the command."""
    key: str | None
    """Idempotency key: a second submission under it is the same job."""
    after: object
    """What must be done first: a job, a job group, an id, key or unique name; or a list of them."""
    priority: int
    """Higher goes first; by default 0."""
    cwd: str | os.PathLike[str] | None
    """The folder whose files the job gets, as they are now; by default this one. `None`: no files are sent."""
    in_place: bool
    """Whether it runs in `cwd` itself, on nodes that share its file system."""
    files: Sequence[str] | str | None
    """Of `cwd`, only the files that these patterns mean."""
    outputs: Sequence[str] | str
    """Patterns of files it leaves, which are fetched; by default, where a folder is sent, all new and changed files."""
    env: Mapping[str, object]
    """Environment variables; `{"secret": NAME}` as a value is that secret (`hostler secret set NAME`)."""
    plain: bool
    """Whether values under names that look like credentials are journalled instead of stored as secrets of the job."""
    python_env: str | None
    """The file of `cwd` that states its Python environment; `none`: nothing is built."""
    walltime_s: float | None
    """Longest time an attempt may take, in seconds."""
    device: Device | None
    """The kind of device it needs; by default a script waits for a GPU if the fleet has one."""
    gpus: int | None
    """GPUs of one node that it takes at once."""
    vram_gb: float
    """GPU memory it needs, in GB."""
    memory_gb: float | None
    """Most memory of its processes together, in GiB."""
    cpus: float
    """Host cores it keeps busy."""
    shards: bool
    """Whether `vram_gb` may be spread over several GPUs of a node."""
    shared: bool
    """Whether others may run on its GPU, as far as the memory of all fits."""
    tiers: Sequence[int]
    """Tiers of nodes it may run on, best first."""
    nodes: Sequence[str] | str
    """Nodes it may run on. The same holds for the constraints that follow; of one, the name alone will do."""
    exclude_nodes: Sequence[str] | str
    gpu_models: Sequence[str] | str
    """GPU models by words of their names, as `4090`."""
    exclude_gpu_models: Sequence[str] | str
    providers: Sequence[str] | str
    labels: Mapping[str, str | float] | Sequence[str] | str
    """Labels that its node must have, all of them, as {'zone': 'a'} or 'zone=a'."""
    max_attempts: Mapping[str, int]
    """Attempts that may end in a class of failure (`exit`, `timeout`, …) before the job fails."""
    require_result: bool
    """Whether it fails if it leaves no JSON in `$HOSTLER_RESULT`."""
    work: Work
    """The kind of work whose shares and preferences it goes by."""
    config: str | None
    """The training config it works for."""
    expected_s: float | Mapping[str, float]
    """How long it will take, in seconds, on any device or by model of device."""
    checkpoints: bool
    """Whether it may be stopped and started again: it saves its work outside of its folder."""


def expect_options(given: Mapping[str, object], others: Sequence[str] = ()) -> None:
    """Raise `TypeError`, as Python does for a function, where an option is not one of `JobOptions` or of `others`."""
    known = (*JobOptions.__annotations__, *others)
    for name in given:
        if name not in known:
            from difflib import get_close_matches

            close = [USUAL[name]] if name in USUAL else get_close_matches(name, known, n=1)
            hint = f"Did you mean {close[0]!r}?" if close else f"The options are {', '.join(sorted(known))}"
            raise TypeError(f"submit() has no option {name!r}. {hint}")


def expect_types(options: Mapping[str, object]) -> None:
    """Raise `UsageError` for the first option of a job whose value is of a type that it cannot have."""
    for name, value in options.items():
        kind = _KINDS.get(name)
        if kind is not None and not (value is None and name in _MAYBE_NONE) and not kind.fits(value):
            raise UsageError(f"{name} is {value!r:.80}. Give {kind.words}")


class _Kind(NamedTuple):
    fits: Callable[[object], bool]
    words: str


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)


def _is_whole(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_textual(value: object) -> bool:
    """Whether it is a text, or a number, which stands for its digits."""
    return isinstance(value, str) or (isinstance(value, int | float) and not isinstance(value, bool))


def _are_texts(value: object) -> bool:
    return isinstance(value, list | tuple) and all(map(_is_textual, value))


def _are_labels(value: object) -> bool:
    if isinstance(value, Mapping):
        return all(map(_is_text, value)) and all(map(_is_textual, value.values()))
    return _is_text(value) or (isinstance(value, list | tuple) and all(map(_is_text, value)))


def _is_secret(value: object) -> bool:
    return isinstance(value, Mapping) and value.keys() == {"secret"} and _is_text(value["secret"])


def _are_numbers(value: object) -> bool:
    return isinstance(value, Mapping) and all(_is_text(name) and _is_number(each) for name, each in value.items())


_TEXT = _Kind(_is_text, "a text")
_NUMBER = _Kind(_is_number, "a number")
_WHOLE = _Kind(_is_whole, "a whole number")
_FLAG = _Kind(lambda value: isinstance(value, bool), "True or False")
_NAMES = _Kind(lambda value: _is_textual(value) or _are_texts(value), "a text or a list of texts")
_KINDS: Mapping[str, _Kind] = {
    **dict.fromkeys(("name", "key", "python_env", "config"), _TEXT),
    **dict.fromkeys(("walltime_s", "vram_gb", "memory_gb", "cpus"), _NUMBER),
    **dict.fromkeys(("priority", "gpus"), _WHOLE),
    **dict.fromkeys(("in_place", "shards", "shared", "require_result", "checkpoints", "plain"), _FLAG),
    **dict.fromkeys(
        ("files", "outputs", "nodes", "exclude_nodes", "gpu_models", "exclude_gpu_models", "providers"), _NAMES
    ),
    "cwd": _Kind(lambda value: isinstance(value, str | os.PathLike), "a folder, or None to send no files"),
    "tiers": _Kind(lambda value: isinstance(value, list | tuple) and all(map(_is_whole, value)), "a list of 1, 2 or 3"),
    "env": _Kind(
        lambda value: (
            isinstance(value, Mapping)
            and all(
                _is_text(name) and (_is_textual(each) or isinstance(each, os.PathLike) or _is_secret(each))
                for name, each in value.items()
            )
        ),
        "variables with their values, texts or numbers, as {'SEED': '1'} or {'TOKEN': {'secret': 'name'}}",
    ),
    "labels": _Kind(
        _are_labels,
        "labels with their values, as {'zone': 'a'}",
    ),
    "max_attempts": _Kind(
        lambda value: isinstance(value, Mapping) and _are_numbers(value) and all(map(_is_whole, value.values())),
        "numbers of attempts by class of failure, as {'exit': 3}",
    ),
    "expected_s": _Kind(
        lambda value: _is_number(value) or _are_numbers(value),
        "seconds, or seconds by model of device, as {'4090': 60}",
    ),
    "device": _Kind(lambda value: value in get_args(Device), f"one of {', '.join(get_args(Device))}"),
    "work": _Kind(lambda value: value in get_args(Work), f"one of {', '.join(get_args(Work))}"),
}
_MAYBE_NONE = frozenset(
    ("name", "key", "cwd", "files", "python_env", "walltime_s", "device", "gpus", "memory_gb", "config")
)
"""Options that may be `None`, which means their default, and for `cwd`: no files."""


def script_spec(argv: Sequence[str], options: JobOptions, called: Callable[[str], str] = str) -> dict[str, Any]:
    """The spec of a command (`shapes.JobSpecInput`); its folder is yet to be sent.

    `called` has the caller's word for an option. Raises `UsageError`.
    """
    _expect_nameable(options.get("name"), called("name"))
    cwd, env = options.get("cwd", "."), options.get("env", {})
    payload = {
        "kind": "script",
        "schema": 1,
        "argv": list(argv),
        "env": {name: str(value) for name, value in env.items() if not isinstance(value, Mapping)},
        "secrets": {name: value["secret"] for name, value in env.items() if isinstance(value, Mapping)},
        "plain": options.get("plain", False),
        "python_env": options.get("python_env"),
        "cwd": None if cwd is None else _folder(cwd),
        "in_place": options.get("in_place", False),
        "files": _patterns(called("files"), options.get("files")) or None,
        "outputs": _patterns(called("outputs"), options.get("outputs")),
        "require_result": options.get("require_result", False),
    }
    work = options.get("work", "script")
    return {
        "name": options.get("name") or " ".join(argv)[:NAME_SHOWN],
        "key": options.get("key"),
        "payload": payload,
        "resources": _resources(options),
        "priority": options.get("priority", 0),
        "after": list(options.get("after") or ()),  # type: ignore[call-overload]
        "retry": {"max_attempts": dict(options.get("max_attempts", {}))},
        "walltime_s": options.get("walltime_s"),
        "work_as": None if work == "script" else work,
        "config": options.get("config"),
        "expected_s": _durations(options.get("expected_s", {})),
        "checkpoints": options.get("checkpoints", False),
    }


def _expect_nameable(name: str | None, called: str) -> None:
    """Raise `UsageError` for a name by which no command could name the job."""
    if name == "":
        raise UsageError(f"{called} is empty. Give a name, or leave it out: the command is the name then")
    if name is not None and re.fullmatch(ID, name):
        raise UsageError(
            f"{called} {name} looks like the id of a job, and commands would take it for one. Give another"
        )


def _folder(cwd: str | os.PathLike[str]) -> str:
    try:
        return str(Path(os.path.expanduser(cwd)).absolute())
    except FileNotFoundError as error:
        raise UsageError("the current folder is not there any more; change to another one") from error


def _resources(options: JobOptions) -> dict[str, Any]:
    given: Mapping[str, Any] = options
    made = {name: given[name] for name in RESOURCES if given.get(name) not in (None, (), [], {})}
    made |= {name: _listed(value) for name, value in made.items() if name in NAMED}
    gpus = options.get("gpus")
    if gpus is not None:
        if options.get("device") == "cpu":
            raise UsageError(f"gpus={gpus} asks for GPUs, and device is cpu; leave one of the two out")
        made = {"device": "gpu", **made, "gpus": gpus}
    labels = options.get("labels")
    if labels:
        listed = _listed(labels) if not isinstance(labels, Mapping) else []
        made["labels"] = listed or [f"{name}={value}" for name, value in cast(Mapping[str, object], labels).items()]
    return made


def _patterns(what: str, given: Sequence[object] | object) -> list[str]:
    """Patterns of files in the folder. Raises `UsageError` for one that leads out of it."""
    listed = _listed(given)
    for pattern in listed:
        fault = pattern_fault(pattern)
        if fault is not None:
            raise UsageError(f"{what}: {pattern!r} {fault}")
    return listed


def _listed(words: object) -> list[str]:
    """A list of texts where one alone was given. Numbers stand for their digits."""
    if words is None:
        return []
    return [str(each) for each in words] if isinstance(words, list | tuple) else [str(words)]


def _durations(expected: float | Mapping[str, float]) -> dict[str, float]:
    return dict(expected) if isinstance(expected, Mapping) else {"*": expected}
