"""Settings of Slurm clusters, to the values that work is submitted by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from hostler.model.batch import SHARES, Share
from hostler.model.pools import Mode
from hostler.model.work import BatchOptions, WorkKind
from hostler.settings.section import Section
from hostler.settings.slurm import Slurm, SlurmJob

USUAL_MODE: Mode = "job"
MODES: Mapping[WorkKind, Mode] = {WorkKind.SELFPLAY: "array", WorkKind.SWEEP: "pilot"}
"""Of the kinds of work that come in numbers."""


def slurm_modes(asked: Slurm) -> dict[WorkKind, Mode]:
    """How each kind of work becomes batch jobs."""
    if isinstance(asked.mode, dict):
        return {work: asked.mode.get(work, MODES.get(work, USUAL_MODE)) for work in WorkKind}
    if asked.mode != "auto":
        return dict.fromkeys(WorkKind, asked.mode)
    return {work: MODES.get(work, USUAL_MODE) for work in WorkKind}


def slurm_shares(asked: Slurm) -> dict[WorkKind, Share]:
    """What each kind of work asks for."""
    return {work: _laid_over(usual, asked.resources.get(work)) for work, usual in SHARES.items()}


def slurm_job_dir(asked: Slurm) -> str:
    """Where batch scripts, the agent and what runs are kept."""
    assert asked.shared_root is not None
    return asked.job_dir or f"{asked.shared_root.rstrip('/')}/.hostler"


def slurm_shares_state(asked: Slurm, host: str | None, state_dir: Path) -> bool:
    """Whether what the controller keeps lies where the compute nodes see it: then nothing is copied."""
    return host is None and state_dir.absolute().is_relative_to(asked.shared_root or "/")


def batch_options(asked: SlurmJob | None) -> BatchOptions | None:
    """What a job wants of a cluster."""
    return None if asked is None else BatchOptions(**_said(asked))


def _laid_over(usual: Share, said: Section | None) -> Share:
    return usual if said is None else replace(usual, **_said(said))


def _said(section: Section) -> dict[str, Any]:
    values = {name: getattr(section, name) for name in type(section).model_fields}
    return {name: value for name, value in values.items() if value is not None}
