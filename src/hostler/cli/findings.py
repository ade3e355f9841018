"""What a fleet file says that cannot be, or that its owner may not have meant."""

from __future__ import annotations

import os
import secrets
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from hostler.model.fleet import DeviceSpec, NodeSpec
    from hostler.model.learning import ConfigSpec
    from hostler.model.rules import Rules
    from hostler.model.work import JobSpec, Resources, WorkKind
    from hostler.policy.fit import Refusal, Site
    from hostler.settings import Loaded
    from hostler.settings.nodes import Node

    Wanted: TypeAlias = tuple[WorkKind, str, Resources]
    """A kind of work, whose it is, and what it needs of its device."""


class Finding(NamedTuple):
    """One finding; what is `wrong` contradicts itself or cannot run, anything else is only worth knowing."""

    wrong: bool
    text: str

    def __str__(self) -> str:
        return f"{'wrong' if self.wrong else 'note'}: {self.text}"


def findings(loaded: Loaded, now: float, jobs: Iterable[JobSpec] = ()) -> list[Finding]:
    """What there is to say of a fleet file that could be read, at `now` in Unix seconds; what is wrong comes first.

    Of the `jobs` that it asks for, those that are given are looked at, too. Where a probe has yet to find GPUs, or the
    memory of one is unknown, nothing is said of what the fleet lacks. Raises `SettingsError` where a training config
    cannot be.
    """
    from hostler.cli.packages import missing_packages
    from hostler.policy import programme, share
    from hostler.settings import config_specs, node_spec, rules

    asked, jobs = rules(loaded), list(jobs)
    nodes = [node_spec(node) for node in loaded.fleet.nodes]
    configs = config_specs(loaded, until_idle=False)
    wrong = share.contradictions(asked.quotas, [config.name for config in configs])
    if all(map(_known, loaded.fleet.nodes)):
        sites = _sites(loaded.fleet.nodes)
        wrong += [*_of_tiers(asked, sites), *_misfits([*_stages(configs), *_needs(jobs)], sites, asked)]
    notes = [*_of_nodes(nodes, asked, now), *_of_providers(nodes, asked), *_of_exports(loaded.fleet.nodes, configs)]
    unusable, of_clusters = _of_clusters(loaded)
    wrong, notes = [*wrong, *unusable], [*notes, *of_clusters]
    away = [node.name for node in loaded.fleet.nodes if _is_elsewhere(node, loaded.state_dir)]
    if away:
        (wrong if len(away) == len(nodes) else notes).extend(_of_files(loaded, jobs))
    notes += _of_retention(loaded)
    lacking = list(missing_packages(loaded.fleet.nodes, configs, jobs))
    (wrong if all(node.backend == "local" for node in loaded.fleet.nodes) else notes).extend(lacking)
    if loaded.fleet.rl is not None:
        from hostler.cli.rl import contradictions

        impossible, doubtful = contradictions(loaded, os.environ)
        wrong, notes = [*wrong, *impossible], [*notes, *doubtful]
    if configs and not programme.available():
        notes.append(WITHOUT_SOLVER)
    return [*(Finding(True, text) for text in wrong), *(Finding(False, text) for text in notes)]


ELSEWHERE = ("ssh", "dialin", "ray")
"""Backends of nodes to which files have to be brought."""
WITHOUT_SOLVER = (
    "highspy is not installed (extra `opt`): devices are shared by deficit counters alone. Lost are the proof that "
    "quotas can be met or cannot, prices of devices that know the whole queue, and the bound of what could be achieved"
)


def _of_retention(loaded: Loaded) -> Iterator[str]:
    within_s, reread_s = loaded.fleet.retention.read_within_s, loaded.fleet.replication.reread_s
    if loaded.fleet.stores and within_s < reread_s:
        yield (
            f"copies are read again once in replication.reread_s = {reread_s:.0f} s, and prove for "
            f"retention.read_within_s = {within_s:.0f} s only that something may be deleted: in between, nothing may; "
            "make the second at least as long as the first"
        )


def _is_elsewhere(node: Node, state_dir: Path) -> bool:
    """Whether files have to be brought there."""
    from hostler.settings import slurm_shares_state

    if node.backend == "slurm" and node.slurm is not None:
        return not slurm_shares_state(node.slurm, node.host, state_dir)
    return node.backend in ELSEWHERE


