"""The programs compiled for GPUs that are not here, by the compiler that PoCL brings along."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from hostler.workloads.sieve import spec
from hostler.workloads.sieve.opencl.source import Program, program_for

from ..support import tiers
from .support import planted

RX_6600 = ("amdgcn-amd-amdhsa", "-mcpu=gfx1030")
RTX_3080 = ("nvptx64-nvidia-nvcl", "-march=sm_86")
CLANG = next(filter(None, map(shutil.which, ("clang", "clang-15", "clang-19", "clang-20"))), None)
QUESTIONS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("php-mt_rand", {"kind": "range", "min": 1, "max": 1000}, {}),
    ("python-random", {"kind": "random"}, {"skip": (0, 3)}),
    ("numpy-pcg64", {"kind": "below", "n": 10}, {"gap": (0, 2)}),
    ("go-rand", {"kind": "intn", "n": 10}, {"share": 0.7}),
    ("xorshift32", {"kind": "mod", "modulus": 10}, {"missing": 2}),
]


@pytest.mark.skipif(CLANG is None, reason="no clang here to compile for other devices")
@pytest.mark.parametrize(
    ("name", "call", "how"), tiers(QUESTIONS, {"xorshift32"}), ids=[name for name, _, _ in QUESTIONS]
)
@pytest.mark.parametrize("target", [RX_6600, RTX_3080], ids=["rx6600", "rtx3080"])
def test_every_gpu_s_compiler_takes_the_programs(
    tmp_path: Path, name: str, call: dict[str, Any], how: dict[str, Any], target: tuple[str, str]
) -> None:
    program = program_for(spec.parse(planted(name, [call], 7, 12, **how)))
    assert isinstance(program, Program)
    source = tmp_path / "program.cl"
    source.write_text(program.source)
    builtins = ["-nogpulib", "-Xclang", "-finclude-default-header"]
    command = [str(CLANG), "-x", "cl", "-cl-std=CL1.2", "-O2", "-target", *target, *builtins, "-Wall", "-Werror", "-S"]
    done = subprocess.run(
        [*command, "-Wno-unused-function", "-o", str(tmp_path / "program.s"), str(source)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "search" in (tmp_path / "program.s").read_text()
