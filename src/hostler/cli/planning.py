"""What the scheduler would do with a fleet file, before anything starts."""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from hostler.cli.common import Json
from hostler.cli.declarations import Argument, Option
from hostler.cli.show import Column, clean, maybe, say, say_json, table, wrapped

if TYPE_CHECKING:
    from hostler.model.fleet import NodeSpec
    from hostler.settings import Loaded
    from hostler.settings.nodes import Node
    from hostler.sim.preview import Asked, ClassPlan, DevicePlan, Preview, Run


TIER_COLUMNS = (
    Column("TIER", right=True),
    Column("NODES", right=True),
    Column("GPUS", right=True),
    Column("CPU SLOTS", right=True),
    Column("VRAM GB", right=True),
    Column("AN HOUR", right=True),
)
QUOTA_COLUMNS = (
    Column("TIER", right=True),
    Column("QUOTA", yields=True),
    Column("TARGET", right=True),
    Column("WITH MODELS", right=True),
    Column("BEST PLAN", right=True),
)
NEED_COLUMNS = (
    Column("CONFIG", yields=True),
    Column("SELF-PLAY", yields=True),
    Column("TRAINING", yields=True),
    Column("EVALUATION", yields=True),
)
INDENT = "    "


def plan(
    fleet_file: Annotated[Path, Argument(metavar="FILE", help="A fleet file (YAML).")],
    nodes: Annotated[bool, Option("--nodes", help="Tell of every device, not of classes that are alike.")] = False,
    as_json: Json = False,
) -> int:
    """Show what the scheduler would do with a fleet file.

    Nothing is started, and no state directory is touched. It tells what runs at once, and as soon as training configs
    have their first models; what waits, and the gate that keeps it waiting; whether the quotas can be met. Of a
    training on many machines (`rl`) it tells what that comes to, from measured rates, and every contradiction.

    Exit status 1 where the file contradicts itself or asks for what cannot be, and where the quotas cannot be met all
    at once; not where that is said of a part of the devices alone, because a probe has yet to find the others, or their
    memory is unknown.

    Example:
      hostler plan examples/multi-provider.yaml
      hostler plan examples/multi-provider.yaml --nodes
    """
    from hostler.cli import rl
    from hostler.cli.findings import findings
    from hostler.model.codec import plain
    from hostler.settings import load
    from hostler.sim.preview import preview

    now = time.time()
    loaded = load(fleet_file, os.environ)
    asked, unknown = _asked(loaded)
    found = preview(asked, now)
    told, certain = findings(loaded, now, asked.jobs), not unknown and _all_known(asked.nodes)
    wrong = any(each.wrong for each in told)
    failed = int(wrong or (certain and bool(found.conflicts)))
    notes = [*map(str, told), *(f"note: {text}" for text in unknown)]
    planned = None if loaded.fleet.rl is None else rl.examined(loaded, os.environ)
    if as_json:
        trainings = {} if planned is None else {"rl": plain(planned)}
        say_json({**plain(found), **trainings, "notes": notes})
        return failed
    if planned is None or asked.configs or asked.jobs:
        say(_lines(loaded.fleet.name, asked, found, nodes))
    if planned is not None:
        say(rl.plan_lines(loaded.fleet.name, planned))
    if found.quotas:
        notes = [*_verdict(found, wrong=wrong, certain=certain), *notes]
    say(line for note in notes for line in _worded("", note))
    return failed


def waiting_lines(found: Preview) -> Iterator[str]:
    """What waits, and the gates that keep it waiting."""
    if found.waiting or found.blocked:
        yield ""
    for each in found.waiting:
        count = "" if each.jobs == 1 else f" ({_plural(each.jobs, 'job')})"
        yield from _worded("", f"waits: {each.work} {each.name}{count}: {each.why}")
    if found.blocked:
        yield f"waits: {_plural(found.blocked, 'job')} after others that are not done"


def known_nodes(loaded: Loaded, done: str) -> tuple[list[NodeSpec], list[str]]:
    """The nodes of the file as far as they are known without a probe, and what is `done` (planned) without."""
    from hostler.settings import node_spec

    nodes, unknown = [], []
    for node in loaded.fleet.nodes:
        spec = node_spec(node)
        nodes.append(spec if node.backend == "virtual" else _slots_alone(spec, _slots(node)))
        if node.backend != "virtual" and (
            node.gpus != "none" or (node.backend != "local" and node.cpu_slots == "auto")
        ):
            what, left = ("GPUs", "with its CPU slots alone") if _slots(node) else ("devices", "without it")
            unknown.append(f"the {what} of {node.name} are found by a probe when it starts; {done} {left}")
    return nodes, unknown


def _slots(node: Node) -> int:
    """The CPU slots of a node as far as they are known without starting anything: others have yet to be counted."""
    from hostler.agent.probe import cpus

    if isinstance(node.cpu_slots, int):
        return node.cpu_slots
    return cpus() if node.backend == "local" else 0


def _asked(loaded: Loaded) -> tuple[Asked, list[str]]:
    """What is looked at, and what is not known of it without a probe."""
    from hostler.settings import config_specs, rules, specs
    from hostler.sim.preview import Asked

    nodes, unknown = known_nodes(loaded, "planned")
    return Asked(
        nodes=tuple(nodes),
        rules=rules(loaded),
        configs=config_specs(loaded, until_idle=False),
        jobs=specs(loaded),
    ), unknown


