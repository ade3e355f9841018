"""A week of `providers.py` through the production core: the virtual world of `hostler.sim`, and what came of it."""

from collections import defaultdict
from collections.abc import Iterable

from hostler.model import events
from hostler.model.events import Entry
from hostler.model.simulated import Measures
from hostler.sim import fleet as sim
from hostler.sim.world import World
from providers_fleet import Week


def play(week: Week) -> tuple[Measures, list[float]]:
    """Play the week; what came of it, and how long each training waited in all."""
    world = sim.build(week.scenario)
    for each in week.gone:
        _plan(world, each.node, each.at, each.back)
    world.live(week.case.span_s)
    return sim.measured(week.scenario, world), waits(world.entries(), week.case.span_s)


def waits(entries: Iterable[Entry], span_s: float) -> list[float]:
    """Seconds that each training waited for a device, whenever it did; what still waits has waited so far."""
    since: dict[str, float] = {}
    waited: defaultdict[str, float] = defaultdict(float)
    for entry in entries:
        match entry.event:
            case events.JobSubmitted(job=job, spec=spec) if spec.name.startswith("train-"):
                since[job] = entry.at
                waited[job] = 0.0
            case events.AttemptLeased(job=job) if job in since:
                waited[job] += entry.at - since.pop(job)
            case events.JobRequeued(job=job, not_before=at) if job in waited:
                since[job] = entry.at
            case events.JobRetried(job=job) if job in waited:
                since[job] = entry.at
    for job, at in since.items():
        waited[job] += span_s - at
    return list(waited.values())


def _plan(world: World, node: str, at: float, back: float) -> None:
    world.agenda.later(at, lambda: world.lose_agent(node, back - at))
