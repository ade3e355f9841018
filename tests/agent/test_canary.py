"""The canary program: the planted seed is found, by Python and by a driver; whatever is wrong with a GPU is told."""

from __future__ import annotations

import json
import operator
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from hostler.agent import gpus
from hostler.agent.canary import KINDS, SCHEME, planted, search, stream
from hostler.agent.protocol import PROTOCOL, VERSION

from .fakegpus import build, needs_compiler
from .harness import PATIENCE_S, SOURCE


@pytest.fixture(scope="module")
def drivers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("drivers"))


def canary(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "hostler.agent", "canary", *words]
    env = {"PYTHONPATH": str(SOURCE), **env}
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=PATIENCE_S, check=False)


def on_gpu(drivers: Path, fault: str = "", kind: str = "cuda", **env: str) -> subprocess.CompletedProcess[str]:
    shown = {"CUDA_VISIBLE_DEVICES": "3", "HIP_VISIBLE_DEVICES": "3", **env}
    return canary("--kind", kind, LD_LIBRARY_PATH=str(drivers), FAULT=fault, **shown)


@given(st.integers(1, 2**32 - 1))
def test_the_stream_is_xorshift32(seed: int) -> None:
    value = seed
    value ^= (value << 13) % 2**32
    value ^= value >> 17
    value ^= (value << 5) % 2**32
    assert stream(seed, 1) == value
    assert stream(value, 3) == stream(seed, 4)
    assert value != 0


def test_a_value_of_the_stream_is_the_published_one() -> None:
    assert stream(2463534242, 1) == 723471715


@given(st.sampled_from(KINDS), st.integers())
def test_what_is_planted_is_in_the_range(kind: str, chance: int) -> None:
    task, answer = planted(kind, random.Random(chance))
    assert task.start <= answer < task.start + task.size < 2**32
    assert stream(answer, task.steps) == task.target


def test_the_seed_is_found_or_none_is() -> None:
    task, answer = planted("cpu", random.Random(1))
    assert search("cpu", task) == answer
    assert search("cpu", task._replace(start=answer + 1)) is None


def test_the_program_tells_what_it_is_and_what_it_found() -> None:
    task, answer = planted("cpu", random.Random(2))
    ran = canary("--kind", "cpu", "--task", ",".join(map(str, task)))
    assert (ran.returncode, ran.stderr) == (0, "")
    assert json.loads(ran.stdout) == {"scheme": SCHEME, "protocol": PROTOCOL, "version": VERSION, "hit": answer}


@pytest.mark.parametrize(
    "task",
    ["1,2,3", *(pytest.param(each, marks=pytest.mark.long) for each in ("a,b,c,d", "1,-2,3,4")), "4294967295,9,1,1"],
)
def test_a_task_that_is_none_is_refused(task: str) -> None:
    assert canary("--task", task).returncode == 2


def test_without_a_driver_it_says_what_to_install() -> None:
    ran = canary("--kind", "cuda", LD_LIBRARY_PATH="/nowhere")
    if ran.returncode == 0:
        pytest.skip("this machine has a real CUDA device, which did well")
    assert ran.returncode == 1


@needs_compiler
@pytest.mark.parametrize("kind", ["cuda", "rocm"])
def test_a_sound_gpu_finds_it(drivers: Path, kind: str) -> None:
    ran = on_gpu(drivers, kind=kind)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert json.loads(ran.stdout)["hit"] > 0


@needs_compiler
@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ("unknown", "cuInit failed with 999 (unknown error)"),
        pytest.param("none", "cuInit failed with 100 (no CUDA-capable device is detected)", marks=pytest.mark.long),
        ("many", "the driver shows 4 devices for CUDA_VISIBLE_DEVICES=3, not one"),
        pytest.param("gone", "the driver shows 0 devices", marks=pytest.mark.long),
        pytest.param("full", "cuMemAlloc_v2 failed with 2;", marks=pytest.mark.long),
        ("memory", "its memory does not give back what was written"),
        ("wrong", "the device computes wrongly"),
        ("idle", "it found None where"),
        ("illegal", "cuCtxSynchronize failed with 700"),
    ],
)
def test_what_is_wrong_with_a_cuda_device_is_told(drivers: Path, fault: str, told: str) -> None:
    ran = on_gpu(drivers, fault)
    assert ran.returncode == 1
    assert told in ran.stderr
    assert ran.stderr.count("\n") == 1