def _slots_alone(spec: NodeSpec, slots: int) -> NodeSpec:
    """A node as far as it is known without starting anything: so many CPU slots, taken for sound."""
    from dataclasses import replace

    from hostler.agent.probe import cpus
    from hostler.model.fleet import DeviceSpec
    from hostler.model.work import DeviceKind

    devices = tuple(
        DeviceSpec(id=f"{spec.name}/cpu{at}", node=spec.name, kind=DeviceKind.CPU, index=at) for at in range(slots)
    )
    here = spec.backend == "local" and spec.cpus is None
    return replace(spec, devices=devices, cpus=float(cpus()) if here else spec.cpus, canary=None)


def _all_known(nodes: Iterable[NodeSpec]) -> bool:
    """Whether the memory of every GPU is known, and with it the tier of every node."""
    from hostler.model.work import DeviceKind

    gpus = (each for node in nodes for each in node.devices if each.kind is not DeviceKind.CPU)
    return all(each.vram_gb is not None for each in gpus)


def _lines(fleet: str, asked: Asked, found: Preview, by_device: bool) -> Iterator[str]:
    gpus, slots = (sum(getattr(tier, name) for tier in found.tiers) for name in ("gpus", "cpu_slots"))
    counts = [_plural(found.nodes, "node"), _plural(gpus, "GPU"), _plural(slots, "CPU slot")]
    price = [] if found.price_per_h is None else [f"{found.price_per_h:.2f} an hour"]
    yield from wrapped("", f"{clean(fleet)}: {', '.join(counts + price)}")
    yield from _titled(table(TIER_COLUMNS, map(_tier_row, found.tiers)))
    if asked.configs:
        yield from _titled(table(NEED_COLUMNS, map(_need_row, asked.configs)))
    yield ""
    yield from _devices(found.devices) if by_device else _classes(found.classes)
    if not (asked.configs or asked.jobs):
        yield "nothing is asked for: the file has no configs, no sweeps and no jobs"
    yield from waiting_lines(found)
    if found.quotas:
        yield from _titled(table(QUOTA_COLUMNS, map(_quota_row, found.quotas)))


def _titled(lines: Iterable[str]) -> Iterator[str]:
    yield ""
    yield from lines


def _tier_row(tier: Any) -> Sequence[object]:
    vram = maybe(None if tier.vram_gb is None else f"{tier.vram_gb:g}") if tier.gpus else "-"
    price = maybe(None if tier.price_per_h is None else f"{tier.price_per_h:.2f}")
    return tier.tier or "-", tier.nodes, tier.gpus, tier.cpu_slots, vram, price


def _need_row(config: Any) -> Sequence[object]:
    return config.name, *(_need(getattr(config, stage)) for stage in ("selfplay", "training", "evaluation"))


def _need(spec: Any) -> str:
    """What a stage needs, in a few words: the tiers in the order of its liking."""
    need = spec.stage.resources
    parts = [
        {"cpu": "CPU", "gpu": "" if need.vram_gb else "GPU", "any": ""}[need.device or "any"],
        f"{need.gpus} devices" if need.gpus > 1 else "",
        f"{need.vram_gb:g} GB" + (" sharded" if need.shards else "") if need.vram_gb else "",
        " ".join(f"t{tier}" for tier in need.tiers),
    ]
    return ", ".join(part for part in parts if part) or "anything"


def _classes(classes: Sequence[ClassPlan]) -> Iterator[str]:
    for each in classes:
        yield from wrapped("", f"{each.devices} x {clean(each.cls)}")
        yield from _two_looks(_counted(each.first), _counted(each.then))


def _counted(runs: Mapping[str, int]) -> str:
    """`training: hex8_2p; selfplay: 4 square8_2p, hex8_3p`, with the devices of each where these are more than one."""
    by_work: defaultdict[str, list[str]] = defaultdict(list)
    for name, count in runs.items():
        work, _, what = name.partition(" ")
        by_work[work].append(what if count == 1 else f"{count} {what}")
    return "; ".join(f"{work}: {', '.join(names)}" for work, names in by_work.items()) or "idle"


def _devices(devices: Sequence[DevicePlan]) -> Iterator[str]:
    for each in devices:
        yield from wrapped("", clean(each.id))
        yield from _two_looks(_explained(each.first), _explained(each.then))


def _explained(runs: Sequence[Run]) -> str:
    return "; ".join(f"{each.work} {each.name}{_with(each)}: {each.why}" for each in runs) or "idle"


def _with(run: Run) -> str:
    return f" on {' '.join(run.with_others)}" if run.with_others else ""


def _two_looks(first: str, then: str) -> Iterator[str]:
    if first == then:
        yield from _worded(INDENT, first)
        return
    yield from _worded(f"{INDENT}at once      ", first)
    yield from _worded(f"{INDENT}with models  ", then)


def _worded(title: str, text: str) -> Iterator[str]:
    """A text beside its title, broken between words; further lines stand under the first."""
    yield from (line.rstrip() for line in wrapped(title, clean(text)))


def _quota_row(quota: Any) -> Sequence[object]:
    return quota.tier, quota.pattern, *map(_percent, (quota.target, quota.then, quota.best))


def _plural(count: int, what: str) -> str:
    return f"{count} {what}" + ("" if count == 1 else "s")


def _percent(part: float | None) -> str:
    return maybe(None if part is None else f"{100 * part:.3g} %")


def _verdict(found: Preview, *, wrong: bool, certain: bool) -> Iterator[str]:
    """Whether the quotas can be met; where something is wrong with them, that is told already."""
    proviso = "" if certain else " with the devices that are known"
    yield ""
    yield from (f"cannot be met{proviso}: {text}" for text in found.conflicts)
    if found.solved and not found.conflicts and not wrong:
        yield f"all quotas can be met at the same time{proviso}"
