"""The scheduler one writes first: after every event, sort the queue; each job takes the first device it fits.

It knows no shares, prices, preemption, sharing of devices or reasons, and its work grows with jobs × devices.
"""

import time
from collections.abc import Iterable, Sequence
from random import Random

from hostler.model.fleet import DeviceSpec, NodeSpec
from hostler.model.work import DeviceKind, JobSpec


class NaiveQueue:
    """Jobs that wait, and devices that are free."""

    def __init__(self, nodes: Iterable[NodeSpec], jobs: Sequence[JobSpec]) -> None:
        self.free = [device for node in nodes for device in node.devices]
        self.waiting = list(jobs)
        self.busy: list[DeviceSpec] = []

    def schedule(self) -> int:
        """Put jobs on free devices; how many were put somewhere."""
        self.waiting.sort(key=lambda job: -job.priority)
        placed: list[int] = []
        for number, job in enumerate(self.waiting):
            if not self.free:
                break
            device = next((each for each in self.free if fits(job, each)), None)
            if device is not None:
                self.free.remove(device)
                self.busy.append(device)
                placed.append(number)
        for number in reversed(placed):
            del self.waiting[number]
        return len(placed)


def fits(job: JobSpec, device: DeviceSpec) -> bool:
    """Whether the device has the memory; several devices at once are beyond it."""
    need = job.resources
    if device.kind is DeviceKind.CPU:
        return need.device == "cpu"
    return (device.vram_gb or 0.0) >= need.vram_gb


def timed(nodes: Sequence[NodeSpec], jobs: Sequence[JobSpec], events: int, random: Random) -> tuple[float, list[float]]:
    """CPU seconds to fill the fleet, and of each event after that: one device comes free."""
    queue = NaiveQueue((node for node in nodes if node.devices[0].kind is not DeviceKind.CPU), jobs)
    began = time.process_time()
    queue.schedule()
    filled_s, times = time.process_time() - began, []
    for _ in range(events):
        queue.free.append(queue.busy.pop(random.randrange(len(queue.busy))))
        began = time.process_time()
        queue.schedule()
        times.append(time.process_time() - began)
    return filled_s, times
