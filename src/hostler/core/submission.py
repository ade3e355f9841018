"""Admitting jobs: all of a submission or nothing of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter
from typing import TypeAlias

from hostler.core import naming
from hostler.core.slices import SLICE, Slices
from hostler.core.state import State
from hostler.model.codec import digest, spec_fault
from hostler.model.errors import Conflict, NotFound, SpecError, UsageError
from hostler.model.events import JobSubmitted
from hostler.model.patterns import pattern_fault
from hostler.model.secrets import OWN, is_own
from hostler.model.texts import NUL_RULE
from hostler.model.work import (
    ARGV_MAX_BYTES,
    NO_ENVIRONMENT,
    RESERVED_NAME,
    JobSpec,
    Resources,
    ScriptPayload,
    StagePayload,
    SweepPayload,
)

FARTHEST = 1 << 512
"""Bound of a sweep's range, so that lengths and speeds can be floating-point numbers."""


Admitted: TypeAlias = tuple[tuple[str, ...], list[JobSubmitted]]


class VettedSpecs(tuple[JobSpec, ...]):
    """Specs of a submission, each of which is valid by itself: `admit` does not look at that again."""


def vetted(specs: Sequence[JobSpec]) -> Slices[tuple[JobSpec, ...]]:
    """The specs as `VettedSpecs`, or as they are where one is not valid: `admit` names the fault then.

    It needs no state, and pauses every `SLICE` specs: a large submission is vetted before the core takes it.
    """
    for at, spec in enumerate(specs, 1):
        try:
            _check(spec)
        except SpecError:
            return tuple(specs)
        if at % SLICE == 0:
            yield
    return VettedSpecs(specs)


def admit(state: State, specs: Sequence[JobSpec]) -> Slices[Admitted]:
    """Ids for `specs`, in order, and the events that make those of them jobs which are none yet, dependencies first.

    A spec whose key is known is the job it was then, if the specs are equal. Raises `Conflict` where they differ and
    `SpecError` where a spec cannot be; the state is not touched. It pauses now and then (`SLICE`).
    """
    ids = yield from _assign(state, specs)
    names = {spec.key: name for spec, name in zip(specs, ids, strict=True) if spec.key is not None}
    jobs = _dependencies(state, [spec for spec, name in zip(specs, ids, strict=True) if name not in state.jobs], names)
    fresh = []
    for at, (spec, name) in enumerate(zip(specs, ids, strict=True), 1):
        if name not in state.jobs:
            fresh.append(JobSubmitted(job=name, spec=spec, after=_resolve(spec, jobs)))
        if at % SLICE == 0:
            yield
    return ids, _dependencies_first(fresh)


def _assign(state: State, specs: Sequence[JobSpec]) -> Slices[tuple[str, ...]]:
    """The id of each spec: that of an equal job under the same key, or the next free number."""
    number = state.next_job
    taken: dict[str, str] = {}
    ids = []
    for at, spec in enumerate(specs, 1):
        if at % SLICE == 0:
            yield
        known = None if spec.key is None else _known(state, spec)
        if spec.key is not None and spec.key in taken:
            raise SpecError(f"the key {spec.key!r} is used twice in one submission; keys name one job each")
        name = known or f"j{number}"
        if known is None:
            if not isinstance(specs, VettedSpecs):
                _check(spec)
            number += 1
        if spec.key is not None:
            taken[spec.key] = name
        ids.append(name)
    return tuple(ids)


def _known(state: State, spec: JobSpec) -> str | None:
    name = state.keys.get(spec.key or "")
    if name is not None and _identity(state.jobs[name].spec) != _identity(spec):
        raise Conflict(
            f"the key {spec.key!r} belongs to {name}, which was submitted with other values; "
            "give the changed job another key, or leave it as it was"
        )
    return name


