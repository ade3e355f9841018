"""What keeps work from a cluster and from its partitions, or slows it down, each with what to do about it.

One tiny job runs in each partition; nothing of it is left. Whatever is broken there is a finding, not an error here.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from uuid import uuid4

from hostler.backends.slurm import autopsy, tiny
from hostler.backends.slurm.budget import Clock
from hostler.backends.slurm.commands import Ran, Slurm
from hostler.backends.slurm.desk import Desk
from hostler.backends.slurm.errors import NoAccounting, SlurmDown, SlurmRefused
from hostler.backends.slurm.finding import Finding, of_error
from hostler.backends.slurm.limits import associations, limit_findings
from hostler.backends.slurm.opening import CODE, agent_name
from hostler.backends.slurm.parsing import JobRecord, NodeRow, PartitionRecord
from hostler.backends.slurm.submission import BATCH, refusal_of, submissions
from hostler.backends.slurm.supply import missing_type
from hostler.backends.slurm.terms import Terms
from hostler.backends.slurm.visiting import Tried, Visit
from hostler.model.errors import FilesError, LinkError
from hostler.model.fleet import NodeSpec
from hostler.model.record import record
from hostler.model.work import WorkKind

OLDEST = (20, 11)
"""Older versions lack options of squeue and sinfo that are used. Tried was 22.05."""
NEEDED = ("sbatch", "squeue", "scancel", "sinfo", "scontrol")
USEFUL = ("sacct",)
COMMAND_S = 30.0
SEEN_WITHIN_S = 15.0
"""Over NFS it takes some seconds until one machine sees what another one has written."""
LOOK_S = 0.5
PROBE = "probe"
"""The folder of the files that are written on one side and read on the other."""
LISTED_MAX = 4


@record
class Part:
    """A partition, as the fleet file has it."""

    node: str
    terms: Terms
    kinds: tuple[WorkKind, ...]
    python: str
    env: Mapping[str, str]


@record
class Login:
    """Where Slurm's commands are run."""

    name: str
    python: str
    """What runs the desk there."""
    connected_s: float
    is_here: bool


async def examine(visit: Visit, login: Login, parts: Sequence[Part], wait_s: float) -> list[Finding]:
    """Everything there is to say of a cluster, then of each of its partitions, in their order."""
    found = [each async for each in _cluster(visit, login, parts)]
    if any(each.what == "slurmctld" and each.health == "error" for each in found):
        return found
    try:
        hosts = (await visit.cluster.slurm.nodes()).rows
        partitions = (await visit.cluster.slurm.partitions()).rows
    except LinkError as error:
        return [*found, of_error(login.name, "slurmctld", error)]
    each_part = [_guarded(visit, part, hosts, partitions, wait_s) for part in parts]
    return [*found, *(finding for told in await asyncio.gather(*each_part) for finding in told)]


async def unheard(visit: Visit, node: str, tried: Tried, wait_s: float) -> Finding:
    """Why a tiny job has not told what it should. Raises `LinkLost`."""
    if tried.end is not None and tried.job is None:
        says, fix = refusal_of(str(tried.end.error or "it could not be submitted"))
        return Finding(node, "job", "error", says, fix)
    if tried.began_at is not None:
        return autopsy.cut_short(node, tried)
    job = tried.record if tried.late is not None else await _record(visit, tried)
    if tried.late is not None and (job is None or not job.state.over):
        return autopsy.waits(node, tried, wait_s)
    return autopsy.failed(node, tried, job, await _said(visit, tried), visit.root)