def _known(node: Node) -> bool:
    """Whether the devices of a node are known before it starts, and the memory of its GPUs."""
    if isinstance(node.gpus, str):
        return node.gpus == "none" and (node.backend == "local" or node.cpu_slots != "auto")
    if not isinstance(node.gpus, tuple):
        return False  # which of its GPUs are chosen, and what they are, a probe finds
    return all(each.vram_gb is not None for each in node.gpus)


def _sites(nodes: Iterable[Node]) -> list[Site]:
    """The devices of the fleet, of each node one of those that are alike."""
    from hostler.policy import fit

    found: dict[tuple[object, ...], Site] = {}
    for spec in map(_described, nodes):
        for each in spec.devices:
            alike = spec.name, each.kind, each.model, each.vram_gb
            if alike not in found:
                found[alike] = fit.site(spec, each)
    return list(found.values())


def _described(node: Node) -> NodeSpec:
    """A node with all its devices; of one whose GPUs are for a probe to find, with its CPU slots."""
    from hostler.agent.probe import cpus
    from hostler.settings import node_spec

    spec = node_spec(node)
    if node.backend == "virtual":
        return spec
    slots = cpus() if isinstance(node.cpu_slots, str) else node.cpu_slots
    return replace(
        spec,
        devices=tuple(_slot(spec.name, at) for at in range(slots)),
        cpus=float(cpus()) if spec.cpus is None else spec.cpus,
    )


def _slot(node: str, index: int) -> DeviceSpec:
    from hostler.model.fleet import DeviceSpec
    from hostler.model.work import DeviceKind

    return DeviceSpec(id=f"{node}/cpu{index}", node=node, kind=DeviceKind.CPU, index=index)


def _of_tiers(asked: Rules, sites: Sequence[Site]) -> Iterator[str]:
    there = {place.tier for place in sites}
    for tier in sorted({quota.tier for quota in asked.quotas if quota.share > 0} - there):
        yield f"quotas of tier {tier}: the fleet has no node of that tier"


def _stages(configs: Iterable[ConfigSpec]) -> Iterator[Wanted]:
    from hostler.model.work import WorkKind

    for config in configs:
        for work in (WorkKind.SELFPLAY, WorkKind.EXPORT, WorkKind.TRAINING, WorkKind.EVALUATION):
            yield work, config.name, getattr(config, work.value).stage.resources


def _needs(jobs: Iterable[JobSpec]) -> Iterator[Wanted]:
    return ((job.work, job.serves or job.name, job.resources) for job in jobs)


def _misfits(wanted: Iterable[Wanted], sites: Sequence[Site], asked: Rules) -> Iterator[str]:
    """What fits on no device: alike work once, with the gate that the most devices have."""
    names: defaultdict[tuple[WorkKind, Resources], list[str]] = defaultdict(list)
    for work, name, need in wanted:
        names[work, need].append(name)
    for (work, need), whose in names.items():
        refusals = [_refusal(need, place, work, asked) for place in sites]
        known = [each for each in refusals if each is not None]
        if len(known) == len(refusals):
            yield f"{work} of {_listed(whose)} fits on no device: {_commonest(known)}"


def _refusal(need: Resources, place: Site, work: WorkKind, asked: Rules) -> Refusal | None:
    from hostler.policy import cost, fit

    dear = cost.over_cap(asked.cost, work, cost.device_price(place.node, place.device))
    return fit.refusal(need, place, work) or (fit.Refusal(gate=fit.Gate.PRICE, why=dear) if dear else None)


def _commonest(refusals: Sequence[Refusal]) -> str:
    if not refusals:
        return "the fleet has none"
    gate, _ = Counter(each.gate for each in refusals).most_common(1)[0]
    return str(next(each for each in refusals if each.gate is gate))


def _of_exports(nodes: Iterable[Node], configs: Iterable[ConfigSpec]) -> Iterator[str]:
    from hostler.model.work import DeviceKind, WorkKind
    from hostler.policy import fit

    slots = [place for place in _sites(nodes) if place.device.kind is DeviceKind.CPU]
    needs = {config.export.stage.resources for config in configs if config.export.stage.resources.takes_any_device}
    if any(all(fit.refusal(need, place, WorkKind.EXPORT) for place in slots) for need in needs):
        yield "no CPU slot takes exports, so each takes a GPU while it lasts (nodes[].cpu_slots)"


