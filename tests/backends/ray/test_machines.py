"""Does a job fit on a machine of a cluster? The numbers that are told, and that they agree with Ray's own rule."""

from __future__ import annotations

from hypothesis import given, strategies as st

from hostler.backends.ray.machines import GIB, Machine, Wants, fits, in_words, refusal, too_many


def machine(name: str = "m", *, alive: bool = True, labels: dict[str, str] | None = None, **total: float) -> Machine:
    return Machine(id=name, ip=f"10.0.0.{len(name)}", alive=alive, total=total, labels=labels or {})


SMALL, LARGE = machine("a", CPU=2, memory=8 * GIB), machine("bb", CPU=2, GPU=1, memory=16 * GIB)


def test_what_no_machine_has_is_told_with_what_the_largest_has() -> None:
    assert refusal(Wants(cpus=2), [SMALL, LARGE]) is None
    says = "4 CPUs on one node are asked for, and the largest has 2"
    assert refusal(Wants(cpus=4), [SMALL, LARGE]) == says
    assert refusal(Wants(cpus=1, gpus=1), [SMALL]) == "1 GPU on one node is asked for, and none has any"
    assert (
        refusal(Wants(cpus=4, gpus=2), [SMALL, LARGE])
        == f"{says}; 2 GPUs on one node are asked for, and the largest has 1"
    )
    assert refusal(Wants(cpus=1, memory_gb=32), [LARGE]) == (
        "32 GiB of memory on one node are asked for, and the largest has 16"
    )
    told = refusal(Wants(cpus=1, resources={"accelerator_type:H100": 1}), [SMALL])
    assert told == "1 accelerator_type:H100 on one node is asked for, and none has any"


def test_what_no_machine_has_together_is_told_with_what_each_has() -> None:
    apart = [machine("a", CPU=8), machine("bb", CPU=2, GPU=1)]
    told = refusal(Wants(cpus=4, gpus=1), apart)
    assert told == (
        "4 CPUs, 1 GPU on one node are asked for together, and none has all of it: 10.0.0.1 has 8 CPUs; "
        "10.0.0.2 has 2 CPUs, 1 GPU"
    )


def test_labels_narrow_what_there_is() -> None:
    there = [
        machine("a", CPU=8, labels={"site": "a", "ray.io/node-id": "x"}),
        machine("bb", CPU=2, labels={"site": "b"}),
    ]
    assert refusal(Wants(cpus=8, labels={"site": "a"}), there) is None
    told = refusal(Wants(cpus=4, labels={"site": "b"}), there)
    assert told == "4 CPUs on one node are asked for, and the largest has 2 (of those with the labels site=b)"
    told = refusal(Wants(cpus=1, labels={"site": "c"}), there)
    assert told == "machines with the labels site=c are asked for, and there are only the labels site=a, site=b"
    assert "no machines with labels" in str(refusal(Wants(cpus=1, labels={"site": "c"}), [SMALL]))


def test_of_machines_that_are_yet_to_come_nothing_is_said() -> None:
    much = Wants(cpus=64, gpus=8, labels={"site": "b"}, grows=True)
    assert refusal(much, []) is None
    assert too_many([much, much], []) is None
    assert too_many([much, Wants(cpus=1)], []) is not None, "others are counted still"


def test_the_dead_have_nothing() -> None:
    dead = machine("a", alive=False, CPU=64)
    assert refusal(Wants(cpus=1), [dead]) == "a machine for 1 CPU is asked for, and the cluster has none that is alive"
    assert refusal(Wants(cpus=4), [dead, SMALL]) is not None
    assert in_words([dead, SMALL, LARGE]) == "2 nodes: 4 CPUs, 1 GPU, 24 GiB of memory"


def test_more_pilots_than_fit_together() -> None:
    there = [machine("a", CPU=4), machine("bb", CPU=4)]
    assert too_many([Wants(cpus=3)] * 2, there) is None
    assert too_many([Wants(cpus=3)] * 3, there) == "3 pilots of 3 CPUs are asked for, and 2 fit on 2 nodes"
    told = too_many([Wants(cpus=4), Wants(cpus=3), Wants(cpus=2)], there)
    assert told == "3 pilots ask for 9 CPUs together, and the cluster has 8 CPUs"


AMOUNT = st.integers(0, 8).map(float)
MACHINE = st.builds(lambda cpu, gpu: machine("m", CPU=cpu, GPU=gpu), AMOUNT, AMOUNT)


@given(st.builds(Wants, cpus=st.integers(1, 8).map(float), gpus=st.integers(0, 8)), st.lists(MACHINE, max_size=5))
def test_it_is_refused_exactly_where_no_machine_has_enough(wants: Wants, there: list[Machine]) -> None:
    able = [each for each in there if each.total["CPU"] >= wants.cpus and each.total["GPU"] >= wants.gpus]
    assert (refusal(wants, there) is None) == bool(able)


@given(st.integers(1, 6), st.integers(1, 4), st.lists(st.integers(0, 12), max_size=6))
def test_as_many_alike_are_let_through_as_fit(count: int, cpus: int, there: list[int]) -> None:
    machines = [machine("m", CPU=each) for each in there]
    room = sum(each // cpus for each in there)
    assert sum(fits(Wants(cpus=cpus), each) for each in machines) == room
    assert (too_many([Wants(cpus=cpus)] * count, machines) is None) == (room >= count)
