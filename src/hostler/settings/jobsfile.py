"""Script jobs in short form, from jobs files and fleet files, to job specs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from hostler.model.errors import SettingsError
from hostler.model.work import UNEXPECTED, JobSpec, Resources, ScriptPayload, WorkKind
from hostler.settings.clusters import batch_options
from hostler.settings.faults import checked
from hostler.settings.models import Job, Jobs, Limits
from hostler.settings.reading import Origin, read_file

OWN_DIRECTORY = "{attempt}"
"""As a job's `cwd`: a fresh directory for each attempt."""

PYTHON = "{python}"


def load_jobs(path: Path) -> tuple[JobSpec, ...]:
    """The jobs of a jobs file: YAML or JSON, a list of jobs or a mapping `{jobs: [...]}`.

    A job is what `hostler.settings.models.Job` says; paths start from the folder of the file, and the key defaults to
    the name. The jobs files of scripts_coordinator are understood (`job_id`, `script`, `args`, `timeout`); a key of
    theirs that cannot be honoured (`gpu_id`, `expected_output`) is refused with what to write instead. Raises
    `SettingsError` telling every fault with its place.
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
    assert name is not None
    payload = ScriptPayload(
        schema=1,
        argv=_argv(job),
        env=job.env,
        python_env=job.python_env,
        cwd=None if job.cwd == OWN_DIRECTORY else str(base_dir / job.cwd),
        in_place=job.in_place,
        files=job.files,
        outputs=job.outputs,
        require_result=job.require_result,
    )
    return JobSpec(
        name=name,
        key=job.key or name,
        payload=payload,
        resources=job.resources,
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


def _expected_s(job: Job) -> Mapping[str, float]:
    if job.expected_s is None:
        return UNEXPECTED
    return job.expected_s if isinstance(job.expected_s, dict) else {"*": job.expected_s}


def _argv(job: Job) -> tuple[str, ...]:
    if job.script is not None:
        return (PYTHON, job.script, *job.args)
    argv = job.argv or job.run
    assert argv is not None
    return argv
