"""What goes wrong in a virtual fleet, and how often."""

from __future__ import annotations

from hostler.model.record import record


@record
class Faults:
    """Times are virtual seconds. `…_every_s` is the mean time between two such faults anywhere; `None` is never."""

    link_cut_every_s: float | None = None
    outage_s: float = 20.0
    """Mean time until a cut link is there again."""
    agent_lost_every_s: float | None = None
    """The node comes back with an empty directory: another agent, which knows nothing."""
    agent_restart_every_s: float | None = None
    reboot_every_s: float | None = None
    worker_killed_every_s: float | None = None
    process_killed_every_s: float | None = None
    """An attempt ends by signal 9; what it had left by then is told."""
    controller_crash_every_s: float | None = None
    clock_jump_every_s: float | None = None
    clock_jump_s: float = 7200.0
    """The controller's clock is set by at most this much, forwards or backwards."""
    crash_at_commit: float = 0.0
    """Share of the controller's steps in which it dies: before its journal is written, or after and before it acts."""
    told_again: float = 0.0
    """Share of facts that are told a second time, up to `late_s` later."""
    late_s: float = 60.0
    wrong_digest: float = 0.0
    """Share of chunks searched with other parameters."""
    bad_devices: frozenset[str] = frozenset()
    """Devices on which no worker ever starts."""
    until_s: float = 300.0
    """Nothing goes wrong after that, so that every run can end."""


def all_kinds(scale: float = 1.0, until_s: float = 300.0) -> Faults:
    """Every fault at once; `scale` is how rare they are."""
    return Faults(
        link_cut_every_s=40 * scale,
        agent_lost_every_s=120 * scale,
        agent_restart_every_s=80 * scale,
        reboot_every_s=200 * scale,
        worker_killed_every_s=30 * scale,
        controller_crash_every_s=60 * scale,
        clock_jump_every_s=60 * scale,
        crash_at_commit=0.01 / scale,
        told_again=0.1 / scale,
        wrong_digest=0.03 / scale,
        until_s=until_s,
    )
