"""Devices that others use: when one counts as used, what is placed there then, and when its use is read again."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from hostler.core.care.state import Heard, HeardDevice
from hostler.core.index import Index
from hostler.core.state import Device, ForeignUse, State
from hostler.model import events
from hostler.model.errors import IllegalTransition
from hostler.model.events import Event, job_of
from hostler.model.fleet import Link, NodeSpec
from hostler.model.telemetry import DeviceTelemetry
from hostler.model.units import duration
from hostler.model.views import BanView, ForeignUseView
from hostler.model.work import DeviceKind, Resources, WorkKind
from hostler.policy import fit
from hostler.policy.fit import Gate, Refusal
from hostler.policy.foreign_use import CLEAR_S, FRESH_S, SURE_S, Use, use_of

Emit: TypeAlias = Callable[[Event], None]
Fold: TypeAlias = Callable[[State, Index, Any], None]

KINDS = frozenset({DeviceKind.CUDA, DeviceKind.ROCM})
"""Devices whose memory and processes can be read."""
LEFT_S = 5.0
"""How long after its end the memory of work of ours may still be seen."""
ASK_AGAIN_S = 5.0
GAP_S = 30.0
"""Between two links of a node: what was seen clear before counts on after so short a one."""
YIELDED_MOST = 3
"""How often work of one job makes way for others, or for other work, at most."""


def gate(state: State, index: Index, device: Device, need: Resources) -> Refusal | None:
    """Why a device that others use is not given work; `None` where none do, or it may be placed beside them."""
    if device.spec.id not in state.foreign_use or not is_watched(state.nodes[device.spec.node].spec, device):
        return None
    use = view(state, index, device.spec.id)
    return None if use is None else _refusal(state, index, device, need, use)


def unread(state: State, index: Index, device: Device) -> Refusal | None:
    """Why the use of a device by others must be read before it is given work; `None` where it is known.

    While it has work of ours, others are seen beside that, and it is known well enough.
    """
    heard_of = index.telemetry.get(device.spec.node)
    if device.attempts or device.chunks or heard_of is None or not heard_of.reads_devices:
        return None
    if not is_watched(state.nodes[device.spec.node].spec, device):
        return None
    known = heard_of.devices.get(device.spec.id)
    if known is None or known.read_at is None:
        why = f"the use of {device.spec.id} by others has not been read yet; `foreign_use: ignore` does without"
        return Refusal(gate=Gate.READING, why=why)
    if known.suspected_at is not None and known.use is not None:
        why = f"{device.spec.id} seems to be used by others: {known.use.who}; it is read again"
        return Refusal(gate=Gate.READING, why=why)
    age_s = index.now - known.read_at
    if age_s <= FRESH_S:
        return None
    why = f"the use of {device.spec.id} by others was read {duration(round(age_s))} ago; it is read again"
    return Refusal(gate=Gate.READING, why=why)


def is_watched(node: NodeSpec, device: Device) -> bool:
    """Whether use of the device by others matters: not in a cluster, which gives its devices out itself."""
    return device.spec.kind in KINDS and node.foreign_use != "ignore" and node.pool is None


def heard(
    state: State, index: Index, device: Device, known: HeardDevice, told: DeviceTelemetry | None, emit: Emit
) -> None:
    """Take a reading of a device, or that its node has none; events may follow."""
    node = state.nodes[device.spec.node].spec
    name = device.spec.id
    if not is_watched(node, device):
        if name in state.foreign_use:
            emit(events.DeviceFreed(device=name))
        return
    if told is None:
        return  # what was read before holds until it is too old
    known.read_at = max(known.read_at or -math.inf, index.now - told.age_s)
    if name in index.open:
        index.fresh[name] = None  # what has waited for this reading is decided now
    if told.users is None and told.vram_used_gb is None:
        return  # its driver does not tell, as of a slice of a card: it is taken as it is
    has_just_left = index.left_at.get(name, -math.inf) + LEFT_S > known.read_at
    elsewhere = _placed_elsewhere(state, index, device)
    is_busy = bool(device.attempts or device.chunks)
    use = use_of(told, device.attempts, elsewhere, is_busy=is_busy, has_just_left=has_just_left)
    known.use = use
    known.taken_gb = _taken_gb(told, use)
    if use is None:
        known.suspected_at = known.changed_at = None
        _note_clear(state, index, name, known, emit)
    else:
        known.clear_at = None
        _note_use(state, index, device, known, use, emit)


def due(state: State, index: Index) -> Iterator[str]:
    """Nodes whose devices are to be read now, each once for all its devices that something waits for."""
    wanted, index.unread = index.unread, {}
    for node in wanted:
        known = index.telemetry.get(node)
        if known is None or state.nodes[node].link is not Link.UP:
            continue
        if known.asked_at is None or index.now >= known.asked_at + ASK_AGAIN_S:
            known.asked_at = index.now
            yield node
        # The answer decides; where none comes, the question is asked again.
        for name in index.devices_at.get(node, ()):
            if name in index.open:
                index.look_again(name, known.asked_at + ASK_AGAIN_S)


def linked(index: Index, node: str, reads_devices: bool) -> None:
    """A node answers again: nothing that was read before counts."""
    known = index.telemetry.setdefault(node, Heard())
    known.reads_devices, known.asked_at = reads_devices, None
    for each in known.devices.values():
        if each.read_at is None or each.read_at + GAP_S < index.now:
            each.clear_at = None
        each.read_at = each.suspected_at = None


def view(state: State, index: Index, device: str) -> ForeignUseView | None:
    """The use of a device by others, to be shown, as it was read last."""
    use = state.foreign_use.get(device)
    if use is None or device not in index.places:
        return None
    known = _known(index, state.devices[device])
    if known is None or (known.use is None and known.clear_at is None):
        return ForeignUseView(kind=use.kind, since=use.since, who=use.who, vram_gb=use.vram_gb)
    if known.use is None:
        who = f"{use.who}, not seen for {duration(index.now - (known.clear_at or index.now))}"
        return ForeignUseView(kind=use.kind, since=use.since, who=who, vram_gb=0.0)
    return ForeignUseView(kind=use.kind, since=use.since, who=known.use.who, vram_gb=known.use.vram_gb)


def words(use: ForeignUseView) -> str:
    """Who uses a device, and how much of it."""
    memory = "" if not use.vram_gb else f", {use.vram_gb:.1f} GB"
    return f"{use.who}{memory}"


def bans(state: State, index: Index) -> Iterator[BanView]:
    """All devices that are given nothing, as others use them."""
    for device in state.foreign_use:
        shown = view(state, index, device)
        if shown is None:
            continue
        ends = "end the process" if shown.kind == "leftover" else "it ends when they have left"
        yield BanView(
            kind="foreign use",
            what=device,
            of=None,
            owner="others" if shown.kind == "others" else "leftover",
            why=f"{words(shown)}; {ends}",
            since=shown.since,
            until=None,
        )


def _refusal(state: State, index: Index, device: Device, need: Resources, use: ForeignUseView) -> Refusal | None:
    node, name = state.nodes[device.spec.node].spec, device.spec.id
    since = duration(max(round(index.now - use.since), 1))
    if use.kind == "leftover":
        why = f"{name} is used by what should have ended, for {since}: {words(use)}"
        return Refusal(gate=Gate.FOREIGN, why=why)
    if node.foreign_use == "wait":
        return Refusal(gate=Gate.FOREIGN, why=f"{name} has been used by others for {since}: {words(use)}")
    known = _known(index, device)
    total, taken = device.spec.vram_gb, use.vram_gb if known is None else known.taken_gb
    if need.vram_gb <= 0 or total is None or taken is None:
        lacking = "the job states no vram_gb" if need.vram_gb <= 0 else "its free memory is unknown"
        return Refusal(gate=Gate.FOREIGN, why=f"{name} is shared with others, and {lacking}: {words(use)}")
    free = (1 - fit.HEADROOM) * total - taken - index.uses[name].vram_gb
    if need.vram_gb > free:
        why = (
            f"{name} has {max(free, 0.0):.1f} GB beside others and what is placed there, the job needs "
            f"{need.vram_gb:g} GB: {words(use)}"
        )
        return Refusal(gate=Gate.FOREIGN, why=why)
    return None


def _known(index: Index, device: Device) -> HeardDevice | None:
    heard_of = index.telemetry.get(device.spec.node)
    return None if heard_of is None else heard_of.devices.get(device.spec.id)


def _placed_elsewhere(state: State, index: Index, device: Device) -> frozenset[str]:
    """Attempts on the other devices of the node."""
    others = (state.devices[name] for name in index.devices_at.get(device.spec.node, ()) if name != device.spec.id)
    return frozenset(attempt for other in others for attempt in other.attempts)


def _taken_gb(told: DeviceTelemetry, use: Use | None) -> float | None:
    """Memory that is not that of our own processes."""
    if told.vram_used_gb is None:
        return None if use is None else use.vram_gb
    ours = [each.vram_gb for each in told.users or () if each.ours]
    return None if None in ours else told.vram_used_gb - sum(each for each in ours if each is not None)


def _note_use(state: State, index: Index, device: Device, known: HeardDevice, use: Use, emit: Emit) -> None:
    name, before = device.spec.id, state.foreign_use.get(device.spec.id)
    if before is not None:
        known.suspected_at = None
        if before.kind == use.kind:
            known.changed_at = None
            return
        known.changed_at = index.now if known.changed_at is None else known.changed_at
        if index.now < known.changed_at + CLEAR_S:
            return
    elif known.suspected_at is None:
        known.suspected_at = index.now
    if before is None and not use.sure and index.now < (known.suspected_at or index.now) + SURE_S:
        index.look_again(name, index.now + ASK_AGAIN_S)
        return
    known.suspected_at = known.changed_at = None
    emit(events.DeviceInUse(device=name, use=use.kind, who=use.who, vram_gb=use.vram_gb))
    if use.kind == "others" and state.nodes[device.spec.node].spec.yield_to_others:
        _yield(state, index, device, use, emit)


def _note_clear(state: State, index: Index, name: str, known: HeardDevice, emit: Emit) -> None:
    if name not in state.foreign_use:
        return
    if known.clear_at is None:
        known.clear_at = index.now
    if index.now >= known.clear_at + CLEAR_S:
        known.clear_at = None
        emit(events.DeviceFreed(device=name))


def _yield(state: State, index: Index, device: Device, use: Use, emit: Emit) -> None:
    """Ask work that loses nothing, or has saved it, to leave a device to others."""
    for attempt in list(device.attempts):
        job = state.jobs[job_of(attempt)]
        is_movable = job.spec.checkpoints or job.spec.work is WorkKind.SELFPLAY
        placed = job.attempt
        # A job whose own processes are taken for others', as of a container it starts, must not be moved for ever.
        if not is_movable or placed is None or job.preempted >= YIELDED_MOST:
            continue
        if placed.yielding is None and placed.ended is None:
            why = f"others use {device.spec.id}: {use.who}"
            emit(events.PreemptRequested(attempt=attempt, by=None, why=why))


def _in_use(state: State, index: Index, event: events.DeviceInUse) -> None:
    if event.device not in state.devices:
        raise IllegalTransition(f"{event.device} is in use by others, and is not a device of the fleet")
    before = state.foreign_use.get(event.device)
    since = state.at if before is None else before.since
    state.foreign_use[event.device] = ForeignUse(kind=event.use, who=event.who, vram_gb=event.vram_gb, since=since)
    if not state.puts_work_on(event.device):
        index.closed(event.device)
    index.new_work = index.room_changed = True


def _freed(state: State, index: Index, event: events.DeviceFreed) -> None:
    del state.foreign_use[event.device]
    index.opened(state, event.device)
    index.new_work = index.room_changed = True


FOLDS: dict[type, Fold] = {events.DeviceInUse: _in_use, events.DeviceFreed: _freed}
