"""Can this work run on this device?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given, settings, strategies as st

from hostler.model.fleet import NO_LIMITS, DeviceSpec, NodeLimits, NodeSpec
from hostler.model.work import DeviceKind, Resources, WorkKind
from hostler.policy import fit
from hostler.policy.fit import BOARDS, DeviceLoad, Gate, NodeLoad, Site


def rig(
    vram_gb: Sequence[float | None] = (24.0,), *, kind: DeviceKind = DeviceKind.CUDA, slots: int = 1, **more: Any
) -> NodeSpec:
    gpus = [
        DeviceSpec(id=f"n/{kind}{at}", node="n", kind=kind, index=at, model="RTX 4090", vram_gb=size)
        for at, size in enumerate(vram_gb)
    ]
    cpus = [DeviceSpec(id=f"n/cpu{at}", node="n", kind=DeviceKind.CPU, index=at) for at in range(slots)]
    return NodeSpec(name="n", backend="local", devices=(*gpus, *cpus), **{"limits": NO_LIMITS, **more})


def at(node: NodeSpec, index: int = 0) -> Site:
    return fit.site(node, node.devices[index])


def gate(need: Resources, place: Site, work: WorkKind = WorkKind.SCRIPT) -> Gate | None:
    refusal = fit.refusal(need, place, work)
    return None if refusal is None else refusal.gate


CPU = at(rig(()))
GPU = at(rig())
EIGHT = at(rig((24.0,) * 8))
GPU_CPU = at(rig(), 1)


@pytest.mark.parametrize(
    ("need", "on", "said"),
    [
        (Resources(), CPU, None),
        (Resources(), GPU, None),
        (Resources(device="cpu"), CPU, None),
        (Resources(device="gpu"), at(rig(kind=DeviceKind.ROCM)), None),
        (Resources(vram_gb=24), GPU, None),
        (Resources(device="cpu"), GPU, "device kind: needs a CPU slot, n/cuda0 is cuda"),
        (Resources(device="gpu"), CPU, "device kind: needs a GPU, n/cpu0 is a CPU slot"),
        (Resources(vram_gb=25), GPU, "VRAM: needs 25 GB, n/cuda0 has 24 GB"),
        (Resources(vram_gb=1), at(rig((None,))), "VRAM: needs 1 GB, that of n/cuda0 is unknown"),
        (Resources(vram_gb=1), CPU, "VRAM: needs 1 GB, that of n/cpu0 is unknown"),
        (Resources(vram_gb=30, shards=True), at(rig((24.0, 24.0))), None),
        (
            Resources(vram_gb=50, shards=True),
            at(rig((24.0, 24.0))),
            "VRAM: needs 50 GB, n/cuda0 and its peers have 48 GB",
        ),
        (Resources(gpus=8), EIGHT, None),
        (Resources(gpus=9), EIGHT, "GPUs: needs 9 of one kind, n has 8"),
        (Resources(gpus=2, vram_gb=16), at(rig((24.0, 8.0))), "GPUs: needs 2 of one kind, n has 1"),
        (Resources(tiers=(1,)), EIGHT, None),
        (Resources(tiers=(1, 2)), GPU, "tier: needs tier 1 or 2, n is 3"),
        (Resources(tiers=(3,)), CPU, "tier: needs tier 3, n has none that is known"),
        (Resources(tiers=(3,), device="cpu"), GPU_CPU, None),
    ],
)
def test_a_refusal_names_its_gate(need: Resources, on: Site, said: str | None) -> None:
    refusal = fit.refusal(need, on, WorkKind.SCRIPT)
    assert refusal is None if said is None else str(refusal).startswith(said)


def test_a_cpu_slot_stands_in_for_a_gpu_only_where_the_work_says_so() -> None:
    need = Resources(vram_gb=8, tiers=(1,), gpus=4, cpu_too=True)
    assert gate(need, CPU) is None
    assert fit.devices_needed(need, CPU) == 1
    assert gate(need, GPU) is Gate.TIER
    assert gate(replace(need, device="gpu"), CPU) is Gate.KIND


def test_limits_of_the_node_are_gates() -> None:
    limits = NodeLimits(work=(WorkKind.SELFPLAY, WorkKind.SCRIPT), memory_gb=8, scripts=0)
    place = at(rig(limits=limits, slots=2))
    refusal = fit.refusal(Resources(), place, WorkKind.TRAINING)
    assert str(refusal) == "work kind: n is for selfplay, script, not for training"
    assert gate(Resources(), place, WorkKind.SCRIPT) is Gate.SCRIPTS
    assert gate(Resources(memory_gb=9), place, WorkKind.SELFPLAY) is Gate.MEMORY
    assert gate(Resources(memory_gb=8), place, WorkKind.SELFPLAY) is None
    nothing = at(rig(limits=NodeLimits(work=())))
    assert str(fit.refusal(Resources(), nothing, WorkKind.RL)) == "work kind: n is for nothing, not for rl"


def test_host_cpus_are_refused_only_where_they_are_known() -> None:
    need = Resources(cpus=4)
    assert gate(need, GPU) is None
    assert gate(need, at(replace(rig(), cpus=3.0))) is Gate.CPUS
    assert gate(need, at(replace(rig(), cpus=4.0))) is None


@pytest.mark.parametrize(
    ("vram_gb", "tier"),
    [(None, None), (80.0, 1), (192.0, 1), (77.5, 2), (32.0, 2), (31.0, 3), (8.0, 3), (0.0, 3)],
)
def test_tiers(vram_gb: float | None, tier: int | None) -> None:
    assert fit.tier(vram_gb) == tier


def test_the_tier_is_that_of_the_whole_node() -> None:
    assert (EIGHT.tier, GPU.tier, CPU.tier) == (1, 3, None)
    assert at(rig((24.0, None))).tier is None, "half a sum is no sum"


def test_who_names_all_tiers_takes_a_gpu_of_unknown_tier() -> None:
    unknown = at(rig((None,)))
    assert gate(Resources(tiers=(2, 1, 3)), unknown) is None
    assert gate(Resources(tiers=(2, 1)), unknown) is Gate.TIER


def test_peers_are_gpus_of_the_same_model() -> None:
    node = rig((24.0, 24.0, 10.0))
    other = replace(node.devices[2], model="RTX 3080")
    place = at(replace(node, devices=(*node.devices[:2], other, node.devices[3])))
    assert place.peers == node.devices[:2]


def test_devices_needed() -> None:
    assert fit.devices_needed(Resources(), EIGHT) == 1
    assert fit.devices_needed(Resources(gpus=3), EIGHT) == 3
    assert fit.devices_needed(Resources(vram_gb=48, shards=True), EIGHT) == 2
    assert fit.devices_needed(Resources(vram_gb=50, shards=True), EIGHT) == 3
    assert fit.devices_needed(Resources(vram_gb=1, shards=True, gpus=2), EIGHT) == 2
    uneven = at(rig((24.0, 8.0, 8.0)))
    assert fit.devices_needed(Resources(vram_gb=20, shards=True), uneven) == 3, "any so many must be enough"


SIZES = st.floats(0, 200)
NEEDS = st.builds(
    Resources,
    vram_gb=st.floats(0, 400),
    gpus=st.integers(1, 5),
    shards=st.booleans(),
    cpus=st.floats(0, 64),
    memory_gb=st.none() | st.floats(0.1, 256),
    tiers=st.lists(st.sampled_from((1, 2, 3)), unique=True).map(tuple),
)


@settings(max_examples=40)
@given(NEEDS, st.lists(SIZES, min_size=1, max_size=5), st.floats(0, 100), st.data())
def test_more_vram_never_loses_a_fit(need: Resources, sizes: list[float], more: float, data: st.DataObject) -> None:
    """As long as the node stays in its tier: whose owner has named some may lose one that grows out of them, by that.

    A tier is a gate of its own kind: `tiers=(3,)` is there to leave the big nodes to others.
    """
    grown = data.draw(st.integers(0, len(sizes) - 1))
    before, after = at(rig(sizes)), at(rig([size + more * (index == grown) for index, size in enumerate(sizes)]))
    if gate(need, before) is None:
        same = before.tier == after.tier or not need.tiers or after.tier in need.tiers
        assert gate(need, after) is (None if same else Gate.TIER)
        assert fit.devices_needed(need, after) <= fit.devices_needed(need, before)


def test_a_node_may_grow_out_of_the_tiers_that_were_named() -> None:
    need = Resources(vram_gb=8, tiers=(3,))
    assert gate(need, at(rig((24.0,)))) is None
    assert gate(need, at(rig((28.0,)))) is None
    assert gate(need, at(rig((48.0,)))) is Gate.TIER


@settings(max_examples=40)
@given(NEEDS, st.lists(SIZES, min_size=1, max_size=5), st.floats(0.1, 64), st.floats(0.1, 256), st.floats(0, 64))
def test_fit_is_monotone_in_what_the_host_has(
    need: Resources, sizes: list[float], cpus: float, memory_gb: float, more: float
) -> None:
    node = replace(rig(sizes), cpus=cpus, limits=NodeLimits(memory_gb=memory_gb))
    richer = replace(node, cpus=cpus + more, limits=NodeLimits(memory_gb=memory_gb + more))
    if gate(need, at(node)) is None:
        assert gate(need, at(richer)) is None


@settings(max_examples=40)
@given(NEEDS, st.lists(SIZES | st.none(), min_size=1, max_size=5))
@example(Resources(vram_gb=18.5, shards=True), [18.0])
def test_a_fit_has_enough_devices_and_memory(need: Resources, sizes: list[float | None]) -> None:
    place = at(rig(sizes))
    wanted = fit.devices_needed(need, place)
    if gate(need, place) is None:
        assert need.gpus <= wanted <= len(place.peers)
        if need.shards:
            assert sum(sorted(size or 0.0 for size in sizes)[:wanted]) >= fit.NOMINAL * need.vram_gb


FREE = DeviceLoad(attempts=0, vram_gb=0.0, unshared=False, lanes=4)
QUIET = NodeLoad(scripts=0, cpus=0.0, memory_gb=0.0, since_start_s=None)
PLAY = Resources(vram_gb=8, shared=True)


def crowded(
    need: Resources = PLAY,
    *,
    work: WorkKind = WorkKind.SELFPLAY,
    place: Site = GPU,
    node: NodeLoad = QUIET,
    device: DeviceLoad = FREE,
) -> str | None:
    refusal = fit.crowded(need, work, place, node, device)
    return None if refusal is None else str(refusal)


def shared_by(attempts: int, vram_gb: float, lanes: int = 4) -> DeviceLoad:
    return DeviceLoad(attempts=attempts, vram_gb=vram_gb, unshared=False, lanes=lanes)


def test_an_empty_device_takes_anything_that_fits() -> None:
    assert crowded() is None
    assert crowded(Resources(vram_gb=24)) is None
    assert crowded(device=replace(FREE, lanes=0)) is None


def test_script_slots_count_scripts_only() -> None:
    place = at(rig(limits=NodeLimits(scripts=2)))
    full = replace(QUIET, scripts=2)
    assert crowded(work=WorkKind.SCRIPT, place=place, node=full) == "script slots: 2 of 2 of n taken"
    assert crowded(work=WorkKind.SELFPLAY, place=place, node=full) is None
    assert crowded(work=WorkKind.SCRIPT, place=place, node=replace(QUIET, scripts=1)) is None


def test_host_cpus_and_memory_are_reserved() -> None:
    place = at(replace(rig(limits=NodeLimits(memory_gb=32)), cpus=4.0))
    need = Resources(cpus=2, memory_gb=16)
    half = replace(QUIET, cpus=2.0, memory_gb=16.0)
    assert crowded(need, place=place, node=half) is None
    busy = crowded(need, place=place, node=replace(half, cpus=3.0))
    assert busy == "host CPUs: needs 2, 3 of the node's 4 are reserved"
    full = crowded(need, place=place, node=replace(half, memory_gb=20.0))
    assert full == "memory: needs 16 GB, 20 of the node's 32 are reserved"
    assert crowded(Resources(), place=place, node=replace(half, cpus=9.0, memory_gb=99.0)) is None


def test_disk_space_is_kept_for_what_runs() -> None:
    place, need = at(rig()), Resources(disk_gb=20.0)
    told = replace(QUIET, disk_free_gb=50.0, disk_gb=30.0)
    assert crowded(need, place=place, node=told) is None
    said = crowded(need, place=place, node=replace(told, disk_gb=31.0))
    assert said == "disk space: needs 20 GB; n has 50 GB free, 31 of it kept for what runs there"
    assert crowded(need, place=place, node=replace(told, disk_free_gb=None)) is None, "the node itself will look"
    assert crowded(Resources(disk_gb=0.0), place=place, node=replace(told, disk_gb=99.0)) is None
    little = replace(QUIET, disk_free_gb=0.5)
    assert crowded(Resources(), work=WorkKind.TRAINING, place=place, node=little) is not None
    assert crowded(Resources(), work=WorkKind.SCRIPT, place=place, node=little) is None


def test_starts_on_gpus_are_staggered() -> None:
    node = rig(limits=NodeLimits(stagger_s=5))
    just_now = replace(QUIET, since_start_s=2.0)
    said = crowded(place=at(node), node=just_now)
    assert said == "start-up stagger: n started a process 2.0 s ago, the next may after 5 s"
    assert crowded(place=at(node), node=replace(QUIET, since_start_s=5.0)) is None
    assert crowded(Resources(), place=at(node, 1), node=just_now) is None, "a CPU slot does not wait"


@pytest.mark.parametrize(
    ("need", "device", "said"),
    [
        (PLAY, shared_by(1, 8), None),
        (PLAY, shared_by(2, 16), "VRAM: needs 8 GB, 16 of 22.8 GB that n/cuda0 may share are reserved"),
        (PLAY, shared_by(2, 4, lanes=2), "lanes: n/cuda0 has 2 of 2 jobs that may share it"),
        (PLAY, DeviceLoad(attempts=1, vram_gb=1, unshared=True, lanes=4), "shared device: what n/cuda0 does shares it"),
        (Resources(vram_gb=8), shared_by(1, 8), "shared device: n/cuda0 is in use and this cannot share it"),
        (Resources(shared=True), shared_by(1, 8), "shared device: n/cuda0 is in use and its VRAM need is unknown"),
    ],
)
def test_a_device_is_shared_by_those_who_share(need: Resources, device: DeviceLoad, said: str | None) -> None:
    answer = crowded(need, device=device)
    assert answer is None if said is None else str(answer).startswith(said)


def test_nobody_joins_on_a_cpu_slot_or_on_unknown_vram() -> None:
    assert "cannot share" in str(crowded(place=CPU, device=shared_by(1, 0)))
    assert "how much VRAM" in str(crowded(place=at(rig((None,))), device=shared_by(1, 0)))


@settings(max_examples=40)
@given(st.floats(0.1, 24), st.floats(0, 24), st.integers(1, 5), st.integers(0, 5), st.floats(0, 50))
def test_sharing_is_monotone(need_gb: float, reserved_gb: float, attempts: int, lanes: int, more: float) -> None:
    need = Resources(vram_gb=need_gb, shared=True)
    load = shared_by(attempts, reserved_gb, lanes)
    if crowded(need, device=load) is None:
        assert reserved_gb + need_gb <= 24.0
        assert crowded(need, device=replace(load, lanes=lanes + 1)) is None
        assert crowded(need, device=replace(load, vram_gb=reserved_gb / 2)) is None
        assert crowded(need, place=at(rig((24.0 + more,))), device=load) is None


VARIED: list[dict[str, Any]] = [
    {"provider": "vast"},
    {"ephemeral": True},
    {"price_per_h": 1.0},
    {"price_per_h": 2.0},
    {"lifetime_s": 60.0},
    {"cpus": 8.0},
    {"limits": NodeLimits(work=(WorkKind.SELFPLAY,))},
    {"limits": NodeLimits(scripts=1)},
    {"limits": NodeLimits(stagger_s=1)},
    {"limits": NodeLimits(memory_gb=1)},
]


def test_a_class_is_what_no_policy_can_tell_apart() -> None:
    nodes = [
        rig(),
        rig((24.0, 24.0)),
        rig((12.0,)),
        rig((None,)),
        rig(kind=DeviceKind.ROCM),
        *(rig(**more) for more in VARIED),
    ]
    classes = [fit.device_class(at(node)) for node in nodes]
    assert len(set(classes)) == len(nodes)
    free = [node for node in nodes[5:] if not node.price_per_h]
    slots = [fit.device_class(at(node, -1)) for node in [rig(()), rig((), slots=2), *free]]
    assert len({*classes, *slots}) == len(classes) + len(slots)
    cheap, dear = rig(price_per_h=1.0), rig(price_per_h=2.0)
    assert fit.device_class(at(cheap, -1)) == fit.device_class(at(dear, -1)), "GPUs pay for the node"


def test_equal_devices_share_a_class() -> None:
    node = rig((24.0, 24.0), limits=NodeLimits(work=(WorkKind.SELFPLAY, WorkKind.SCRIPT)), slots=2)
    twin = rig((24.0, 24.0), limits=NodeLimits(work=(WorkKind.SCRIPT, WorkKind.SELFPLAY)), slots=2)
    elsewhere = replace(twin, name="m", env={"A": "b"}, python="py", ends_at=1e9)
    assert fit.device_class(at(node, 0)) == fit.device_class(at(node, 1)) == fit.device_class(at(elsewhere, 0))
    assert fit.device_class(at(node, 2)) == fit.device_class(at(elsewhere, 3))


def test_a_class_is_named_in_words() -> None:
    node = rig((24.0,) * 8, provider="vast", ephemeral=True, price_per_h=2.8)
    assert fit.device_class(at(node)) == "RTX 4090 24GB t1 x8 @vast ephemeral 0.35/h"
    assert fit.device_class(CPU) == "cpu"
    assert fit.device_class(at(rig((None,)))) == "RTX 4090 ?GB"
    assert "#" in fit.device_class(at(rig(lifetime_s=60.0)))


def test_the_board_table() -> None:
    assert {name: (board.vram_gb, board.tiers, board.batch) for name, board in BOARDS.items()} == {
        "hex8": (8, (3,), (256, 512)),
        "square8": (8, (3,), (256, 512)),
        "square19": (16, (2, 3), (128, 256)),
        "hexagonal": (32, (1, 2), (64, 128)),
    }


@pytest.mark.parametrize(
    ("board", "batch"),
    [("hex8", 256), ("square8", 256), ("square19", 256), ("hexagonal", 128), ("chess", 256), (None, 256)],
)
def test_the_usual_batch_is_one_that_makes_sense_on_the_board(board: str | None, batch: int) -> None:
    assert fit.usual_batch(board) == batch


@pytest.mark.parametrize(
    ("work", "board", "search", "tiers"),
    [
        (WorkKind.TRAINING, None, "parallel", (1, 2, 3)),
        (WorkKind.TRAINING, "hex8", "parallel", (1, 2, 3)),
        (WorkKind.TRAINING, "square19", "gumbel", (1, 2, 3)),
        (WorkKind.TRAINING, "hexagonal", "parallel", (1, 2)),
        (WorkKind.EVALUATION, "hex8", "parallel", (2, 1, 3)),
        (WorkKind.EVALUATION, "hexagonal", "parallel", (2, 1)),
        (WorkKind.SELFPLAY, None, "gumbel", (1, 2, 3)),
        (WorkKind.SELFPLAY, None, "heuristic", (3, 2, 1)),
        (WorkKind.SELFPLAY, None, "parallel", ()),
        (WorkKind.SELFPLAY, "hex8", "parallel", (3, 2, 1)),
        (WorkKind.SELFPLAY, "square19", "parallel", (2, 3, 1)),
        (WorkKind.SELFPLAY, "square19", "gumbel", (2, 1, 3)),
        (WorkKind.SELFPLAY, "square19", "heuristic", (3, 2, 1)),
        (WorkKind.SELFPLAY, "hex8", "gumbel", (1, 2, 3)),
        (WorkKind.SELFPLAY, "hexagonal", "heuristic", (1, 2)),
        (WorkKind.EXPORT, "hexagonal", "parallel", ()),
        (WorkKind.SELFPLAY, "chess", "parallel", ()),
    ],
)
def test_tiers_of_a_stage(work: WorkKind, board: str | None, search: fit.Search, tiers: tuple[int, ...]) -> None:
    assert fit.stage_need(work, board, search).tiers == tiers


@settings(max_examples=40)
@given(st.sampled_from(WorkKind), st.sampled_from([None, *BOARDS]), st.sampled_from(list(fit.SEARCH_TIERS)), SIZES)
@example(WorkKind.SELFPLAY, "square19", "gumbel", 15.75)  # a 16 GB card tells a little less
def test_a_stage_may_run_wherever_its_vram_is(
    work: WorkKind, board: str | None, search: fit.Search, vram_gb: float
) -> None:
    need = fit.stage_need(work, board, search)
    has_it = fit.NOMINAL * need.vram_gb <= vram_gb
    assert gate(need, at(rig((vram_gb,))), work) in ({None} if has_it else {Gate.VRAM, Gate.TIER})
    assert gate(need, CPU, work) is None, "a laptop runs loops too"
    assert need.shared == (work is WorkKind.SELFPLAY)