@needs_compiler
@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ("none", "hipInit failed with 100 (no ROCm-capable device is detected)"),
        ("many", "the driver shows 2 devices for HIP_VISIBLE_DEVICES=3, not one"),
        ("memory", "its memory does not give back what was written"),
    ],
)
def test_what_is_wrong_with_a_rocm_device_is_told(drivers: Path, fault: str, told: str) -> None:
    ran = on_gpu(drivers, fault, "rocm")
    assert ran.returncode == 1
    assert told in ran.stderr


@needs_compiler
def test_by_hand_any_device_will_do(drivers: Path) -> None:
    assert canary("--kind", "cuda", LD_LIBRARY_PATH=str(drivers)).returncode == 0


PTXAS = shutil.which("ptxas") or shutil.which("ptxas", path="/usr/local/cuda/bin:/usr/local/cuda-13.0/bin")


@pytest.mark.skipif(PTXAS is None, reason="there is no ptxas here to assemble the kernel")
@pytest.mark.parametrize("card", ["sm_75", "sm_90"])
def test_the_kernel_assembles(tmp_path: Path, card: str) -> None:
    (tmp_path / "canary.ptx").write_bytes(gpus.PTX)
    command = [str(PTXAS), f"-arch={card}", str(tmp_path / "canary.ptx"), "-o", str(tmp_path / "canary.cubin")]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


ARITHMETIC: dict[str, Callable[..., int]] = {
    "mov": lambda a: a,
    "cvta": lambda a: a,
    "mad": lambda a, b, c: a * b + c,
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "shl": lambda a, b: a << b,
    "shr": lambda a, b: a >> b,
    "xor": lambda a, b: a ^ b,
}
COMPARISONS: dict[str, Callable[[int, int], bool]] = {"ge": operator.ge, "eq": operator.eq, "ne": operator.ne}


def as_a_card_would(thread: int, left: int, **parameters: int) -> int:
    """Run one thread of the kernel, instruction by instruction; returns what is `left` in the memory of hits."""
    body = gpus.PTX.decode("ascii").partition("\n{")[2].partition("\n}")[0]
    lines = [line.strip().rstrip(";") for line in body.splitlines() if line.strip() and ".reg" not in line]
    registers: dict[str, int] = {"%ctaid.x": thread // 256, "%ntid.x": 256, "%tid.x": thread % 256}
    at = 0
    while lines[at] != "ret":
        words = lines[at].replace(",", " ").replace("[", "").replace("]", "").split()
        at += 1
        if words[0].startswith("@") and not registers[words.pop(0)[1:]]:
            continue
        if words[0].endswith(":"):
            continue
        name, target, sources = words[0].split("."), words[1], words[2:]
        values = [registers[each] if each.startswith("%") else int(each) for each in sources if each not in parameters]
        if name[0] == "bra":
            at = lines.index(f"{target}:")
        elif name[0] == "ld":
            registers[target] = parameters[sources[0]]
        elif name[0] == "setp":
            registers[target] = COMPARISONS[name[1]](*values)
        elif name[0] == "red":
            left = min(left, *values)
        else:
            registers[target] = ARITHMETIC[name[0]](*values) % 2**32
    return left


def test_the_kernel_does_what_python_does() -> None:
    task, answer = planted("cuda", random.Random(3))
    asked = {"found": 0, "start": task.start, "count": task.size, "steps": task.steps, "target": task.target}
    right = answer - task.start
    assert as_a_card_would(right, 2**32 - 1, **asked) == answer
    assert as_a_card_would(right, answer - 1, **asked) == answer - 1, "the least is kept"
    assert as_a_card_would(right + 1, 2**32 - 1, **asked) == 2**32 - 1
    assert as_a_card_would(right, 2**32 - 1, **{**asked, "count": right}) == 2**32 - 1, "beyond the range"
