"""Specs of script jobs from the options of a submission: one meaning for the command line and for programs."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict

from hostler.client.grids import NAME_SHOWN

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
    files: Sequence[str] | None
    """Of `cwd`, only the files that these patterns mean."""
    outputs: Sequence[str]
    """Patterns of files it leaves, which are fetched; by default all new and changed files."""
    env: Mapping[str, object]
    """Environment variables."""
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
    labels: Mapping[str, str]
    """Labels that its node must have, all of them."""
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
            close = difflib.get_close_matches(name, known, n=1)
            hint = f"Did you mean {close[0]!r}?" if close else f"The options are {', '.join(sorted(known))}"
            raise TypeError(f"submit() has no option {name!r}. {hint}")


def script_spec(argv: Sequence[str], options: JobOptions) -> dict[str, Any]:
    """The spec of a command (`shapes.JobSpecInput`); its folder is yet to be sent. Raises `UsageError`."""
    cwd = options.get("cwd", ".")
    payload = {
        "kind": "script",
        "schema": 1,
        "argv": list(argv),
        "env": dict(options.get("env", {})),
        "python_env": options.get("python_env"),
        "cwd": None if cwd is None else str(Path(cwd).expanduser().absolute()),
        "in_place": options.get("in_place", False),
        "files": list(options.get("files") or ()) or None,
        "outputs": list(options.get("outputs", ())),
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


def _resources(options: JobOptions) -> dict[str, Any]:
    given: Mapping[str, Any] = options
    made = {name: given[name] for name in RESOURCES if given.get(name) not in (None, (), [], {})}
    gpus = options.get("gpus")
    if gpus is not None:
        made = {"device": "gpu", **made, "gpus": gpus}
    labels = options.get("labels")
    if labels:
        made["labels"] = [f"{name}={value}" for name, value in labels.items()]
    return made


def _durations(expected: float | Mapping[str, float]) -> dict[str, float]:
    return dict(expected) if isinstance(expected, Mapping) else {"*": expected}
