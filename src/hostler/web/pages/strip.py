"""What stands above every page: the fleet in a line."""

from __future__ import annotations

from collections.abc import Mapping

from hostler.model.views import Status
from hostler.model.work import FINAL_STATES, HELD_STATES, JobState
from hostler.web.pages.part import Part


def strip(status: Status) -> Part:
    """Jobs, devices and nodes in numbers."""
    shown = {
        "counts": counts(status.jobs),
        "devices_busy": status.devices_busy,
        "devices": status.devices,
        "nodes_up": status.nodes_up,
        "nodes": status.nodes,
        "troubles": status.troubles,
        "alerts": status.alerts,
        "pressures": [(each.event, each.level) for each in status.pressures],
        "nodes_pressed": status.nodes_pressed,
    }
    return Part("strip", "parts/strip.html", shown, kind="strip")


def counts(jobs: Mapping[JobState, int]) -> Mapping[str, int]:
    """Jobs by what people ask for first."""
    held = sum(jobs.get(state, 0) for state in HELD_STATES)
    return {"waiting": jobs.get(JobState.PENDING, 0), "running": held} | {
        str(state): jobs.get(state, 0) for state in sorted(FINAL_STATES)
    }
