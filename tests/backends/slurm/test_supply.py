"""What the scheduler is shown of a partition."""

from __future__ import annotations

import math
from dataclasses import replace

from hostler.backends.slurm.parsing import Gres, NodeRow, PartitionRecord
from hostler.backends.slurm.supply import closed_of, devices_of, missing_type, pool_of, supply_of
from hostler.model.work import DeviceKind

from .stage import terms


def host(name: str = "h1", *gres: Gres, **more: object) -> NodeRow:
    """A host of 16 cores."""
    given: dict[str, object] = {
        "node": name, "partition": "gpu", "default": False, "available": "up", "state": "idle", "cpus": 16,
        "cpus_allocated": 0, "gres": gres,
    }  # fmt: skip
    return NodeRow(**{**given, **more})  # type: ignore[arg-type]


H100, A10, SHARED = (
    Gres(kind="gpu", type="h100", count=2),
    Gres(kind="gpu", type="a10", count=4),
    Gres(kind="mps", count=9),
)
LIMITS = PartitionRecord(name="gpu", default=False, state="UP", max_time_s=3600.0, tres={})


def test_every_gpu_is_a_slot_counted_through_all_types() -> None:
    found = devices_of("n", [host("h1", H100, SHARED), host("h2", H100), host("a1", A10)], terms(vram_gb=80.0), None)
    assert [(each.id, each.model) for each in found[:5]] == [
        ("n/cuda0", "a10"), ("n/cuda1", "a10"), ("n/cuda2", "a10"), ("n/cuda3", "a10"), ("n/cuda4", "h100"),
    ]  # fmt: skip
    assert (len(found), {each.vram_gb for each in found}) == (8, {80.0})


def test_hosts_that_are_down_keep_their_slots() -> None:
    assert len(devices_of("n", [host("h1", H100, state="down")], terms(), None)) == 2


def test_no_more_slots_than_jobs() -> None:
    assert len(devices_of("n", [host("a1", A10)], terms(max_jobs=3), None)) == 3


def test_one_type_of_several() -> None:
    place = replace(terms().place, gpu_type="h100")
    use = terms(place=place)
    assert [each.model for each in devices_of("n", [host("a1", A10), host("h1", H100)], use, None)] == ["h100"] * 2
    assert missing_type([host("h1", H100)], use) is None
    assert missing_type([host("a1", A10)], use) == ("partition 'gpu' has no GPU of type 'h100': those it has are a10")
    assert missing_type([host()], use) is not None
    assert missing_type([host("a1", A10)], terms()) is None


def test_cores_make_slots_where_there_are_no_gpus() -> None:
    found = devices_of("n", [host("c1"), host("c2", cpus=10)], terms(slot_cpus=4), None)
    assert [each.kind for each in found] == [DeviceKind.CPU] * 6
    assert len(devices_of("n", [host("c1")], terms(), 2)) == 2


def test_gpus_that_are_to_be_left_alone() -> None:
    found = devices_of("n", [host("h1", H100)], terms(gpus=False), None)
    assert {each.kind for each in found} == {DeviceKind.CPU}


def test_both_where_somebody_wants_both() -> None:
    kinds = [each.kind for each in devices_of("n", [host("h1", H100)], terms(), 3)]
    assert kinds == [DeviceKind.CUDA] * 2 + [DeviceKind.CPU] * 3


def test_the_limits_of_a_partition() -> None:
    pool = pool_of([host("h1", H100), host("a1", A10)], LIMITS, terms(max_pending=5))
    assert (pool.partition, pool.max_pending, pool.longest_s, pool.gpus_per_host) == ("gpu", 5, 3600.0, 4)
    assert (pool.gpus_by_model, pool.cpus_per_host, pool.memory_gb_per_host) == ({"a10": 4, "h100": 2}, 16, None)
    both = (H100, Gres(kind="gpu", type="h100", count=2), A10, Gres(kind="gpu", type=None, count=1))
    pool = pool_of([host("h1", *both, memory_mb=4096), host("h2", H100, cpus=8, memory_mb=2048)], LIMITS, terms())
    assert (pool.gpus_by_model, pool.gpus_per_host) == ({"a10": 4, "h100": 4}, 9)
    assert (pool.cpus_per_host, pool.memory_gb_per_host) == (16, 4.0)
    assert pool_of([host()], replace(LIMITS, max_time_s=math.inf), terms()).longest_s is None


def test_how_busy_hosts_are() -> None:
    used = (Gres(kind="gpu", type="h100", count=1),)
    rows = [host("h1", H100, used=used), host("h2", H100, state="idle", signs="*"), host("h3", H100, state="drained")]
    found = supply_of(rows)
    assert (found.idle, found.used, found.down, found.hosts, found.hosts_down) == (1, 1, 4, 3, 2)
    cores = supply_of([host("c1", cpus_allocated=6), host("c2", state="down")])
    assert (cores.idle, cores.used, cores.down) == (10, 6, 16)


def test_a_partition_that_begins_nothing_says_so() -> None:
    assert closed_of([host()]) is None
    assert closed_of([host(available="drain")]) == "drain"
