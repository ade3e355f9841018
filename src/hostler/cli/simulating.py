"""What would the scheduler make of a fleet? Days of it in virtual time, before anything is rented."""

from __future__ import annotations

import gc
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from hostler import __version__
from hostler.cli.common import Json
from hostler.cli.declarations import Argument, Option
from hostler.cli.pages import report_extra, write_page
from hostler.cli.planning import known_nodes, waiting_lines
from hostler.cli.show import UNKNOWN, Column, duration, maybe, paragraph, quantity, say, say_json, table
from hostler.model.errors import UsageError

if TYPE_CHECKING:
    from hostler.model.fleet import NodeSpec
    from hostler.model.simulated import Measures
    from hostler.model.work import JobSpec
    from hostler.settings import Loaded
    from hostler.sim.faults import Faults, Lives
    from hostler.sim.fleet import Scenario


HOUR_S = 3600.0
GARBAGE_MOST = 50_000
"""Allocations between two looks for garbage in cycles."""
LONGER_MOST = 1e6
"""Makes years of a minute: as good as for ever."""
LONGEST_SHOWN = 60
"""Characters that are shown of what somebody wrote."""
HOW_TO_ADD = 'write it as "2x RTX 4090@vast:0.45" (price per GPU and hour) or "RTX 6000 48GB@vast:0.8"'
NOT_TOLD = {"script": " without expected_s", "sweep": " of unknown speed"}
ONE_SEED = "differences of one seed; try others with --seed"
HOURS_ARE = "HOURS are of devices: of one that several share, each has its part"
QUOTA_ERROR_IS = "QUOTA ERROR: half the sum of |had - meant| over a tier's quotas, in points"
AS_IT_IS, CHANGED = "as it is", "changed"
TIER_COLUMNS = (
    Column("TIER", right=True),
    Column("DEVICES", right=True),
    Column("BUSY", right=True),
    Column("USEFUL", right=True),
    Column("COST", right=True),
    Column("QUOTA ERROR", right=True),
)
WAIT_COLUMNS = (
    Column("WORK"),
    Column("TIMES", right=True),
    Column("HOURS", right=True),
    Column("LOST H", right=True),
    Column("WAIT MEAN", right=True),
    Column("P50", right=True),
    Column("P95", right=True),
    Column("LONGEST", right=True),
)
CONFIG_COLUMNS = (
    Column("CONFIG", yields=True),
    Column("HOURS", right=True),
    Column("GAMES", right=True),
    Column("GAMES/H", right=True),
    Column("TRAIN", right=True),
    Column("PROMO", right=True),
    Column("STARVED", right=True),
)
QUOTA_COLUMNS = (
    Column("QUOTA", yields=True),
    Column("TIER", right=True),
    Column("MEANT", right=True),
    Column("HAD", right=True),
)
COMPARISON_COLUMNS = (
    Column("", yields=True),
    Column(AS_IT_IS.upper(), right=True),
    Column(CHANGED.upper(), right=True),
    Column("DIFFERENCE", right=True),
)
ROWS: Mapping[str, int] = {
    "GPUs": 0,
    "busy, %": 1,
    "useful, %": 1,
    "useful work, power hours": 0,
    "games/h": 0,
    "cost": 2,
    "cost per 100 power hours": 3,
    "quota error, points": 1,
    "training waits, mean min": 1,
    "training waits, 95 % within min": 1,
    "evaluation waits, mean min": 1,
    "evaluation waits, 95 % within min": 1,
    "script waits, mean min": 1,
    "script waits, 95 % within min": 1,
    "longest without work, h": 1,
}
"""What is compared, and to how many decimal places."""
NODES_PRICED = "nodes priced"
"""The row of how many nodes have a price, of how many: cost and cost per unit are of these alone."""
_ADDED = re.compile(
    r"\s*(?:(?P<count>[-+]?[\d.,]*\d)\s*x(?:\s+|(?=[A-Z\d])))?(?P<model>[^@:]+?)\s*@\s*(?P<provider>[\w.-]+)"
    r"\s*(?::\s*(?P<price>\d+(?:\.\d+)?))?\s*"
)
_VRAM = re.compile(r"(?<![^\s_-])([-+]?\d+(?:\.\d+)?)\s*GB\b", re.IGNORECASE)
_GB = re.compile(r"GB\b", re.IGNORECASE)