async def _cluster(visit: Visit, login: Login, parts: Sequence[Part]) -> AsyncIterator[Finding]:
    desk, slurm, name = visit.desk, visit.cluster.slurm, login.name
    told = desk.hello
    yield Finding(name, "login", "ok", f"{told['user']} on {told['host']} within {login.connected_s:.1f} s")
    try:
        yield await _python(desk, login)
        if not login.is_here:
            yield autopsy.clock(name, str(told["host"]), _skew_s(float(told["now"]), login.connected_s))
        async for finding in _folder(visit, name):
            yield finding
        commands = [each async for each in _commands(desk, name)]
        for finding in commands:
            yield finding
        if all(each.health != "error" for each in commands):
            async for finding in _slurm(desk, slurm, login, visit.cluster.clock, parts):
                yield finding
        else:
            yield Finding(name, "slurmctld", "error", "cannot be asked without them", "see above")
    except LinkError as error:
        yield of_error(name, "slurmctld", error)


def _skew_s(there: float, within_s: float) -> float:
    """How far a clock is off that was read at some time within the last so many seconds."""
    now = time.time()
    return min(there - (now - within_s), 0.0) or max(there - now, 0.0)


async def _python(desk: Desk, login: Login) -> Finding:
    ran = await desk.run([login.python, "-c", "import platform; print(platform.python_version())"], timeout_s=COMMAND_S)
    return Finding(login.name, "python", "ok", f"{ran.out.strip() or '?'} ({login.python})")


async def _folder(visit: Visit, name: str) -> AsyncIterator[Finding]:
    text = uuid4().hex
    try:
        await visit.desk.probe(f"{PROBE}/login", text)
        read = await visit.desk.probe(f"{PROBE}/login")
    except FilesError as error:
        fix = "name a folder in `slurm.shared_root` that you may write to"
        yield Finding(name, "folder", "error", f"{visit.root}: {error}", fix)
        return
    if read == text:
        yield Finding(name, "folder", "ok", f"{visit.root} can be written")
    else:
        fix = "look at the shared file system there: what is written must be read again"
        yield Finding(name, "folder", "error", f"what was written to {visit.root} reads otherwise", fix)


async def _commands(desk: Desk, name: str) -> AsyncIterator[Finding]:
    asked = [*NEEDED, *USEFUL]
    ran = await asyncio.gather(*(desk.run([each, "--version"], timeout_s=COMMAND_S) for each in asked))
    missing = [each for each, told in zip(asked, ran, strict=True) if _is_missing(told)]
    if set(missing) & set(NEEDED):
        fix = "name the login node in `host`, or have Slurm's folder on PATH of a shell that nobody types into"
        yield Finding(name, "commands", "error", f"there is no {', '.join(missing)}", fix)
    elif "sacct" in missing:
        fix = "install it where there is accounting; without it little is known of jobs that ended long ago"
        yield Finding(name, "commands", "note", "there is no sacct", fix)
    if not missing:
        yield Finding(name, "commands", "ok", ", ".join(asked))


def _is_missing(ran: Ran) -> bool:
    return ran.status is None or ran.status in autopsy.NOT_FOUND


async def _slurm(desk: Desk, slurm: Slurm, login: Login, clock: Clock, parts: Sequence[Part]) -> AsyncIterator[Finding]:
    name = login.name
    yield _version(name, await slurm.version())
    try:
        yield Finding(name, "slurmctld", "ok", (await slurm.ping()).splitlines()[0])
    except (SlurmDown, SlurmRefused) as error:
        says = str(error).removesuffix("; it is tried again")
        fix = (
            "have it started (`systemctl status slurmctld` on its host), then run this again: nothing else can be told"
        )
        yield Finding(name, "slurmctld", "error", says, fix)
        return
    yield await _accounting(name, slurm, clock)
    config, assoc = await slurm.config(), await associations(desk)
    for finding in limit_findings(name, config, assoc, [(part.node, part.terms) for part in parts]):
        yield finding


def _version(name: str, version: tuple[int, ...] | None) -> Finding:
    oldest = f"{OLDEST[0]}.{OLDEST[1]:02d}"
    if version is None:
        fix = f"see that `sinfo --version` tells {oldest} or newer"
        return Finding(name, "slurm", "warning", "its version is not understood", fix)
    told = ".".join([f"{version[0]}.{version[1]:02d}", *map(str, version[2:])])
    if version[:2] < OLDEST:
        fix = f"{oldest} is the oldest that has all options used here"
        return Finding(name, "slurm", "error", f"version {told}", fix)
    return Finding(name, "slurm", "ok", f"version {told} (oldest supported: {oldest})")


