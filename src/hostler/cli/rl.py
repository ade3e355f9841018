"""A training on many machines, before it is begun: what it comes to, and what in it cannot be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from hostler.cli.show import Column, clean, paragraph, table, wrapped
from hostler.model.errors import SpecError

if TYPE_CHECKING:
    from hostler.model.rl import Ordered, OrderedAdvice, Share
    from hostler.policy.feasibility import Contradiction, Feasibility
    from hostler.policy.sampling import Cost
    from hostler.runtime.preflight import Proof
    from hostler.settings import Loaded
    from hostler.workloads.gameboy.advice.settings import Asking

ROW_COLUMNS = (
    Column("WHAT"),
    Column("ASKED", right=True),
    Column("THERE", right=True),
    Column("HOW", yields=True),
)
COST_COLUMNS = (
    Column("A STEP"),
    Column("CPU US", right=True),
    Column("HOW", yields=True),
)
PROOF_COLUMNS = (Column("PROOF"), Column("HEALTH"), Column("SAYS", yields=True))
GB = 1 << 30


def examined(loaded: Loaded, environ: Mapping[str, str]) -> Feasibility | None:
    """What there is to say of the training that a file plans; `None`: its order cannot be read."""
    from hostler.policy.feasibility import examine
    from hostler.settings import rl_plan

    try:
        ordered = ordered_of(loaded, environ)
    except SpecError:
        return None
    return examine(rl_plan(loaded, ordered, _here()))


def contradictions(loaded: Loaded, environ: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """What cannot be in the training that a file plans, and what is doubtful, in words."""
    try:
        ordered_of(loaded, environ)
    except SpecError as error:
        return [f"rl.order: {error}"], []
    found = examined(loaded, environ)
    told = () if found is None else found.findings
    wrong, doubtful = (
        [_told(each) for each in told if (each.level == "doubtful") is is_doubtful] for is_doubtful in (False, True)
    )
    return wrong, doubtful


def ordered_of(loaded: Loaded, environ: Mapping[str, str]) -> Ordered | None:
    """What the order says that a plan names; `None`: it names none. Raises `SpecError` where it cannot be read."""
    from hostler.model.rl import Ordered
    from hostler.settings import order_path
    from hostler.workloads.gameboy import order, strict

    path = order_path(loaded)
    if path is None:
        return None
    try:
        game, run = order.read_sizes(path, environ)
    except strict.SpecError as error:
        raise SpecError(f"{path.name}: {error}") from error
    played = run.game(game)
    return Ordered(
        path=path.name,
        runners=run.workers,
        envs_per_runner=run.envs_per_worker,
        episode_steps=played.episode_steps,
        batch_steps=run.batch_steps,
        fragment_steps=run.fragment_steps,
        stale_updates=run.stale_updates,
        steps=run.steps,
        frame_skip=played.skip,
        sound=played.sound,
        screen=played.screen is not None,
        runner_cpus=1.0 if run.ray is None else run.ray.cpus,
        learner_cpus=float(run.threads),
        on_ray=run.ray is not None,
        ray_address=None if run.ray is None or run.ray.address == "auto" else run.ray.address,
        advice=None if run.advice is None else _advice_of(run.advice),
        one_per_node=run.ray is not None and run.ray.strategy == "STRICT_SPREAD",
    )


def _advice_of(asked: Asking) -> OrderedAdvice:
    from hostler.model.rl import OrderedAdvice

    return OrderedAdvice(
        endpoint=asked.url,
        model=asked.model,
        key_env=asked.key,
        timeout_s=asked.timeout_s,
        calls_per_s=asked.calls_per_s,
    )


def proved(loaded: Loaded, environ: Mapping[str, str]) -> Sequence[Proof]:
    """Whether all is there that the training needs, in the order that exit statuses go by."""
    import asyncio

    from hostler.runtime.preflight.hooks import proved_by_all
    from hostler.settings import rl_plan

    try:
        ordered = ordered_of(loaded, environ)
    except SpecError:
        return []  # it is told already, and without it nobody knows what to look for
    return asyncio.run(proved_by_all(loaded, rl_plan(loaded, ordered, _here()), environ))


def status_of(proofs: Sequence[Proof]) -> int:
    """The exit status that says which of them failed."""
    from hostler.runtime.preflight import status_of

    return status_of(proofs)


def proof_lines(proofs: Sequence[Proof]) -> Iterator[str]:
    """A table of what was proved; below it what to do, and all that had no room."""
    if not proofs:
        return
    title, *lines = table(PROOF_COLUMNS, [(each.check, each.health, each.says) for each in proofs])
    yield from ("", title, *lines)
    for each, line in zip(proofs, lines, strict=True):
        if each.fix:
            cut = "" if clean(each.says) in line else f"{each.says}: "
            yield from paragraph(f"{each.code}: {cut}{each.fix}", rest="  ")


def plan_lines(name: str, found: Feasibility) -> Iterator[str]:
    """The table of a plan, what a step costs and where that was measured, and the arithmetic."""
    yield from wrapped("", f"rl of {clean(name)}")
    yield ""
    yield from table(ROW_COLUMNS, [(each.what, each.asked, each.there, each.how) for each in found.rows])
    yield ""
    yield from table(COST_COLUMNS, [_cost_row(each) for each in found.estimate.costs])
    for source, names in _sources(found.estimate.costs).items():
        yield from paragraph(f"{', '.join(names)}: {source}", first="  of ", rest="    ")
    yield ""
    for line in found.estimate.lines:
        yield from paragraph(line, rest="  ")
    yield ""
    if not found.findings:
        yield from paragraph("nothing in it contradicts itself; what is expected follows from the rates above")


def _cost_row(cost: Cost) -> tuple[str, str, str]:
    from hostler.policy.sampling import span

    return cost.what, span(cost.us.low, cost.us.high), cost.arithmetic


def _sources(costs: Sequence[Cost]) -> dict[str, list[str]]:
    """Where costs were measured, and which ones there."""
    found: dict[str, list[str]] = {}
    for each in costs:
        found.setdefault(each.us.source, []).append(each.what)
    return found


def _told(finding: Contradiction) -> str:
    return f"{finding.code}: {finding.words}; {finding.fix}"


def _here() -> Share:
    """This machine, as far as Hostler may use it."""
    from hostler.agent.probe import cpus, memory_bytes
    from hostler.model.rl import Share

    return Share(cpus=float(cpus()), memory_gb=(memory_bytes() or 0) / GB)
