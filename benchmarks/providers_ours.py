"""A week of `providers.py` through the production core: the virtual world of `hostler.sim`, and what came of it."""

from collections import defaultdict
from collections.abc import Iterable

from hostler.model import events
from hostler.model.events import Entry
from hostler.model.simulated import Measures
from hostler.model.work import WorkKind
from hostler.policy import fit
from hostler.sim import fleet as sim
from hostler.sim.world import World
from providers_fleet import Week, vram_gb
from providers_rules import Outcome


def play(week: Week) -> Outcome:
    """Play the week through the production core."""
    measured, waited = run(week)
    out = Outcome(waits=waited)
    tier = {device.id: fit.tier(vram_gb(node)) for node in week.nodes for device in node.devices}
    out.busy_s = sum(device.busy_s for device in measured.devices if device.gpu)
    out.useful = sum(device.useful_s * device.power for device in measured.devices if device.gpu)
    for span in measured.spans:
        if span.config is None:
            continue
        out.spans[span.config].append((span.begin, span.end))
        if tier.get(span.device) == 1:
            out.had_s[span.config] += span.end - span.begin
        if span.kind is WorkKind.TRAINING:
            out.trained_s[span.config] = max(out.trained_s[span.config], span.end - span.begin)
    return out


def run(week: Week) -> tuple[Measures, list[float]]:
    """What the simulator says of the week, and how long each training waited in all."""
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
            case events.JobRequeued(job=job) if job in waited:
                since[job] = entry.at
            case events.JobRetried(job=job) if job in waited:
                since[job] = entry.at
    for job, at in since.items():
        waited[job] += span_s - at
    return list(waited.values())


def _plan(world: World, node: str, at: float, back: float) -> None:
    world.agenda.later(at, lambda: world.lose_agent(node, back - at))