def _identity(spec: JobSpec) -> JobSpec:
    """The spec without snapshot, shell, environment and the values that came with it as secrets.

    A job that is submitted again under its key keeps its own.
    """
    payload = spec.payload
    if isinstance(payload, StagePayload):
        return spec
    if isinstance(payload, SweepPayload):
        return spec if payload.snapshot is None else replace(spec, payload=replace(payload, snapshot=None))
    own = {name: OWN for name, ref in payload.secrets.items() if is_own(ref)}
    if not own and payload.snapshot is None and payload.submitter is None and payload.environment is None:
        return spec
    kept = replace(payload, snapshot=None, submitter=None, environment=None, secrets={**payload.secrets, **own})
    return replace(spec, payload=kept)


def _check(spec: JobSpec) -> None:
    """What the field types cannot say."""
    fault = spec_fault(spec)
    if fault is not None and fault.endswith(NUL_RULE):
        raise SpecError(f"job {spec.name!a}: {fault}")
    if fault is not None:
        raise SpecError(f"job {spec.name!a} could not be read back from the journal: {fault}")
    if spec.key is not None and RESERVED_NAME.fullmatch(spec.key):
        raise SpecError(f"job {spec.name!r}: its key {spec.key!r} looks like an id; give it another key")
    _check_needs(spec)
    payload = spec.payload
    if isinstance(payload, StagePayload):
        raise SpecError(f"job {spec.name!r}: stages of a training config are queued by its loop; declare the config")
    if payload.snapshot is not None and (payload.cwd is not None or payload.files is not None):
        raise SpecError(f"job {spec.name!r}: it has a snapshot and a folder (cwd or files); give one of them")
    _check_patterns(spec.name, "files", payload.files or ())
    if isinstance(payload, ScriptPayload):
        _check_patterns(spec.name, "outputs", payload.outputs)
        _check_folder(spec.name, payload)
    words = payload.worker if isinstance(payload, SweepPayload) else payload.argv
    if not words[0]:
        raise SpecError(f"job {spec.name!r}: the first word of its command is empty; it names the program")
    if isinstance(payload, ScriptPayload):
        _check_variables(spec.name, payload)
    if sum(len(word.encode()) for word in words) > ARGV_MAX_BYTES:
        raise SpecError(f"job {spec.name!r}: its command is longer than {ARGV_MAX_BYTES} bytes; pass data in a file")
    if isinstance(payload, SweepPayload):
        _check_sweep(spec.name, payload)


def _check_needs(spec: JobSpec) -> None:
    need = spec.resources
    _check_constraints(spec.name, need)
    if need.device != "cpu":
        return
    if need.gpus > 1:
        raise SpecError(
            f"job {spec.name!r}: gpus asks for {need.gpus} GPUs, and device is cpu; leave one of the two out"
        )
    if need.vram_gb > 0:
        raise SpecError(
            f"job {spec.name!r}: vram_gb asks for {need.vram_gb:g} GB of a GPU, and device is cpu; "
            "leave one of the two out"
        )
    if need.gpu_models:
        models = ", ".join(need.gpu_models)
        raise SpecError(f"job {spec.name!r}: gpu_models names {models}, and device is cpu; leave one of the two out")


def _check_constraints(name: str, need: Resources) -> None:
    """Raise `SpecError` for constraints that no device can meet, whatever the fleet is."""
    values: dict[str, str] = {}
    for label in need.labels:
        key, _, value = label.partition("=")
        if values.setdefault(key, value) != value:
            raise SpecError(
                f"job {name!r}: labels asks for {key}={values[key]} and {key}={value}, and a node has one value; "
                "leave one of the two out"
            )
    pairs = (
        ("nodes", need.nodes, "exclude_nodes", need.exclude_nodes),
        ("gpu_models", need.gpu_models, "exclude_gpu_models", need.exclude_gpu_models),
    )
    for wanted, names, excluded, barred in pairs:
        if names and set(names) <= set(barred):
            raise SpecError(
                f"job {name!r}: {wanted} and {excluded} both name {', '.join(names)}; take it out of one of them"
            )


def _check_patterns(name: str, what: str, patterns: Sequence[str]) -> None:
    for pattern in patterns:
        fault = pattern_fault(pattern)
        if fault is not None:
            raise SpecError(f"job {name!r}: {what}: {pattern!r} {fault}")