async def _accounting(name: str, slurm: Slurm, clock: Clock) -> Finding:
    try:
        await slurm.accounting(["1"], clock.now())
    except NoAccounting as error:
        if error.configured:
            fix = "have slurmdbd started; until then the queue and what jobs leave in the shared folder have to do"
            return Finding(name, "accounting", "warning", str(error), fix)
        says = "there is none: how a job ended is known from what it left, and from slurmctld for a few minutes"
        return Finding(name, "accounting", "note", says, "slurmdbd would tell it for good; Hostler works without")
    except (SlurmDown, SlurmRefused) as error:
        return Finding(name, "accounting", "warning", str(error), "see what `sacct` says there")
    return Finding(name, "accounting", "ok", "sacct answers")


async def _guarded(
    visit: Visit, part: Part, hosts: Sequence[NodeRow], partitions: Sequence[PartitionRecord], wait_s: float
) -> list[Finding]:
    """All of a partition; what breaks off in the middle is a finding, too."""
    found: list[Finding] = []
    try:
        async for finding in _partition(visit, part, hosts, partitions, wait_s):
            found.append(finding)
    except (LinkError, FilesError) as error:
        found.append(of_error(part.node, "partition", error))
    return found


async def _partition(
    visit: Visit, part: Part, hosts: Sequence[NodeRow], partitions: Sequence[PartitionRecord], wait_s: float
) -> AsyncIterator[Finding]:
    name = part.terms.partition
    limits = next((each for each in partitions if each.name == name), None)
    mine = [host for host in hosts if host.partition == name]
    if limits is None or not mine:
        there = ", ".join(sorted(each.name for each in partitions)) or "none"
        says = f"there is no {name!r}" if limits is None else f"{name!r} has no hosts"
        yield Finding(part.node, "partition", "error", says, f"name another one in `partition`; there are: {there}")
        return
    yield _state(part.node, limits)
    yield _hosts(part.node, mine)
    missing = missing_type(mine, part.terms)
    if missing is not None:
        yield Finding(part.node, "slots", "error", missing, "change `slurm.gpu_type`, or leave it out")
        return
    spec = await visit.hosts[part.node].begin()
    for finding in _slots(part, spec, mine):
        yield finding
    if not spec.devices:
        return
    taken = False
    async for finding in _submitted(visit, part, limits, mine, spec):
        taken = taken or finding.health != "error"
        yield finding
    if not taken:
        says = f"none was tried, because sbatch takes none; {autopsy.NOT_LOOKED_AT}"
        yield Finding(part.node, "job", "warning", says, "change what `submission` names, and run this again")
    elif limits.state == "UP" and any(host.usable for host in mine):
        async for finding in _tiny_job(visit, part, spec, wait_s):
            yield finding
    else:
        says = f"none was tried, because it begins none; {autopsy.NOT_LOOKED_AT}"
        yield Finding(part.node, "job", "warning", says, "run this again when it is up")


def _state(node: str, limits: PartitionRecord) -> Finding:
    if limits.state != "UP":
        fix = f"what is asked of it waits until somebody opens it (`scontrol show partition {limits.name}`)"
        return Finding(node, "partition", "error", f"{limits.name} is {limits.state}", fix)
    return Finding(node, "partition", "ok", f"{limits.name} is up")


def _hosts(node: str, mine: Sequence[NodeRow]) -> Finding:
    usable = [host for host in mine if host.usable]
    says = f"{len(usable)} of {len(mine)} can be used"
    if len(usable) == len(mine):
        return Finding(node, "hosts", "ok", says)
    away = [f"{host.node} {host.state}{host.signs} ({host.reason or '?'})" for host in mine if not host.usable]
    more = f" and {len(away) - LISTED_MAX} more" if len(away) > LISTED_MAX else ""
    fix = "`sinfo -R` tells why; `scontrol update nodename=... state=resume` takes one in again"
    listed = f"{says}: {', '.join(away[:LISTED_MAX])}{more}"
    return Finding(node, "hosts", "warning" if usable else "error", listed, fix)


