"""All targets."""

from __future__ import annotations

from . import (
    agent_journal,
    agent_lines,
    backups,
    controller_lines,
    dial_in,
    draws_files,
    files_of_nodes,
    fleet_file,
    gpu_tools,
    journal_entries,
    ray_answers,
    requests_for_files,
    slurm_output,
)
from .base import Target

TARGETS: tuple[Target, ...] = tuple(
    each.TARGET
    for each in (
        agent_journal,
        agent_lines,
        backups,
        controller_lines,
        dial_in,
        draws_files,
        files_of_nodes,
        fleet_file,
        gpu_tools,
        journal_entries,
        ray_answers,
        requests_for_files,
        slurm_output,
    )
)
