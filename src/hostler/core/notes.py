"""Notes at submission: jobs that no device can take as the fleet is now, and why, one note for each reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from hostler.core import away, cordons, dependencies, environments, foreign_use, gates
from hostler.core.index import Index
from hostler.core.slices import SLICE, Slices
from hostler.core.starting import DRAINING
from hostler.core.state import Job, State
from hostler.core.stuck import never_on, runs_in_place, waits_for_gpu
from hostler.core.trust import decide as trust
from hostler.model.errors import SpecError
from hostler.model.events import JobSubmitted
from hostler.model.fleet import Link
from hostler.model.views import SubmitNote
from hostler.model.work import FailureClass, JobSpec, JobState, snapshot_of
from hostler.policy import fit
from hostler.policy.fit import Gate, Refusal

NOTES_MOST = 20
WAYS_MOST = 200
"""Different needs of one submission that are looked at: each may be asked of every device."""
REASONS = 3
WAITS_FOR_UP = True, f"{DRAINING}; it starts after the next `hostler up`"
KINDS = {"gpu": ("a GPU", "CPU slot"), "cpu": ("a CPU slot", "GPU")}


def notes_of(state: State, index: Index, jobs: Iterable[Job]) -> Slices[Sequence[SubmitNote]]:
    """Of these jobs, those that wait and that no device can take now, and those that have failed with what they come
    after; at most `NOTES_MOST` reasons. It pauses."""
    known: dict[object, tuple[bool, str] | None] = {}
    found: dict[tuple[bool, str], list[str]] = {}
    for at, job in enumerate(jobs, 1):
        if at % SLICE == 0:
            yield
        if job.failure is FailureClass.DEPENDENCY and job.why is not None:
            found.setdefault((True, job.why), []).append(job.id)
        if job.state is not JobState.PENDING:
            continue
        way = job.spec.work, job.spec.resources, runs_in_place(job), environments.key_of(job.spec.payload)
        if way not in known and len(known) < WAYS_MOST:
            fault = _fault(state, index, job)
            known[way] = WAITS_FOR_UP if index.draining and (fault is None or fault[0]) else fault
        fault = known.get(way)
        if fault is not None:
            found.setdefault(fault, []).append(job.id)
    return [
        SubmitNote(job=names[0], count=len(names), fits=fits, why=why)
        for (fits, why), names in list(found.items())[:NOTES_MOST]
    ]


def with_earlier_files(state: State, specs: Iterable[JobSpec], ids: Iterable[str]) -> Sequence[str]:
    """Jobs that were known by their keys and keep the files they had first, not those of these specs."""
    known = [
        (name, spec.payload, state.jobs[name].spec.payload)
        for spec, name in zip(specs, ids, strict=True)
        if spec.key is not None and name in state.jobs
    ]
    return [name for name, given, kept in known if snapshot_of(given) != snapshot_of(kept)]


def gpu_by_default(state: State, index: Index, jobs: Iterable[Job]) -> Slices[int]:
    """How many of these jobs take a GPU or wait for one, as they state no device. It pauses."""
    waits: dict[object, bool] = {}
    count = 0
    for at, job in enumerate(jobs, 1):
        if at % SLICE == 0:
            yield
        way = job.spec.work, job.spec.resources, runs_in_place(job)
        if way not in waits:
            waits[way] = waits_for_gpu(state, index, job)
        count += waits[way] and not job.state.final
    return count


def expect_none(state: State, index: Index, fresh: Iterable[JobSubmitted]) -> Slices[None]:
    """Raise `SpecError` if there is a note on a job that is about to be submitted. It pauses."""
    jobs = (
        Job(id=each.job, number=int(each.job[1:]), spec=each.spec, priority=each.spec.priority, submitted_at=state.at)
        for each in fresh
    )
    names = {each.job: each.spec.name for each in fresh}
    for each in fresh:
        gone = dependencies.failed_of(state, each.after)
        if gone:
            why = f"it comes after {', '.join(gone)}, which will not be done"
            raise SpecError(f"job {each.spec.name!r} cannot start: {why}. Nothing was submitted, as strict asks")
    for note in (yield from notes_of(state, index, jobs)):
        more = f" and {note.count - 1} more" if note.count > 1 else ""
        what = "cannot start now" if note.fits else "cannot run on any device"
        raise SpecError(f"job {names[note.job]!r}{more} {what}: {note.why}. Nothing was submitted, as strict asks")


def _fault(state: State, index: Index, job: Job) -> tuple[bool, str] | None:
    """Whether the job fits on a device, and why none can take it now; `None` where one can, if it is not taken."""
    unconnected = away.all_unconnected(state, job.spec.resources)
    if unconnected is not None:
        return True, unconnected
    members = {cls: names for cls, names in index.members.items() if names}
    if not members:
        return False, away.words(away.unconnected(state, job.spec.resources)) or "the fleet has no devices yet"
    unknown = [name for name in job.spec.resources.nodes if name not in state.nodes]
    if unknown:
        has = ", ".join(sorted(state.nodes)[: REASONS * 3])
        return False, f"there is no node {', '.join(unknown[:REASONS])} in the fleet; it has {has}"
    refused = {
        cls: never_on(state, index, job.spec.resources, job.spec.work, cls)
        or gates.gpu_by_default(state, index, job, state.devices[next(iter(names))])
        for cls, names in members.items()
    }
    if all(refused.values()):
        said = [(each, len(members[cls])) for cls, each in refused.items() if each is not None]
        others = away.words(away.unconnected(state, job.spec.resources))
        return False, (_no_such_kind(state, job, said) or _listed(said)) + (f"; {others}" if others else "")
    held: list[tuple[Refusal, int]] = []
    for name in (name for cls, names in members.items() if refused[cls] is None for name in names):
        refusal = _hold(state, index, job, name)
        if refusal is None:
            return None
        held.append((refusal, 1))
    return True, _listed(held)


def _hold(state: State, index: Index, job: Job, name: str) -> Refusal | None:
    """What keeps everything off a device, or this job off its node, until somebody changes it."""
    node = state.nodes[state.devices[name].spec.node]
    if node.link is not Link.UP:
        why = f"{node.spec.name} is out of reach: {node.trouble or 'it does not answer'}"
        return Refusal(gate=Gate.LINK, why=why)
    return (
        fit.node_refusal(job.spec.resources, node.spec.name)
        or gates.in_place(job, node.spec)
        or environments.gate(state, job, node.spec, index.now)
        or cordons.gate(state, name)
        or foreign_use.gate(state, index, state.devices[name], job.spec.resources)
        or trust.gate(state, name, index.now)
    )


def _no_such_kind(state: State, job: Job, said: Sequence[tuple[Refusal, int]]) -> str | None:
    """In plain words: there is no GPU where one is needed, or no CPU slot."""
    known = KINDS.get(job.spec.resources.device or "any")
    if known is None or any(refusal.gate is not Gate.KIND for refusal, _ in said):
        return None
    wanted, other = known
    count = sum(count for _, count in said)
    where = f"node {next(iter(state.nodes))}" if len(state.nodes) == 1 else "the fleet"
    return f"needs {wanted}, and {where} has none ({count} {other}{'' if count == 1 else 's'})"


def _listed(said: Sequence[tuple[Refusal, int]]) -> str:
    """The most frequent reasons, each in the words about one device, with the number of devices it holds for."""
    counts: Counter[Gate] = Counter()
    words: dict[Gate, str] = {}
    for refusal, count in said:
        counts[refusal.gate] += count
        words.setdefault(refusal.gate, refusal.why)
    return "; ".join(
        f"{words[gate]} ({gate}, {count} device{'' if count == 1 else 's'})"
        for gate, count in counts.most_common(REASONS)
    )
