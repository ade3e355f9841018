"""All targets."""

from __future__ import annotations

from importlib import import_module

from .base import Target

NAMES = (
    "agent_journal",
    "agent_lines",
    "backups",
    "controller_lines",
    "dial_in",
    "draws_files",
    "files_of_nodes",
    "fleet_file",
    "gpu_tools",
    "journal_entries",
    "ray_answers",
    "requests_for_files",
    "slurm_output",
    "snapshots",
)
TARGETS: tuple[Target, ...] = tuple(import_module(f"{__package__}.{name}").TARGET for name in NAMES)
