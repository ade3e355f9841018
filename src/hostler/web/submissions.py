"""Jobs of request bodies to job specs: each in full form, with a `payload`, or in the short form of jobs files."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from hostler.model import codec
from hostler.model.groups import GroupSpec
from hostler.model.record import record
from hostler.model.schemas import KeyPath
from hostler.model.work import JobSpec, ScriptPayload, SweepPayload
from hostler.settings.jobs import OWN_DIRECTORY, ShortJob
from hostler.settings.jobsfile import short_spec
from hostler.web.answers import decode

JOBS: KeyPath = ("jobs",)
"""The path of the list of jobs in faults, also where the list is the whole body."""


@record
class GroupBody:
    """A job group and its jobs."""

    group: GroupSpec
    jobs: tuple[JobSpec | ShortJob, ...]


def read_jobs(body: bytes) -> tuple[JobSpec, ...]:
    """The specs of a list of jobs. Raises `SpecError` naming the field of every fault."""
    specs, faults = _specs(decode(body))
    if faults:
        raise codec.refused(faults)
    return specs


def read_group(body: bytes) -> tuple[GroupSpec, tuple[JobSpec, ...]]:
    """A job group and the specs of its jobs. Raises `SpecError` naming the field of every fault."""
    given: Any = decode(body)
    specs: tuple[JobSpec, ...] = ()
    below: list[str] = []
    if isinstance(given, dict) and "jobs" in given:
        specs, below = _specs(given["jobs"])
        given = {**given, "jobs": []}
    try:
        group: GroupSpec = codec.adapter(GroupBody).validate_python(given).group
    except ValidationError as error:
        raise codec.refused([*codec.fault_lines(error, given, GroupBody), *below]) from error
    if below:
        raise codec.refused(below)
    return group, specs


def _specs(values: object) -> tuple[tuple[JobSpec, ...], list[str]]:
    """The specs, or the faults of all jobs."""
    if not isinstance(values, list):
        return _full_specs(values)
    specs: list[JobSpec] = []
    faults: list[str] = []
    # A call for all of them would keep other threads waiting to its end.
    for i, value in enumerate(values):
        try:
            specs.append(_spec(value))
        except ValidationError as error:
            shape = ShortJob if _is_short(value) else JobSpec
            faults += codec.fault_lines(error, value, shape, (*JOBS, i))
            if len(faults) >= codec.FAULTS_MOST:
                break
    return tuple(specs), faults


def _full_specs(values: object) -> tuple[tuple[JobSpec, ...], list[str]]:
    shape = tuple[JobSpec, ...]
    try:
        return tuple(map(_in_own_folder, codec.adapter(shape).validate_python(values))), []
    except ValidationError as error:
        return (), codec.fault_lines(error, values, shape, JOBS)


def _spec(value: object) -> JobSpec:
    if not _is_short(value):
        return _in_own_folder(codec.adapter(JobSpec).validate_python(value))
    # By way of JSON, as settings are read: strict, and a list is still a list.
    return short_spec(ShortJob.model_validate_json(json.dumps(value), strict=True))


def _in_own_folder(spec: JobSpec) -> JobSpec:
    """The spec with `cwd: {attempt}` as the model has it: without a folder, an attempt runs in its own."""
    payload = spec.payload
    if isinstance(payload, ScriptPayload | SweepPayload) and payload.cwd == OWN_DIRECTORY:
        return replace(spec, payload=replace(payload, cwd=None))
    return spec


def _is_short(value: object) -> bool:
    return isinstance(value, dict) and "payload" not in value
