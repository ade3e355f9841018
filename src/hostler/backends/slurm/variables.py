"""Variables with which people change what Slurm's commands do. They are for people; none may reach ours."""

from __future__ import annotations

from collections.abc import Mapping

FIXED: Mapping[str, str] = {"LC_ALL": "C", "SLURM_TIME_FORMAT": "%s", "SLURM_BITSTR_LEN": "0"}
"""Set for every command: messages in English, moments as Unix seconds, lists of tasks in full."""

EVERYWHERE = ("SLURM_CLUSTERS", "SLURM_DEBUG_FLAGS", "SLURM_EXIT_ERROR", "SLURM_JSON", "SLURM_YAML")

_SQUEUE = (
    "ACCOUNT", "ALL", "ARRAY", "ARRAY_UNIQUE", "CLUSTERS", "FEDERATION", "FORMAT", "FORMAT2", "LICENSES", "LOCAL",
    "NAMES", "PARTITION", "PRIORITY", "QOS", "SIBLING", "SORT", "STATES", "USERS",
)  # fmt: skip
_SINFO = ("ALL", "CLUSTERS", "FEDERATION", "FORMAT", "LOCAL", "PARTITION", "SORT")
_SACCT = ("CLUSTERS", "FEDERATION", "FORMAT", "LOCAL")
_SCANCEL = (
    "ACCOUNT", "BATCH", "CTLD", "CRON", "FULL", "HURRY", "INTERACTIVE", "NAME", "PARTITION", "QOS", "STATE", "USER",
    "VERBOSE", "WCKEY",
)  # fmt: skip
_SCONTROL = ("ALL", "FEDERATION", "FUTURE", "LOCAL", "SIBLING")
_SBATCH = (
    "ACCOUNT", "ACCTG_FREQ", "ARRAY_INX", "BATCH", "BURST_BUFFER", "CLUSTERS", "CONSTRAINT", "CONTAINER",
    "CONTAINER_ID", "CORE_SPEC", "CPUS_PER_GPU", "CPU_FREQ_REQ", "DEBUG", "DELAY_BOOT", "DISTRIBUTION", "ERROR",
    "EXCLUSIVE", "EXPORT", "GET_USER_ENV", "GPUS", "GPUS_PER_NODE", "GPUS_PER_TASK", "GPU_BIND", "GPU_FREQ", "GRES",
    "GRES_FLAGS", "HINT", "IGNORE_PBS", "INPUT", "JOB_NAME", "MEM_BIND", "MEM_BIND_LIST", "MEM_BIND_PREFER",
    "MEM_BIND_TYPE", "MEM_BIND_VERBOSE", "MEM_PER_CPU", "MEM_PER_GPU", "MEM_PER_NODE", "NETWORK", "NO_KILL",
    "NO_REQUEUE", "OPEN_MODE", "OUTPUT", "OVERCOMMIT", "PARTITION", "POWER", "PROFILE", "QOS", "REQUEUE", "REQ_SWITCH",
    "RESERVATION", "SEGMENT_SIZE", "SIGNAL", "SPREAD_JOB", "THREADS_PER_CORE", "THREAD_SPEC", "TIMELIMIT",
    "TRES_BIND", "TRES_PER_TASK", "USE_MIN_NODES", "WAIT", "WAIT_ALL_NODES", "WCKEY",
)  # fmt: skip
_ALLOCATION = (
    "CPUS_PER_GPU", "CPUS_PER_TASK", "CPU_FREQ_REQ", "DISTRIBUTION", "EXPORT_ENV", "GPUS", "GPUS_PER_NODE",
    "GPUS_PER_TASK", "GPU_BIND", "GPU_FREQ", "HINT", "JOB_DEPENDENCY", "JOB_ID", "JOBID", "MEM_PER_CPU", "MEM_PER_GPU",
    "MEM_PER_NODE", "NETWORK", "NNODES", "NO_KILL", "NPROCS", "NTASKS", "NTASKS_PER_CORE", "NTASKS_PER_GPU",
    "NTASKS_PER_NODE", "NTASKS_PER_SOCKET", "OVERCOMMIT", "PROFILE", "RESTART_COUNT", "SPREAD_JOB", "THREADS_PER_CORE",
    "TRES_PER_TASK", "UMASK",
)  # fmt: skip
"""What an allocation leaves in its jobs' environment, and sbatch takes for wishes: the controller may run in one."""

_BY_COMMAND: Mapping[str, tuple[str, ...]] = {
    "squeue": tuple(f"SQUEUE_{name}" for name in _SQUEUE),
    "sinfo": tuple(f"SINFO_{name}" for name in _SINFO),
    "sacct": tuple(f"SACCT_{name}" for name in _SACCT),
    "scancel": tuple(f"SCANCEL_{name}" for name in _SCANCEL),
    "scontrol": tuple(f"SCONTROL_{name}" for name in _SCONTROL),
    "sbatch": (
        *(f"SBATCH_{name}" for name in _SBATCH),
        *(f"SLURM_{name}" for name in _ALLOCATION),
    ),
}


def environment(command: str) -> dict[str, str | None]:
    """What changes in the environment of a command; `None`: the variable is unset."""
    return {**dict.fromkeys((*EVERYWHERE, *_BY_COMMAND[command])), **FIXED}