def sim(
    fleet: Annotated[Path, Argument(metavar="FLEET", help="The fleet file.")],
    days: Annotated[float, Option(min=0.01, max=365, help="How many virtual days.")] = 7.0,
    seed: Annotated[int, Option(min=0, help="What all chance comes from.")] = 0,
    faults: Annotated[
        str, Option(metavar="LEVEL", help="What goes wrong: none, light, heavy, or a JSON file.")
    ] = "light",
    trace: Annotated[
        Path | None,
        Option(help="Lives of ephemeral nodes are drawn from this spot trace (milliseconds,add|remove,instance)."),
    ] = None,
    lifetime_scale: Annotated[
        float, Option(min=0.001, max=LONGER_MOST, help="Ephemeral nodes live so many times as long.")
    ] = 1.0,
    training_load: Annotated[
        float, Option(min=0, max=2, help="Further trainings that would keep this share of tiers 1 and 2 busy.")
    ] = 0.0,
    add: Annotated[
        list[str] | None, Option(metavar="NODE", help='Compare with a node more: "2x RTX 4090@vast:0.45".')
    ] = None,
    remove: Annotated[list[str] | None, Option(metavar="NODE", help="Compare with a node less.")] = None,
    report: Annotated[Path | None, Option(help="Write a page of pictures to this file.")] = None,
    as_json: Json = False,
) -> None:
    """Play days of a fleet in virtual time, and tell what came of them.

    The scheduler is the real one; machines, durations and failures are drawn by chance. All nodes of the file are
    played, whether they are there or not; of this machine, its CPU slots. Of its jobs, those are played whose
    expected_s says how long they last; no sweeps, for nobody knows how fast they go.

    With --add and --remove the changed fleet is played as well, and both are set side by side. The price is per GPU
    and hour; the memory of a model that the fleet does not have is written behind it ("RTX 6000 48GB@vast:0.8").

    Example:
      hostler sim examples/multi-provider.yaml --days 2 --report week.html
      hostler sim fleet.yaml --add "2x RTX 4090@vast:0.45" --training-load 0.3
    """
    from hostler.settings import load
    from hostler.sim.fleet import play

    # Hardly anything that a simulation makes is garbage in cycles: looking for it often costs a tenth of the time.
    gc.set_threshold(GARBAGE_MOST)
    loaded = load(fleet, os.environ)
    played, not_played = _sorted_out(loaded)
    nodes, unknown = known_nodes(loaded, "played")
    scenario = _scenario(loaded, nodes, played, days, seed)
    make_page = None if report is None else _page_maker(report)
    changes = {"add": add or [], "remove": remove or []}
    changed = _changed(scenario, **changes) if add or remove else None
    scenarios = _at_speed([scenario] if changed is None else [scenario, changed])
    notes = [*unknown, *_speeds(scenarios)]
    lives = _lives(trace, lifetime_scale)
    runs = [
        (title, play(_with_troubles(each, faults, lives, training_load)))
        for title, each in zip((AS_IT_IS, CHANGED), scenarios, strict=False)
    ]
    comparison = [] if changed is None else list(_comparison(runs[0][1], runs[1][1]))
    if report is not None and make_page is not None:
        _write_report(report, make_page, runs, comparison)
    if as_json:
        about = {"not_played": not_played, "notes": notes}
        say_json({title: {**_document(measured), **about} for title, measured in runs})
        return
    say(_lines(runs[0][1], faults))
    say(_left_out(not_played))
    if not any(runs[0][1].kinds.values()):
        say(_why_nothing(scenario, not_played))
    say(_remarks(notes, comparison, report))


def _remarks(notes: Sequence[str], comparison: Sequence[Sequence[str]], report: Path | None) -> Iterator[str]:
    """What all of that is based on, what another fleet would make of it, and where the pictures are."""
    for note in notes:
        yield from paragraph(f"note: {note}", rest="  ")
    if comparison:
        yield from ("", *table(COMPARISON_COLUMNS, comparison), ONE_SEED)
    if report is not None:
        yield from ("", f"pictures: {report}")


