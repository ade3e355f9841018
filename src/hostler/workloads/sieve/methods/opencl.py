"""The method ``opencl``: brute force on a GPU, one seed per work item at a time.

It applies where OpenCL shows a GPU that this process may use, or, when asked for, a CPU: ``HOSTLER_SIEVE_OPENCL`` in
the environment, or the constructor's ``choice``. pyopencl is imported when it is asked, not before. Torch and OpenCL
are not to live in one process: nothing here imports torch.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from hostler.workloads.sieve.methods.base import Finder, Offer
from hostler.workloads.sieve.opencl.devices import Device, device_for
from hostler.workloads.sieve.opencl.source import Program, program_for
from hostler.workloads.sieve.opencl.tuning import Kept, Tuned, folder, settings, tuned
from hostler.workloads.sieve.spec import Spec

if TYPE_CHECKING:
    from hostler.workloads.sieve.opencl.launch import Launcher, Rows

Clock = Callable[[], float]

BUILD_S, CHECK_S = 1.0, 2.0
"""CPU-seconds that a program takes to be built, and to be tested and measured, roughly."""

TYPICAL = 0.25
"""What part of a device's rate a search reaches, roughly, before it was measured."""


class OpenCl:
    """Brute force by OpenCL on one device."""

    name: ClassVar[str] = "opencl"

    def __init__(
        self,
        choice: str | None = None,
        *,
        environ: Mapping[str, str] = os.environ,
        clock: Clock = time.perf_counter,
    ) -> None:
        self._choice, self._environ, self._clock = choice, environ, clock

    def offer(self, spec: Spec) -> Offer | str:
        """What the device offers; its speed is what was measured on it before, or else a guess by its data sheet."""
        program = program_for(spec)
        if isinstance(program, str):
            return program
        device = device_for(self._choice, self._environ)
        if isinstance(device, str):
            return device
        known = self._kept.get(_key(device, program))
        speed = (known.rate if known else TYPICAL * device.rate) / program.operations
        return Offer(
            f"a seed per work item on {device.name}, {program.table.draws} of {len(spec.draws)} draws compared there",
            BUILD_S + (0 if known else CHECK_S),
            speed,
            partial(self._make, spec, program, device),
            program.table.missed,
        )

    @property
    def _kept(self) -> Kept:
        return Kept(folder(self._environ))

    def _make(self, spec: Spec, program: Program, device: Device) -> Finder:
        """A finder whose device has shown that it computes what the oracle does."""
        from hostler.workloads.sieve.opencl import selftest
        from hostler.workloads.sieve.opencl.launch import Launcher, Sweep

        launcher = Launcher(device, program, self._clock)
        selftest.check(device, launcher, program.table, spec, self._clock)
        rows = launcher.rows(program.table, (*spec.skip, *spec.gap))
        best = self._kept.get(_key(device, program)) or self._measured(device, program, launcher, rows)
        return Sweep(launcher, rows, best.setting, best.rate / program.operations, self._clock)

    def _measured(self, device: Device, program: Program, launcher: Launcher, rows: Rows) -> Tuned:
        candidates = settings(device.is_gpu, launcher.most_local)
        timed = partial(launcher.timed, rows, 0)
        best = tuned(candidates, timed, program.operations)
        self._kept.put(_key(device, program), best)
        return best


def _key(device: Device, program: Program) -> str:
    return f"{device.name} / {device.driver} / {program.digest[:16]}"
