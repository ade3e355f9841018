"""A device that computes wrongly is found out: here by programs that do."""

import time
from dataclasses import replace

import pytest

from hostler.workloads.sieve import spec
from hostler.workloads.sieve.opencl.devices import DeviceFailed
from hostler.workloads.sieve.opencl.launch import Launcher
from hostler.workloads.sieve.opencl.selftest import check
from hostler.workloads.sieve.opencl.source import Program, program_for

from .support import Question, device, planted

QUESTION = planted("java-random", [{"kind": "bound", "bound": 1000}], 42, 8, skip=(0, 2))


def checked(question: Question, change: tuple[str, str] | None = None) -> None:
    """Check the program of a question in whose text a piece may be replaced."""
    asked = spec.parse(question)
    program = program_for(asked)
    assert isinstance(program, Program)
    if change:
        before, after = change
        assert before in program.source
        program = replace(program, source=program.source.replace(before, after))
    check(device(), Launcher(device(), program), program.table, asked, time.perf_counter)


def test_a_device_that_computes_rightly_passes() -> None:
    checked(QUESTION)
    checked(planted("xorshift32", [{"kind": "mod", "modulus": 10}], 42, 8, missing=2))
    checked(planted("xorshift128", [{"kind": "exact"}], 42, 8))
    checked(planted("lcg:5,3,17", [{"kind": "mod", "modulus": 3}], 2, 2))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("#define INCREMENT 11ul", "#define INCREMENT 13ul"),
        ("row[INVERSE], row[TURN]", "row[INVERSE], 0 * row[TURN]"),
        ("i < count; i +=", "i < count / 2; i +="),
        ("atomic_inc((volatile __global uint *)hits)", "hits[0]"),
    ],
)
def test_one_that_does_not_is_named(before: str, after: str) -> None:
    name = device().name
    with pytest.raises(DeviceFailed, match="computes wrongly: with java-random it") as caught:
        checked(QUESTION, change=(before, after))
    assert name in str(caught.value)


def test_a_program_that_cannot_be_built_names_the_device() -> None:
    name = device().name
    with pytest.raises(DeviceFailed, match="cannot build") as caught:
        checked(QUESTION, change=("__kernel void search", "__kernel int search"))
    assert name in str(caught.value)