def _scenario(loaded: Loaded, nodes: Sequence[NodeSpec], jobs: Sequence[JobSpec], days: float, seed: int) -> Scenario:
    from hostler.settings import config_specs, rules
    from hostler.sim.fleet import Scenario

    return Scenario(
        name=loaded.fleet.name,
        nodes=tuple(nodes),
        configs=config_specs(loaded, until_idle=False),
        rules=rules(loaded),
        jobs=tuple((0.0, spec) for spec in jobs),
        days=days,
        seed=seed,
    )


def _sorted_out(loaded: Loaded) -> tuple[list[JobSpec], dict[str, int]]:
    """The jobs of the file that are played, and how many are not: nobody says how long they last."""
    from hostler.settings import specs
    from hostler.sim.fleet import virtual

    played: list[JobSpec] = []
    left: Counter[str] = Counter()
    gone: set[str | None] = set()
    for spec in specs(loaded):
        made = virtual(spec)
        if made is not None and gone.isdisjoint(spec.after):
            played.append(made)
            continue
        gone |= {spec.key, spec.name}
        kind = str(spec.payload.kind)
        left[f"{kind} after these" if made is not None else kind + NOT_TOLD.get(kind, "")] += 1
    return played, dict(left)


def _left_out(left: Mapping[str, int]) -> Iterator[str]:
    """`not played: 2 sweeps, 6 scripts without expected_s`."""
    parts = []
    for what, count in left.items():
        kind, space, why = what.partition(" ")
        parts.append(f"{count} {kind}{'' if count == 1 else 's'}{space}{why}")
    if parts:
        yield from paragraph(f"not played: {', '.join(parts)}")


def _is_cpu_only(scenario: Scenario) -> bool:
    from hostler.sim.nature import is_gpu

    return not any(is_gpu(device) for node in scenario.nodes for device in node.devices)


def _at_speed(scenarios: Sequence[Scenario]) -> Sequence[Scenario]:
    """Where none has a GPU, stages take what was measured on a core; a GPU has not been measured beside one."""
    from hostler.sim.nature import CORE_START_S, Habits

    if not all(map(_is_cpu_only, scenarios)):
        return scenarios
    return [replace(each, cores=True, habits=Habits(start_s=CORE_START_S)) for each in scenarios]


def _speeds(scenarios: Sequence[Scenario]) -> Iterator[str]:
    """What the speed of stages is based on, if there are any."""
    from hostler.policy.power import CPU_POWER
    from hostler.sim.nature import CORE_SECONDS_PER_GAME, REFERENCE_POWER, SECONDS_PER_GAME, USUAL_SIMULATIONS, is_gpu

    if not scenarios[0].configs:
        return
    if scenarios[0].cores:
        yield (
            f"CPU slots play as fast as one core on which that was measured, {CORE_SECONDS_PER_GAME:g} s a game of "
            f"hex8 with {USUAL_SIMULATIONS} simulations; yours may be faster or slower"
        )
        return
    slots = any(not is_gpu(device) for each in scenarios for node in each.nodes for device in node.devices)
    guess = f", CPU slots for 1/{REFERENCE_POWER / CPU_POWER:.0f} of it, which is a guess" if slots else ""
    yield (
        f"an A100 is taken to play a game of hex8 in {SECONDS_PER_GAME:g} s, other GPUs by the ranking table{guess}: "
        "compare fleets by this, and expect no such games/h"
    )


def _why_nothing(scenario: Scenario, left: Mapping[str, int]) -> Iterator[str]:
    """Nothing ran: there is nothing to do, or something keeps the work waiting."""
    from hostler.sim.preview import Asked, preview

    jobs = tuple(spec for _, spec in scenario.jobs)
    if not (jobs or scenario.configs):
        nothing = "nothing is asked for: the file has no configs, no sweeps and no jobs"
        yield "nothing was played: nobody says how long any of the work lasts" if left else nothing
        return
    yield "nothing could be placed"
    yield from waiting_lines(
        preview(Asked(nodes=scenario.nodes, rules=scenario.rules, configs=scenario.configs, jobs=jobs), 0.0)
    )


