"""A node with GPUs that tells how it is, and self-play that may share them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hostler.model import inputs
from hostler.model.events import Event
from hostler.model.rules import USUAL, Targets
from hostler.model.telemetry import DeviceTelemetry
from hostler.model.work import DeviceKind, JobSpec, Resources, WorkKind
from tests.core.builders import Driver, link_up, node, script

GPU = "n/cuda0"
EVERY_S = 15.0
HEALTHY: dict[str, Any] = {
    "load": 0.5,
    "memory_total_gb": 64.0,
    "memory_free_gb": 40.0,
    "disk_total_gb": 1000.0,
    "disk_free_gb": 800.0,
    "backlog_s": 0.0,
}


def told(name: str = "n", at: float = 0.0, busy: float | None = None, **fields: Any) -> inputs.Telemetry:
    """What a healthy node tells, but for these fields; `busy` is the utilisation of its first GPU."""
    devices = {f"{name}/cuda0": DeviceTelemetry(utilization=busy, vram_used_gb=1.0, temperature_c=60.0)}
    return inputs.Telemetry(node=name, at=at, **{**HEALTHY, "devices": devices, **fields})


def work(kind: WorkKind, name: str = "work", **spec: Any) -> JobSpec:
    """A script that counts as this kind of work; self-play may share its GPU."""
    shared = Resources(device="gpu", shared=True, vram_gb=2.0) if kind is WorkKind.SELFPLAY else Resources(device="gpu")
    return script(name, work_as=kind, **{"resources": shared, **spec})


class Ward(Driver):
    """A driver that passes on what a node tells."""

    def hear(self, times: int = 1, every_s: float = EVERY_S, **fields: Any) -> list[Event]:
        """The node tells the same so often; all events of it."""
        seen: list[Event] = []
        for _ in range(times):
            seen += self.tell(told(at=self.now, **fields), after_s=every_s)
        self.events = seen
        return seen

    def wait(self, seconds: float) -> list[Event]:
        """Nothing but time passes, with a tick whenever the core asks for one."""
        seen: list[Event] = []
        until = self.now + seconds
        while (due := self.core.wake_at()) is not None and due <= until:
            seen += self.tell(inputs.Tick(), after_s=max(due - self.now, 0.0))
        self.now = until
        seen += self.tell(inputs.Tick(), after_s=0.0)
        self.events = seen
        return seen

    def start(self, *ids: str) -> None:
        """The processes of these jobs begin, wherever they were put."""
        for number, name in enumerate(ids):
            attempt = self.state.jobs[name].attempt
            assert attempt is not None, f"{name} has no device"
            self.tell(inputs.Started(attempt=attempt.id, pid=100 + number, pid_start=1))

    def set(self, **targets: Any) -> None:
        """The owner changes targets."""
        changed = replace(self.state.rules, targets=replace(self.state.rules.targets, **targets))
        self.tell(inputs.Configure(rules=changed))


def ward(gpus: int = 1) -> Ward:
    """A driver with one linked node `n` of GPUs with 24 GB each; its disk of 1000 GB is not taken for roomy."""
    driver = Ward()
    found = inputs.NodeFound(node=node(devices=gpus, kind=DeviceKind.CUDA, vram_gb=24.0))
    driver.tell(inputs.Begin(version="test", epoch=1), found, link_up())
    driver.tell(inputs.Configure(rules=replace(USUAL, targets=Targets(disk_free_gb=5.0, disk_roomy_gb=50_000.0))))
    return driver