def _check_variables(name: str, payload: ScriptPayload) -> None:
    for variable in payload.env:
        if not variable or "=" in variable:
            raise SpecError(f"job {name!r}: env has the variable {variable!a}; a name has no '=' and is not empty")
    twice = sorted(payload.env.keys() & payload.secrets.keys())
    if twice:
        raise SpecError(f"job {name!r}: {twice[0]} is in env and in secrets; leave it out of one of them")


def _check_folder(name: str, payload: ScriptPayload) -> None:
    stated = payload.python_env not in (None, NO_ENVIRONMENT) or payload.environment is not None
    if stated and payload.snapshot is None and payload.cwd is None:
        raise SpecError(f"job {name!r}: python_env is a file of its folder, and it has neither a snapshot nor cwd")
    files = (payload.python_env, None if payload.environment is None else payload.environment.file)
    if any(file is not None and ".." in file.split("/") for file in files):
        raise SpecError(f"job {name!r}: python_env leads out of its folder; name a file below it")
    if payload.in_place and payload.cwd is None:
        raise SpecError(f"job {name!r}: in_place needs cwd, the folder that it runs in")


def _check_sweep(name: str, payload: SweepPayload) -> None:
    if payload.start >= payload.stop:
        raise SpecError(f"sweep {name!r}: [{payload.start}, {payload.stop}) is empty; stop lies beyond start")
    numbers = (payload.start, payload.stop, payload.min_chunk, payload.max_chunk or 1)
    if any(abs(number) > FARTHEST for number in numbers):
        raise SpecError(f"sweep {name!r}: its range and chunk sizes must lie within ±2^512")
    if payload.max_chunk is not None and payload.max_chunk < payload.min_chunk:
        raise SpecError(f"sweep {name!r}: max_chunk {payload.max_chunk} is below min_chunk {payload.min_chunk}")
    if digest(payload.params) != payload.digest:
        raise SpecError(f"sweep {name!r}: its digest is not that of its params; leave it to `hostler sweep submit`")


def _resolve(spec: JobSpec, jobs: Mapping[str, str]) -> tuple[str, ...]:
    """The ids of the jobs that a spec comes after."""
    return tuple(jobs[wrote] for wrote in spec.after)


def _dependencies(state: State, specs: Sequence[JobSpec], names: Mapping[str, str]) -> dict[str, str]:
    """The id for each word in `after`: a key of the same submission, a key, an id, a unique name, or a group's id.

    All words are looked up together, because a name is looked for among all jobs.
    """
    writers = {wrote: spec.name for spec in reversed(specs) for wrote in spec.after}
    others = [wrote for wrote in writers if wrote not in names and wrote not in state.groups]
    called = naming.called(state, others)
    found = {**{wrote: wrote for wrote in writers if wrote in state.groups}, **names}
    for wrote in others:
        job = naming.by_handle(state, wrote)
        try:
            found[wrote] = (job or naming.the_only(wrote, called.get(wrote, ()))).id
        except NotFound:
            raise SpecError(
                f"job {writers[wrote]!r} comes after {wrote!r}, which is no job's id, key or name, and no group's id"
            ) from None
        except UsageError as error:
            raise SpecError(f"job {writers[wrote]!r} comes after {wrote!r}: {error}") from None
    return found


def _dependencies_first(fresh: list[JobSubmitted]) -> list[JobSubmitted]:
    if not any(event.after for event in fresh):
        return fresh
    by_id = {event.job: event for event in fresh}
    try:
        order = list(TopologicalSorter({event.job: event.after for event in fresh}).static_order())
    except CycleError as error:
        ring = " → ".join(_label(by_id, name) for name in error.args[1])
        raise SpecError(f"these jobs wait for each other in a ring: {ring}; none was submitted") from error
    return [by_id[name] for name in order if name in by_id]


def _label(by_id: dict[str, JobSubmitted], name: str) -> str:
    return by_id[name].spec.key or by_id[name].spec.name
