"""What there is to say of a Ray cluster before any work goes there. Changes nothing, and submits nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

from hostler.backends.ray.errors import RayDown, RayRefused
from hostler.backends.ray.machines import Machine, Wants, in_words, refusal, too_many
from hostler.backends.ray.rest import Door, RayRest
from hostler.model.record import record

LOOK_S = 10.0
LOOPBACK = ("127.", "localhost", "::1")


@record
class Looked:
    """One thing about a cluster; what is `wrong` keeps work from it."""

    wrong: bool
    says: str


async def examine(door: Door, rest: RayRest, asked: Mapping[str, Wants], calls: str | None) -> list[Looked]:
    """Of a cluster, and of what nodes of the fleet, by name, ask of it. `calls` is what their pilots would call."""
    names = ", ".join(asked)
    try:
        async with asyncio.timeout(LOOK_S):
            version, machines = await rest.version(), await rest.machines()
    except TimeoutError:
        return [Looked(wrong=True, says=f"{names}: {door.address} does not answer within {LOOK_S:g} s")]
    except (RayDown, RayRefused) as error:
        return [Looked(wrong=True, says=f"{names}: {error}")]
    found = [Looked(wrong=False, says=f"{names}: Ray {version} answers at {door.address}; {in_words(machines)}")]
    found += [Looked(wrong=True, says=fault) for fault in _faults(asked, machines)]
    if calls is not None and _is_loopback(calls) and not _is_loopback(urlsplit(door.address).hostname or ""):
        says = f"{names}: pilots would call {calls}, which on their machines is themselves; give dialin.address"
        found.append(Looked(wrong=True, says=says))
    return found


def _faults(asked: Mapping[str, Wants], machines: Sequence[Machine]) -> list[str]:
    each = [f"{name}: {why}" for name, wants in asked.items() if (why := refusal(wants, machines)) is not None]
    together = None if each else too_many(list(asked.values()), machines)
    return each if together is None else [f"{', '.join(asked)}: {together}"]


def _is_loopback(address: str) -> bool:
    return address.strip("[]").startswith(LOOPBACK)