def _changed(scenario: Scenario, add: Sequence[str], remove: Sequence[str]) -> Scenario:
    names = {node.name for node in scenario.nodes}
    for name in remove:
        if name not in names:
            raise UsageError(f"there is no node {name!r} to remove (there are: {', '.join(sorted(names))})")
    kept = tuple(node for node in scenario.nodes if node.name not in remove)
    more = tuple(_added(text, f"added-{number}", scenario.nodes) for number, text in enumerate(add, 1))
    if not kept + more:
        raise UsageError("no node is left; remove fewer")
    return replace(scenario, nodes=(*kept, *more))


def _added(text: str, name: str, nodes: Sequence[NodeSpec]) -> NodeSpec:
    """The node that `2x RTX 4090@vast:0.45` describes; as ephemeral as its provider's others."""
    from hostler.sim.fleet import added

    match = _ADDED.fullmatch(text)
    model = "" if match is None else _VRAM.sub("", match["model"], count=1).strip(" -_")
    # A model without a name; or with a second size, or one that is no plain number.
    if match is None or not model or _GB.search(model):
        raise UsageError(f"--add {_cut(text)}: describes no node; {HOW_TO_ADD}")
    provider, vram_gb = match["provider"], _vram_gb(match["model"], nodes)
    price = None if match["price"] is None else float(match["price"])
    count = _count(text, match["count"] or "1", model, vram_gb, provider, price)
    siblings = [node for node in nodes if node.provider == provider]
    return replace(
        added(name, model, count, vram_gb, provider, price),
        ephemeral=any(node.ephemeral for node in siblings),
        lifetime_s=next((node.lifetime_s for node in siblings if node.lifetime_s is not None), None),
    )


def _count(text: str, count: str, model: str, vram_gb: float, provider: str, price: float | None) -> int:
    """How many GPUs are added. Raises `UsageError` where the node is not what one of a fleet file may be."""
    from pydantic import ValidationError

    from hostler.model.codec import explain
    from hostler.settings.nodes import Gpus, Node

    try:
        gpus = Gpus.model_validate({"model": model, "count": _whole(count), "vram_gb": vram_gb})
        node_price = None if price is None else price * gpus.count
        Node(name="added", backend="virtual", gpus="none", cpu_slots=0, provider=provider, price_per_h=node_price)
    except ValidationError as error:
        raise UsageError(f"--add {_cut(text)}: {explain(error)}; {HOW_TO_ADD}") from error
    return gpus.count


def _whole(text: str) -> int | str:
    """The number, or the text that is none, or has too many digits: the settings say what is wrong with it."""
    try:
        return int(text)
    except ValueError:
        return text


def _cut(text: str) -> str:
    return repr(text if len(text) <= LONGEST_SHOWN else text[: LONGEST_SHOWN - 1] + "…")


def _vram_gb(model: str, nodes: Sequence[NodeSpec]) -> float:
    from hostler.sim.fleet import usual_vram_gb

    written = _VRAM.search(model)
    if written is not None:
        return float(written[1])
    known = [device.vram_gb for node in nodes for device in node.devices if device.model == model.strip()]
    found = next((size for size in known if size is not None), None) or usual_vram_gb(model)
    if found is None:
        raise UsageError(f'the memory of a {model.strip()} is not known; write it behind the model: "{model} 24GB@…"')
    return found


def _with_troubles(scenario: Scenario, faults: str, lives: Lives, load: float) -> Scenario:
    from hostler.sim.fleet import trainings

    need = {config.name: config.training.stage.resources for config in scenario.configs}
    return replace(
        scenario,
        faults=_faults(faults, scenario),
        lives=None if faults == "none" else lives,
        jobs=(*scenario.jobs, *trainings(scenario, load, need)),
    )


