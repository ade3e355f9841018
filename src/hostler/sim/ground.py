"""What all nodes of a virtual world stand on: one time, one truth, one safe place."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from hostler.model.record import entity
from hostler.sim.agenda import Agenda
from hostler.sim.engine import Engine
from hostler.sim.nature import Nature

if TYPE_CHECKING:
    from hostler.sim.lab import Lab


@entity
class Ground:
    """Given to every agent of a world."""

    agenda: Agenda
    engine: Engine
    nature: Nature
    lab: Lab | None = None
    wrong_digest: float = 0.0
    """Share of chunks that are searched with other parameters."""
    bad_devices: frozenset[str] = frozenset()
    """Devices on which no worker ever starts."""
    kept: dict[str, float] = field(default_factory=dict)
    """What attempts have done of jobs that are not done, in the unit of their `Course`; later attempts go on there."""


def firm_ground(agenda: Agenda, nature: Nature, lab: Lab | None = None) -> Ground:
    """A world in which nothing is wrong."""
    return Ground(agenda=agenda, engine=Engine(agenda), nature=nature, lab=lab)
