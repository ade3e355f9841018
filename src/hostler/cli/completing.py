"""Words that a shell may complete an argument with: names of what the running controller has.

They are asked for with a short time limit. Without a controller there are none, and nothing is printed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING, Any

from hostler.model.errors import HostlerError

if TYPE_CHECKING:
    from hostler.client import Client

TIMEOUT_S = 1.0
NEWEST = 200
"""Jobs whose ids are offered."""


def complete_job(begin: str, typed: Mapping[str, Any]) -> list[str]:
    """Ids of the newest jobs that begin so."""
    return _offered(begin, typed, _jobs)


def complete_job_or_group(begin: str, typed: Mapping[str, Any]) -> list[str]:
    """Ids of the newest jobs, and of job groups, that begin so."""
    return _offered(begin, typed, _jobs, _groups)


def complete_job_or_device(begin: str, typed: Mapping[str, Any]) -> list[str]:
    """Ids of the newest jobs, and of devices, that begin so."""
    return _offered(begin, typed, _jobs, _devices)


def complete_group(begin: str, typed: Mapping[str, Any]) -> list[str]:
    """Ids of job groups that begin so."""
    return _offered(begin, typed, _groups)


def complete_sweep(begin: str, typed: Mapping[str, Any]) -> list[str]:
    """Ids and names of sweeps that begin so."""
    return _offered(begin, typed, _sweeps)


def complete_node(begin: str, typed: Mapping[str, Any]) -> list[str]:
    """Names of nodes that begin so."""
    return _offered(begin, typed, _nodes)


def complete_device(begin: str, typed: Mapping[str, Any]) -> list[str]:
    """Ids of devices that begin so."""
    return _offered(begin, typed, _devices)


def complete_config(begin: str, typed: Mapping[str, Any]) -> list[str]:
    """Names of training configs that begin so."""
    return _offered(begin, typed, _configs)


def _offered(begin: str, typed: Mapping[str, Any], *kinds: Any) -> list[str]:
    from hostler.cli.common import client

    with suppress(HostlerError, OSError):
        asked = client(typed.get("state_dir"), timeout_s=TIMEOUT_S)
        words = chain.from_iterable(kind(asked) for kind in kinds)
        return [word for word in words if word.startswith(begin) and word.isprintable()]
    return []


def _jobs(asked: Client) -> Iterable[str]:
    known = sum(asked.status()["jobs"].values())
    return (job["id"] for job in asked.jobs(after=max(0, known - NEWEST), limit=NEWEST))


def _groups(asked: Client) -> Iterable[str]:
    return (group["id"] for group in asked.groups(limit=None))


def _sweeps(asked: Client) -> Iterable[str]:
    return (word for sweep in asked.sweeps() for word in (sweep["job"], sweep["name"]))


def _nodes(asked: Client) -> Iterable[str]:
    return (node["name"] for node in asked.nodes())


def _devices(asked: Client) -> Iterable[str]:
    return (placed["device"]["id"] for placed in asked.devices())


def _configs(asked: Client) -> Iterable[str]:
    return (config["name"] for config in asked.configs())
