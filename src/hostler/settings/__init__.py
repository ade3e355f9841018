"""What was asked for: fleet files, jobs files and `HOSTLER_*` variables, strictly read. Start reading at `loading`.

The names below are imported when they are first used: most commands get along without pydantic and YAML.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hostler.settings.clusters import slurm_job_dir, slurm_modes, slurm_shares, slurm_shares_state
    from hostler.settings.configs import config_specs
    from hostler.settings.describing import Setting, describe
    from hostler.settings.jobsfile import load_jobs
    from hostler.settings.loading import Loaded, load, specs
    from hostler.settings.machines import node_env, node_spec, virtual_nodes
    from hostler.settings.rays import Entrance, ray_secrets, ray_token, rl_entrance, rl_entrance_faults
    from hostler.settings.rulebook import rules
    from hostler.settings.stores import replication_rules, store_secrets, store_specs
    from hostler.settings.sweeps import sweep_spec
    from hostler.settings.targets import Target, Telling, alert_origins, telling
    from hostler.settings.trainings import advice_key, checkpoints_path, order_path, rl_plan

__all__ = [
    "Entrance",
    "Loaded",
    "Setting",
    "Target",
    "Telling",
    "advice_key",
    "alert_origins",
    "checkpoints_path",
    "config_specs",
    "describe",
    "load",
    "load_jobs",
    "node_env",
    "node_spec",
    "order_path",
    "ray_secrets",
    "ray_token",
    "replication_rules",
    "rl_entrance",
    "rl_entrance_faults",
    "rl_plan",
    "rules",
    "slurm_job_dir",
    "slurm_modes",
    "slurm_shares",
    "slurm_shares_state",
    "specs",
    "store_secrets",
    "store_specs",
    "sweep_spec",
    "telling",
    "virtual_nodes",
]

_HOMES = {
    "Entrance": "rays",
    "Loaded": "loading",
    "Setting": "describing",
    "Target": "targets",
    "Telling": "targets",
    "advice_key": "trainings",
    "checkpoints_path": "trainings",
    "alert_origins": "targets",
    "config_specs": "configs",
    "describe": "describing",
    "load": "loading",
    "load_jobs": "jobsfile",
    "node_env": "machines",
    "node_spec": "machines",
    "ray_secrets": "rays",
    "ray_token": "rays",
    "order_path": "trainings",
    "replication_rules": "stores",
    "rl_entrance": "rays",
    "rl_entrance_faults": "rays",
    "rl_plan": "trainings",
    "rules": "rulebook",
    "slurm_job_dir": "clusters",
    "slurm_modes": "clusters",
    "slurm_shares": "clusters",
    "slurm_shares_state": "clusters",
    "specs": "loading",
    "store_secrets": "stores",
    "store_specs": "stores",
    "sweep_spec": "sweeps",
    "telling": "targets",
    "virtual_nodes": "machines",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
