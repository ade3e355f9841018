"""Whether sbatch takes what work asks for, and which setting keeps it from that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import cast

import pytest

from hostler.backends.slurm.answers import refused
from hostler.backends.slurm.commands import Slurm
from hostler.backends.slurm.options import Options
from hostler.backends.slurm.submission import refusal_of, submissions
from hostler.model.fleet import DeviceSpec
from hostler.model.pools import Mode
from hostler.model.work import DeviceKind, WorkKind
from tests.backends.slurm.test_limits import terms

KINDS = (WorkKind.TRAINING, WorkKind.EVALUATION)
UNAVAILABLE = "allocation failure: Requested node configuration is not available"


def gpu(at: int, model: str = "h100") -> DeviceSpec:
    return DeviceSpec(id=f"p/cuda{at}", node="p", kind=DeviceKind.CUDA, index=at, model=model)


class Site:
    """A cluster that refuses some options."""

    def __init__(self, refuses: Callable[[Options], str | None]) -> None:
        self.refuses = refuses
        self.asked: list[Options] = []

    async def would_take(self, options: Options, script: str) -> None:
        self.asked.append(options)
        said = self.refuses(options)
        if said is not None:
            raise refused("sbatch", 1, said)


async def found(site: Site, *devices: DeviceSpec, mode: Mode = "array", **place: object) -> list[tuple[str, str, str]]:
    asked = terms(mode=mode)
    asked = replace(asked, place=replace(asked.place, **place))  # type: ignore[arg-type]
    told = await submissions("p", cast(Slurm, site), asked, KINDS, devices or (gpu(0), gpu(1)), "/s", 1000)
    return [(each.health, each.says, each.fix) for each in told]


async def test_what_is_taken_is_one_line() -> None:
    site = Site(lambda _: None)
    assert await found(site) == [("ok", "sbatch takes training, evaluation (--test-only)", "")]
    assert [(each.gpus, each.gpu_type, each.tasks) for each in site.asked] == [(1, "h100", 2), (1, "h100", 2)]


@pytest.mark.parametrize(
    ("refuses", "setting"),
    [
        (lambda asked: asked.memory_gb > 32, "slurm.resources.training.memory_gb"),
        (lambda asked: asked.cpus > 4, "slurm.resources.training.cpus_least"),
        (lambda asked: asked.time_s > 4 * 3600, "slurm.resources.training.most_s"),
    ],
)
async def test_the_setting_is_found_by_leaving_it_out(refuses: Callable[[Options], bool], setting: str) -> None:
    told = await found(Site(lambda asked: UNAVAILABLE if refuses(asked) else None))
    assert told[0] == ("ok", "sbatch takes evaluation (--test-only)", "")
    assert told[1][:2] == ("error", "training: Requested node configuration is not available")
    assert setting in told[1][2]


async def test_what_refuses_all_kinds_is_told_once() -> None:
    site = Site(lambda asked: "allocation failure: Invalid feature specification" if asked.constraint else None)
    ((health, says, fix),) = await found(site, constraint="nvlink")
    assert (health, says) == ("error", "training, evaluation: Invalid feature specification")
    assert "slurm.constraint" in fix


async def test_a_limit_that_is_reached_is_no_error() -> None:
    ((health, _, fix),) = await found(Site(lambda _: "sbatch: error: AssocMaxSubmitJobLimit violates submit limit"))
    assert (health, "max_pending" in fix) == ("warning", True)


@pytest.mark.parametrize(("mode", "setting"), [("job", "slurm.resources.training.most_s"), ("pilot", "slurm.pilot_s")])
async def test_a_limit_that_does_not_pass_is_an_error(mode: Mode, setting: str) -> None:
    says = "sbatch: error: QOSMaxWallDurationPerJobLimit\nallocation failure: Job violates accounting/QOS policy"
    site = Site(lambda asked: says if asked.time_s > 300 else None)
    told = await found(site, mode=mode)
    assert {health for health, _, _ in told} == {"error"}
    assert "QOSMaxWallDurationPerJobLimit" in told[0][1]
    assert f"`{setting}`" in told[0][2]


async def test_each_type_of_gpu_is_asked_for() -> None:
    site = Site(lambda asked: UNAVAILABLE if asked.gpu_type == "a10" else None)
    told = await found(site, gpu(0), gpu(1, "a10"))
    assert told[0][0] == "ok"
    assert told[1][1].startswith("training on a10")
    assert "slurm.gpu_type" in told[1][2]


def test_the_words_of_sbatch_without_what_stands_before_them() -> None:
    error = "sbatch: Batch job submission failed: Invalid qos specification: the account has none; look at `slurm.qos`"
    assert refusal_of(error) == ("Invalid qos specification", "the account has none; look at `slurm.qos`")
    assert refusal_of("sbatch has failed: x") == ("sbatch has failed", "x")
