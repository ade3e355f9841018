"""Sweeps as people ask for them, to job specs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from hostler.model.codec import digest
from hostler.model.errors import SpecError
from hostler.model.work import JobSpec, SweepPayload
from hostler.settings import programs
from hostler.settings.clusters import batch_options
from hostler.settings.faults import checked
from hostler.settings.models import Sweep
from hostler.settings.programs import Program
from hostler.settings.reading import Origin, uniform


def sweep_spec(
    asked: Sweep | Mapping[str, Any], base_dir: Path, find: Callable[[str], Program] = programs.find
) -> JobSpec:
    """The spec of a sweep, its data files taken in; paths in its parameters start from `base_dir`.

    A mapping has the keys of a sweep in a fleet file (as from the command line). `find` gives a program by its name.
    Raises `SpecError` where the program is not known or refuses the parameters or the range, and `SettingsError` where
    the mapping is no sweep.
    """
    sweep = asked if isinstance(asked, Sweep) else checked(Sweep, uniform(dict(asked), Origin("sweep")))
    try:
        program = None if sweep.program is None else find(sweep.program)
        payload = _of_worker(sweep, base_dir) if program is None else _of_program(sweep, program, base_dir)
    except ValueError as error:
        raise SpecError(f"sweep {sweep.name!r}: params: {error}") from error
    return JobSpec(
        name=sweep.name,
        key=sweep.key or sweep.name,
        payload=payload,
        resources=sweep.resources,
        priority=sweep.priority,
        after=sweep.after,
        retry=sweep.retry,
        batch=batch_options(sweep.slurm),
    )


def _of_worker(sweep: Sweep, base_dir: Path) -> SweepPayload:
    assert sweep.worker is not None
    payload = _payload(sweep, sweep.worker, sweep.params, sweep.chance, sweep.kernel)
    return payload if sweep.cwd is None else replace(payload, cwd=str(base_dir / sweep.cwd), files=sweep.files)


def _of_program(sweep: Sweep, program: Program, base_dir: Path) -> SweepPayload:
    params = program.prepare(sweep.params, base_dir)
    bounds = program.bounds(params)
    if bounds is not None and not bounds[0] <= sweep.range[0] < sweep.range[1] <= bounds[1]:
        raise SpecError(
            f"sweep {sweep.name!r}: range [{sweep.range[0]}, {sweep.range[1]}) leaves [{bounds[0]}, {bounds[1]}), "
            f"which is all there is for {program.name} with these params"
        )
    return _payload(sweep, program.worker, params, program.chance(params), program.kernel(params))


def _payload(
    sweep: Sweep, worker: tuple[str, ...], params: Mapping[str, Any], chance: float | None, kernel: str | None
) -> SweepPayload:
    return SweepPayload(
        schema=1,
        start=sweep.range[0],
        stop=sweep.range[1],
        worker=worker,
        params=params,
        digest=digest(params),
        chance=chance,
        kernel=kernel,
        target_s=sweep.target_s,
        min_chunk=sweep.min_chunk,
        max_chunk=sweep.max_chunk,
        max_hits=sweep.max_hits,
        silence_s=sweep.silence_s,
        start_s=sweep.start_s,
    )