def _slots(part: Part, spec: NodeSpec, mine: Sequence[NodeRow]) -> list[Finding]:
    if not spec.devices:
        most = max((host.cpus or 0 for host in mine), default=0)
        says = f"it has no slot: one takes {part.terms.slot_cpus} cores, and its largest host has {most}"
        fix = "lower `cpus_least` of its kinds of work in `slurm.resources`, or look at `cpu_slots`"
        return [Finding(part.node, "slots", "error", says, fix)]
    counts: dict[str, int] = {}
    for device in spec.devices:
        name = "CPU" if not tiny.is_on_gpus(device) else device.model or "GPU"
        counts[name] = counts.get(name, 0) + 1
    told = [Finding(part.node, "slots", "ok", ", ".join(f"{count} × {name}" for name, count in counts.items()))]
    if any(tiny.is_on_gpus(each) and each.vram_gb is None for each in spec.devices):
        fix = "say it in `slurm.vram_gb`"
        told.append(
            Finding(part.node, "slots", "note", "their video memory is unknown; what asks for some never runs", fix)
        )
    return told


async def _submitted(
    visit: Visit, part: Part, limits: PartitionRecord, mine: Sequence[NodeRow], spec: NodeSpec
) -> AsyncIterator[Finding]:
    root, terms = visit.root, part.terms.within(limits, mine)
    script = terms.script(root, f"{BATCH}-{part.node}", "job", stays=False)
    await visit.desk.prepare(BATCH, {"script.sh": script})
    most = await visit.cluster.array_max()
    for finding in await submissions(part.node, visit.cluster.slurm, terms, part.kinds, spec.devices, root, most):
        yield finding


async def _tiny_job(visit: Visit, part: Part, spec: NodeSpec, wait_s: float) -> AsyncIterator[Finding]:
    host, device = visit.hosts[part.node], spec.devices[0]
    root, back = visit.root, f"{PROBE}/{part.node}"
    expected, token = uuid4().hex, uuid4().hex
    await visit.desk.probe(f"{back}.login", expected)
    words = tiny.Words(
        read=f"{root}/{back}.login", write=f"{root}/{back}.node", token=token, agent=f"{root}/{CODE}/{agent_name()}"
    )
    ask = tiny.small(device, None if spec.pool is None else spec.pool.longest_s)
    order = tiny.order(f"check-{part.node}", device, ask, python=part.python, env=part.env, words=words)
    tried = await host.attempt(order, wait_s)
    told = tiny.told_by(tried.end)
    if told is None:
        yield await unheard(visit, part.node, tried, wait_s)
        return
    on_gpu = tiny.is_on_gpus(device)
    for finding in autopsy.told_findings(part.node, tried, told, part.terms.site, on_gpu=on_gpu):
        yield finding
    came_back = told.unwritten is None and await _comes(visit, f"{back}.node", token)
    yield autopsy.shared(part.node, told, expected, came_back, root)


async def _record(visit: Visit, tried: Tried) -> JobRecord | None:
    if tried.job is None:
        return None
    rows = (await visit.cluster.slurm.jobs([tried.job])).rows
    return next((row for row in rows if row.job == tried.job), None)


async def _said(visit: Visit, tried: Tried) -> str | None:
    """What the batch script has said; `None`: there is no such file."""
    return await visit.desk.probe(f"jobs/{tried.token}/slurm-{tried.job}.out")


async def _comes(visit: Visit, path: str, text: str) -> bool:
    clock = visit.cluster.clock
    until = clock.now() + SEEN_WITHIN_S
    while await visit.desk.probe(path) != text:
        if clock.now() > until:
            return False
        await clock.sleep(LOOK_S)
    return True
