"""Script jobs in short form, from jobs files, fleet files and requests, to job specs."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from hostler.model.errors import SettingsError
from hostler.model.work import NAME_MAX, RESERVED_NAME, UNEXPECTED, JobSpec, Resources, ScriptPayload, WorkKind
from hostler.settings.clusters import batch_options
from hostler.settings.faults import checked
from hostler.settings.jobs import OWN_DIRECTORY, Job, JobForm, Jobs, ShortJob
from hostler.settings.models import Limits
from hostler.settings.reading import Origin, read_file
from hostler.settings.section import secrets_in, values_in

PYTHON = "{python}"
NAME_SHOWN = 60
"""Characters of a command that are the name of a job without one, as `hostler submit` has it."""


def load_jobs(path: Path) -> tuple[JobSpec, ...]:
    """The jobs of a jobs file: YAML or JSON, a list of jobs or a mapping `{jobs: [...]}`.

    A job is what `hostler.settings.jobs.Job` says; paths start from the folder of the file, the name defaults to the
    command, and the key to the name. The jobs files of scripts_coordinator are understood (`job_id`, `script`, `args`,
    `timeout`); a key of theirs that cannot be honoured (`gpu_id`, `expected_output`) is refused with what to write
    instead. Raises `SettingsError` telling every fault with its place.
    """
    placed = placed_jobs(path)
    refuse_twins("the key", [(spec.key or spec.name, origin) for spec, origin in placed])
    return tuple(spec for spec, _ in placed)


def placed_jobs(path: Path) -> list[tuple[JobSpec, Origin]]:
    """The jobs of a jobs file, each with the place where it is written; nobody has looked for equal keys."""
    tree = read_file(path)
    tree = tree.wrapped("jobs") if isinstance(tree.value, list) else tree
    jobs = checked(Jobs, tree).jobs
    base_dir = path.absolute().parent
    return [(job_spec(job, base_dir), tree.at(("jobs", i))) for i, job in enumerate(jobs)]


def job_spec(job: Job, base_dir: Path) -> JobSpec:
    """The spec of a job in short form; its paths start from `base_dir`."""
    name = job.name or job.job_id
    cwd = None if job.cwd == OWN_DIRECTORY else str(base_dir / job.cwd)
    return _spec(job, name or _by_command(job), job.key or name or _key_of(job), _payload(job, cwd, job.in_place))


def short_spec(job: ShortJob) -> JobSpec:
    """The spec of a job in the short form of requests."""
    name = job.name or job.job_id or _by_command(job)
    cwd = None if job.cwd == OWN_DIRECTORY else job.cwd
    return _spec(job, name, job.key, _payload(job, cwd, job.in_place, job.snapshot))


def _by_command(job: JobForm) -> str:
    """The name of a job without one."""
    return " ".join(_argv(job))[:NAME_SHOWN] or "job"


def _key_of(job: JobForm) -> str:
    """The key of a job of a file that has neither key nor name: its command, or a digest where that cannot be one."""
    command = shlex.join(_argv(job))
    is_key = len(command) <= NAME_MAX and not RESERVED_NAME.fullmatch(command)
    return command if is_key else f"sha256:{sha256(command.encode()).hexdigest()}"


def bounded(resources: Resources, limits: Limits) -> Resources:
    """The resources with the limit of memory that holds where nobody has said another."""
    if resources.memory_gb is not None or limits.memory_gb is None:
        return resources
    return replace(resources, memory_gb=limits.memory_gb)


def refuse_twins(what: str, placed: Iterable[tuple[str, Origin]]) -> None:
    """Raise `SettingsError` at the second of two equal words."""
    first: dict[str, Origin] = {}
    for word, origin in placed:
        if word in first:
            raise SettingsError(f"{origin}: {what} {word!r} is used twice; the first is at {first[word]}")
        first[word] = origin


def _payload(job: JobForm, cwd: str | None, in_place: bool, snapshot: str | None = None) -> ScriptPayload:
    return ScriptPayload(
        schema=1,
        argv=_argv(job),
        env=values_in(job.env),
        secrets=secrets_in(job.env),
        plain=job.plain,
        python_env=job.python_env,
        snapshot=snapshot,
        cwd=cwd,
        in_place=in_place,
        files=job.files,
        outputs=job.outputs,
        require_result=job.require_result,
    )


def _spec(job: JobForm, name: str, key: str | None, payload: ScriptPayload) -> JobSpec:
    return JobSpec(
        name=name,
        key=key,
        payload=payload,
        resources=job.needs,
        priority=job.priority,
        after=job.after,
        retry=job.retry,
        walltime_s=job.walltime_s or job.timeout,
        grace_s=job.grace_s,
        work_as=None if job.work == "script" else WorkKind(job.work),
        config=job.config,
        parameters=job.parameters,
        expected_s=_expected_s(job),
        checkpoints=job.checkpoints,
        batch=batch_options(job.slurm),
    )


def _expected_s(job: JobForm) -> Mapping[str, float]:
    if job.expected_s is None:
        return UNEXPECTED
    return job.expected_s if isinstance(job.expected_s, dict) else {"*": job.expected_s}


def _argv(job: JobForm) -> tuple[str, ...]:
    if job.script is not None:
        return (PYTHON, job.script, *job.args)
    argv = job.argv or job.run
    assert argv is not None
    return argv
