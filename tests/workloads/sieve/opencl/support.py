"""What the OpenCL tests share: a device, questions, and programs that are built once."""

import os
from functools import cache
from itertools import islice
from typing import Any

import pytest

from hostler.workloads.sieve import spec
from hostler.workloads.sieve.generators import generator
from hostler.workloads.sieve.opencl.devices import Device, device_for
from hostler.workloads.sieve.opencl.launch import Launcher
from hostler.workloads.sieve.opencl.source import Program, program_for
from hostler.workloads.sieve.opencl.tuning import Setting

SETTING = Setting(8, 3)

Question = dict[str, Any]


@cache
def any_device() -> Device | str:
    """A GPU, or else a CPU whose compiler knows this processor: an older PoCL may not."""
    gpu = device_for("gpu", os.environ)
    found = device_for("cpu", os.environ) if isinstance(gpu, str) else gpu
    if isinstance(found, str) or found.is_gpu:
        return found
    cl = pytest.importorskip("pyopencl")
    try:
        cl.Program(cl.Context([found.handle]), "__kernel void none(void) {}").build()
    except cl.Error as error:
        return f"{found} builds nothing: {error}"
    return found


def device() -> Device:
    """A device; the test is skipped where there is none."""
    found = any_device()
    if isinstance(found, str):
        pytest.skip(f"no OpenCL: {found} (Debian: apt-get install pocl-opencl-icd)")
    return found


def planted(name: str, calls: list[dict[str, Any]], seed: int, count: int, **how: Any) -> Question:
    """Parameters whose draws the oracle makes of a seed, in the first alignment of ``skip`` and ``gap``."""
    made_by = generator(name)
    outputs = [spec.parse_output(made_by, call) for call in calls]
    words = outputs[0].feed(made_by.words(seed))
    made = (output.take(words) for _ in iter(int, 1) for output in outputs)
    skip, gap = (pair[0] if isinstance(pair, tuple) else pair for pair in (how.get("skip", 0), how.get("gap", 0)))
    draws = islice(made, skip * len(calls) + gap, None, gap + 1)
    return {"schema": 2, "generator": name, "calls": calls, "draws": list(islice(draws, count)), **how}


class Search:
    """Searches whose programs are built once for each text: PoCL takes a quarter of a second for one."""

    def __init__(self) -> None:
        self._made: dict[str, Launcher] = {}

    def __call__(self, question: Question, start: int, stop: int) -> list[int]:
        """The candidates among ``[start, stop)``, which lies between multiples of 2^64."""
        asked = spec.parse(question)
        program = program_for(asked)
        assert not isinstance(program, str), program
        launcher = self.launcher(program)
        rows = launcher.rows(program.table, (*asked.skip, *asked.gap))
        return launcher.launch(rows, start, stop - start, SETTING)[1]

    def launcher(self, program: Program) -> Launcher:
        """The program on the device."""
        if program.digest not in self._made:
            self._made[program.digest] = Launcher(device(), program)
        return self._made[program.digest]
