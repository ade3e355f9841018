"""The method as a whole: offered, made, asked for intervals."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hostler.workloads.sieve import spec
from hostler.workloads.sieve.errors import TooManyHits
from hostler.workloads.sieve.methods.base import Finder, Offer
from hostler.workloads.sieve.methods.opencl import OpenCl

from ..opencl.support import Question, device, planted
from ..support import environment

XORSHIFT = planted("xorshift32", [{"kind": "exact"}], 123_456_789, 6)


@pytest.fixture
def method(tmp_path: Path) -> OpenCl:
    choice = "gpu" if device().is_gpu else "cpu"
    return OpenCl(choice, environ={**os.environ, "HOSTLER_SIEVE_CACHE": str(tmp_path)})


def finder(method: OpenCl, question: Question) -> Finder:
    offer = method.offer(spec.parse(question))
    assert isinstance(offer, Offer), offer
    return offer.make()


def test_a_seed_is_found_in_a_large_interval(method: OpenCl) -> None:
    made = finder(method, XORSHIFT)
    assert made.find(120_000_000, 130_000_001) == [123_456_789]
    assert made.find(123_456_789, 123_456_790) == [123_456_789]
    assert made.find(123_456_790, 123_456_890) == []
    assert made.find(5, 5) == []


def test_an_interval_over_a_multiple_of_2_to_the_64(method: OpenCl) -> None:
    seed = (3 << 64) - 1
    question = planted("xorshift128", [{"kind": "exact"}], seed, 6)
    assert finder(method, question).find(seed - 1000, seed + 1000) == [seed]


def test_too_many_candidates_are_an_error(method: OpenCl) -> None:
    question = planted("xorshift32", [{"kind": "mod", "modulus": 2}], 3, 2)
    made = finder(method, question)
    with pytest.raises(TooManyHits, match="give more known draws"):
        made.find(0, 1 << 20)
    assert 3 in made.find(0, 100)


def test_what_was_measured_is_kept_and_offered(method: OpenCl, tmp_path: Path) -> None:
    asked = spec.parse(XORSHIFT)
    first = method.offer(asked)
    assert isinstance(first, Offer)
    first.make()
    (entry,) = json.loads((tmp_path / "opencl-tuning.json").read_text())["tuned"].values()
    again = method.offer(asked)
    assert isinstance(again, Offer)
    assert again.items_per_s < entry["rate"]
    assert again.fixed_s < first.fixed_s
    far = method.offer(spec.parse({**XORSHIFT, "skip": 100_000}))
    assert isinstance(far, Offer)
    assert far.items_per_s < again.items_per_s / 1000
    (tmp_path / "opencl-tuning.json").write_text("{")
    assert again.make().find(123_456_000, 123_457_000) == [123_456_789]


def test_an_offer_says_what_it_does_and_what_may_be_missed(method: OpenCl) -> None:
    offer = method.offer(spec.parse(XORSHIFT))
    assert isinstance(offer, Offer)
    assert "2 of 6 draws" in offer.why
    assert offer.missed == 0.0
    loose = planted("xorshift32", [{"kind": "mod", "modulus": 10}], 5, 50, share=0.4, rate=0.9, miss=0.01)
    given_up = method.offer(spec.parse(loose))
    assert isinstance(given_up, Offer)
    assert 0 < given_up.missed <= 0.01


@pytest.mark.parametrize(
    ("environ", "why"),
    [
        ({"HOSTLER_SIEVE_OPENCL": "off"}, "switched off"),
        ({"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": ""}, "OpenCL"),
    ],
)
def test_without_a_device_it_says_why(environ: dict[str, str], why: str) -> None:
    refusal = OpenCl(environ=environ).offer(spec.parse(XORSHIFT))
    assert isinstance(refusal, str)
    assert why in refusal or "no GPU" in refusal or "pyopencl" in refusal


def test_a_question_that_it_cannot_answer_is_refused_before_a_device_is_looked_for() -> None:
    ends: dict[str, Any] = planted("java-random", [{"kind": "int"}], 5, 3, items="ends")
    assert "ends" in str(OpenCl("off").offer(spec.parse(ends)))


def test_pyopencl_is_imported_only_when_it_is_asked_for() -> None:
    text = "import sys, hostler.workloads.sieve.methods.opencl; print(*{'pyopencl', 'numpy', 'torch'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", text], env=environment(), capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