def _faults(name: str, scenario: Scenario) -> Faults:
    from hostler.sim.faults import LEVELS, faults_of, level

    if name in LEVELS:
        return level(name, len(scenario.nodes), scenario.span_s)
    try:
        text = Path(name).read_text("utf-8")
    except OSError as error:
        raise UsageError(
            f"--faults {name}: neither one of {', '.join(LEVELS)} nor a readable file ({error.strerror})"
        ) from error
    except UnicodeDecodeError as error:
        raise UsageError(f"--faults {name}: is no text; write a JSON object") from error
    try:
        return faults_of(text, scenario.span_s)
    except ValueError as error:
        raise UsageError(f"--faults {name}: {error}") from error


def _lives(trace: Path | None, scale: float) -> Lives:
    from hostler.sim.faults import Lives, lives_of

    if trace is None:
        return Lives(scale=scale)
    form = "a trace has lines `milliseconds,add|remove,instance`"
    try:
        return Lives(lives_s=lives_of(trace.read_text("utf-8").splitlines()), scale=scale)
    except OSError as error:
        raise UsageError(f"--trace {trace}: cannot be read ({error.strerror}); {form}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"--trace {trace}: is no text; {form}") from error
    except ValueError as error:
        raise UsageError(f"--trace {trace}: {error}") from error


def _lines(measured: Measures, faults: str) -> Iterator[str]:
    days = measured.span_s / 86_400
    wall = "" if measured.wall_s is None else f", played in {measured.wall_s:.0f} s"
    yield f"{measured.fleet}: {days:g} days, seed {measured.seed}, faults {faults}{wall}"
    yield ""
    yield from table(TIER_COLUMNS, _tier_rows(measured))
    if measured.waits:
        yield ""
        yield from table(WAIT_COLUMNS, _wait_rows(measured))
        if measured.configs:
            yield ""
            yield from table(CONFIG_COLUMNS, _config_rows(measured))
        yield HOURS_ARE
    if measured.quotas:
        yield ""
        yield from table(QUOTA_COLUMNS, _quota_rows(measured))
        yield QUOTA_ERROR_IS
    yield ""
    yield f"cost {_cost_text(measured)}"
    yield f"{measured.preemptions} preemptions, {quantity(round(measured.start_s / HOUR_S))} h of start-ups"
    yield "faults: " + (", ".join(f"{name} {count}" for name, count in sorted(measured.faults.items())) or "none")


def _cost_text(measured: Measures) -> str:
    priced, nodes = measured.priced_nodes, len(measured.nodes)
    partly = "" if priced in (0, nodes) else f" ({priced} of {nodes} nodes priced)"
    cost = UNKNOWN if measured.cost is None else quantity(round(measured.cost, 1))
    return f"{cost}, {_small(measured.cost_per_unit)} per 100 power hours{partly}"


def _tier_rows(measured: Measures) -> Iterator[Sequence[str]]:
    from hostler.model.simulated import busy_share, useful_share

    tier_of = {each.node: name for name, devices in measured.tiers.items() for each in devices if name != "-"}
    for name, devices in measured.tiers.items():
        costs = [node.cost for node in measured.nodes if tier_of.get(node.node, "-") == name]
        error = measured.quota_error.get(int(name)) if name != "-" else None
        yield (
            name,
            str(len(devices)),
            _share(busy_share(devices)),
            _share(useful_share(devices)),
            "-" if not costs else UNKNOWN if None in costs else _small(sum(cost or 0.0 for cost in costs)),
            "-" if error is None else f"{error:.1f}",
        )
    what = "all" if len(measured.counted) == len(measured.devices) else "GPUs"
    yield what, str(len(measured.counted)), _share(measured.busy), _share(measured.useful_share), "", ""


def _wait_rows(measured: Measures) -> Iterator[Sequence[str]]:
    for each in measured.waits:
        yield (
            each.kind,
            quantity(each.count),
            quantity(round(measured.kinds.get(each.kind, 0.0) / HOUR_S)),
            quantity(round(measured.lost_s.get(each.kind, 0.0) / HOUR_S, 1)),
            *(duration(seconds) for seconds in (each.mean_s, each.p50_s, each.p95_s, each.max_s)),
        )


def _config_rows(measured: Measures) -> Iterator[Sequence[str]]:
    for each in measured.configs:
        yield (
            each.config,
            quantity(round(each.device_s / HOUR_S)),
            quantity(each.games),
            quantity(round(each.games * HOUR_S / measured.span_s)),
            quantity(each.trainings),
            quantity(each.promotions),
            duration(each.longest_without_s),
        )


def _quota_rows(measured: Measures) -> Iterator[Sequence[str]]:
    for each in measured.quotas:
        yield each.pattern, str(each.tier), _share(each.target), _share(each.achieved)


def _comparison(before: Measures, after: Measures) -> Iterator[tuple[str, str, str, str]]:
    """What there is of either, and the difference; `?` where one has none."""
    rows, others = dict(_compared(before)), dict(_compared(after))
    for name in [name for name in ROWS if name in rows or name in others]:
        value, other = rows.get(name), others.get(name)
        places = ROWS[name]
        difference = None if value is None or other is None else other - value
        if name == "cost" and _unpriced(before) != _unpriced(after):
            difference = None  # what only one of them has, and nobody knows the price of, is not free
        yield name, _rounded(value, places), _rounded(other, places), _rounded(difference, places, "+")
        if name == "cost per 100 power hours" and _partly_priced(before, after):
            yield NODES_PRICED, _priced(before), _priced(after), ""


def _unpriced(measured: Measures) -> set[str]:
    return {node.node for node in measured.nodes if node.price_per_h is None}


def _partly_priced(*runs: Measures) -> bool:
    return any(map(_unpriced, runs)) and any(each.priced_nodes for each in runs)


def _priced(measured: Measures) -> str:
    return f"{measured.priced_nodes} of {len(measured.nodes)}"


def _compared(measured: Measures) -> Iterator[tuple[str, float | None]]:
    """The numbers that decide; shares in per cent, waits in minutes."""
    yield "GPUs", float(sum(each.gpu for each in measured.devices))
    yield "busy, %", _percent(measured.busy)
    yield "useful, %", _percent(measured.useful_share)
    yield "useful work, power hours", measured.useful
    yield "games/h", measured.games_per_h
    yield "cost", measured.cost
    yield "cost per 100 power hours", measured.cost_per_unit
    yield "quota error, points", max((each for each in measured.quota_error.values() if each is not None), default=None)
    for waits in measured.waits:
        yield f"{waits.kind} waits, mean min", waits.mean_s / 60
        yield f"{waits.kind} waits, 95 % within min", waits.p95_s / 60
    starved = max((config.longest_without_s for config in measured.configs), default=None)
    yield "longest without work, h", None if starved is None else starved / HOUR_S


def _document(measured: Measures) -> dict[str, Any]:
    plain = asdict(replace(measured, spans=()))
    del plain["spans"]
    return {**plain, "totals": measured.totals()}


def _share(value: float | None) -> str:
    return UNKNOWN if value is None else f"{100 * value:.1f}%"


def _percent(value: float | None) -> float | None:
    return None if value is None else 100 * value


def _small(value: float | None) -> str:
    return maybe(None) if value is None else f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _rounded(value: float | None, places: int, sign: str = "") -> str:
    # Adding 0.0 makes of -0.0 what it is.
    return UNKNOWN if value is None else f"{round(value, places) + 0.0:{sign},.{places}f}"


def _page_maker(path: Path) -> Callable[..., str]:
    """What makes the page; before anything is played, it is seen that this can be done, and where."""
    folder = path.parent
    if path.is_dir() or not folder.is_dir():
        why = f"{path} is a folder" if path.is_dir() else f"the folder {folder} is not there"
        raise UsageError(f"--report {path}: cannot be written: {why}; choose another file, or make the folder")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError(f"--report {path}: cannot be written: nothing may be put into {folder}; choose another file")
    with report_extra():
        from hostler.report import make_fleet_page
    return make_fleet_page


def _write_report(
    path: Path,
    make_page: Callable[..., str],
    runs: Sequence[tuple[str, Measures]],
    comparison: Sequence[Sequence[str]],
) -> None:
    titles = [[column.title for column in COMPARISON_COLUMNS], *comparison] if comparison else []
    page = make_page(runs, titles, __version__)
    write_page(path, page, "--report")