def _of_nodes(nodes: Sequence[NodeSpec], asked: Rules, now: float) -> Iterator[str]:
    blind = [node.name for node in nodes if any(each.model and each.vram_gb is None for each in node.devices)]
    if blind:
        yield f"video memory unknown: {_listed(blind)}; what asks for some is not put there (gpus[].vram_gb)"
    unpriced = [node.name for node in nodes if node.price_per_h is None and node.provider is not None]
    if unpriced and _looks_at_prices(nodes, asked):
        yield f"price unknown: {_listed(unpriced)}; they pass every cap and count as nothing (price_per_h)"
    over = [node.name for node in nodes if node.ends_at is not None and node.ends_at <= now]
    if over:
        yield f"gone already, by its ends_at: {_listed(over)}; nothing is put there"


def _looks_at_prices(nodes: Sequence[NodeSpec], asked: Rules) -> bool:
    return bool(asked.cost.max_price_per_h) or any(node.price_per_h is not None for node in nodes)


def _of_providers(nodes: Sequence[NodeSpec], asked: Rules) -> Iterator[str]:
    known = {node.provider for node in nodes}
    for work, preferences in asked.cost.providers.items():
        named = (*preferences.prefer, *preferences.fallback, *preferences.avoid)
        strangers = sorted({*named} - known)
        if strangers:
            yield f"providers of {work}: no node is of {', '.join(strangers)}"


def _of_clusters(loaded: Loaded) -> tuple[list[str], list[str]]:
    """What is wrong with clusters as far as that is seen from here, and how models and data get there."""
    wrong, notes = [], []
    groups: defaultdict[tuple[str, str | None, bool], list[str]] = defaultdict(list)
    for node in loaded.fleet.nodes:
        if node.backend == "slurm" and node.slurm is not None and node.slurm.shared_root is not None:
            copies = _is_elsewhere(node, loaded.state_dir)
            groups[node.slurm.shared_root, node.host, copies].append(node.name)
    for (root, host, copies), names in groups.items():
        fault = None if host is not None else _unwritable(Path(root))
        if fault is not None:
            fix = "name a folder in slurm.shared_root that this machine shares with the compute nodes, or a login node"
            wrong.append(f"{_listed(names)}: {fault}; {fix} in host")
        elif not copies:
            notes.append(f"{_listed(names)}: models and data are not copied: the state directory lies in {root}")
        else:
            way = f"to {host}" if host is not None else f"to {root}"
            change = "a controller on the login node" if host is not None else "one"
            notes.append(
                f"{_listed(names)}: models and data are sent {way}; {change} whose state_dir lies in {root} copies none"
            )
    return wrong, notes


def _unwritable(folder: Path) -> str | None:
    """Why a file cannot be written here and read back; `None`: it can."""
    path, text = folder / f".hostler-probe-{secrets.token_hex(6)}", secrets.token_hex(16)
    try:
        try:
            path.write_text(text)
            return None if path.read_text() == text else f"what is written to {folder} reads otherwise"
        finally:
            path.unlink(missing_ok=True)
    except OSError as error:
        return f"{folder} cannot be written here: {error.strerror}"


def _of_files(loaded: Loaded, jobs: Iterable[JobSpec]) -> Iterator[str]:
    """Folders that cannot go to nodes elsewhere; the work of a folder once."""
    from hostler.backends.packing import chosen
    from hostler.model.errors import FilesError
    from hostler.model.work import ScriptPayload, SweepPayload

    names: defaultdict[tuple[str, tuple[str, ...] | None], list[str]] = defaultdict(list)
    for job in jobs:
        if isinstance(job.payload, ScriptPayload | SweepPayload) and job.payload.cwd is not None:
            names[job.payload.cwd, job.payload.files].append(job.name)
    for (folder, patterns), whose in names.items():
        try:
            chosen(Path(folder), patterns, loaded.state_dir.absolute())
        except (FilesError, OSError) as error:
            yield f"files of {_listed(whose)} cannot go to nodes elsewhere: {error}"


def _listed(names: Sequence[str], most: int = 5) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
