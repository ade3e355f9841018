"""What a plan comes to, and every contradiction in it; the plan of examples/rl-seed.yaml has them all."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings as hypothesis_settings, strategies as st

from hostler.model.rl import Advice, Claims, Hosts, Pods, RlPlan, Share
from hostler.policy.feasibility import Contradiction, Level, examine
from hostler.policy.sampling import estimate
from hostler.settings import load, rl_plan

EXAMPLES = Path(__file__).parents[2] / "examples"
NONE = Share()


@cache
def seed() -> RlPlan:
    """The plan that could not work, as its owner wrote it down."""
    return rl_plan(load(EXAMPLES / "rl-seed.yaml", {}), None, NONE)


def found(plan: RlPlan) -> dict[str, Contradiction]:
    """By code."""
    told = examine(plan).findings
    assert len({each.code for each in told}) == len(told) or any(each.code == "pods" for each in told)
    return {each.code: each for each in told}


def good() -> RlPlan:
    """A plan without a fault."""
    return RlPlan(
        cluster="ray",
        address="http://head:8265",
        hosts=(Hosts(name="h", count=4, has=Share(cpus=8, memory_gb=16, gpus=1)),),
        pods=(Pods(name="workers", count=3, takes=Share(cpus=6, memory_gb=6)),),
        head=Pods(name="head", count=1, takes=Share(cpus=4, memory_gb=6)),
        runners=20,
        envs_per_runner=8,
        frame_skip=8,
        batch_steps=16_384,
        stale_updates=8,
        advice=Advice(calls_per_s=20, capacity=131, latency_s=2.2),
    )


def test_a_plan_that_is_right_has_no_findings() -> None:
    assert examine(good()).findings == ()
    assert not examine(good()).wrong


# Row by row the table of what did not add up.


def test_seed_environments_are_runners_times_environments() -> None:
    told = found(seed())["environments"]
    assert "84 environments are promised; 84 runners × 12 environments are 1,008" in told.words
    assert "RAY_WORKERS counts runners, not pods" in told.fix


def test_seed_bundles_are_more_than_there_are_cpus() -> None:
    told = found(seed())["cpus"]
    assert told.level is Level.IMPOSSIBLE
    assert told.words.startswith("85 CPU bundles are asked for, 48 are there: 84 runners and the learner, one CPU each")
    assert "wait for ever" in told.words
    assert "to 47" in told.fix


def test_seed_sums_of_the_workers_leave_out_the_head() -> None:
    told = found(seed())
    assert "6 × 6 + 1 × 6 = 42; it is 48 only with the 6 of the head" in told["workers-cpus"].words
    assert "6 × 24 + 1 × 24 = 168; it is 192 only with the 24 of the head" in told["workers-memory"].words


def test_seed_memory_of_the_hosts_and_its_share_are_other_ones() -> None:
    told = found(seed())
    assert "370 GB: 6 × 30 + 2 × 127 = 434" in told["inventory-memory"].words
    assert (
        "52 % of the memory of all hosts is said to be asked for: 192 of 434 GB are 44 %" in told["share-memory"].words
    )


def test_seed_what_was_said_rightly_is_no_finding() -> None:
    """About 174 CPUs are 172, and 48 of them are 28 %."""
    assert not {"inventory-cpus", "share-cpus", "pods", "reserved-gpus"} & found(seed()).keys()


def test_seed_utilization_is_not_what_is_asked_for() -> None:
    words = found(seed())["utilization"].words
    assert "70 % to 80 % of the CPUs are to be busy: only 48 of 172 are asked for, 28 %" in words
    assert "2 × large with 127 CPUs in all are used for 6" in words


def test_seed_memory_of_pods_is_not_for_the_emulators() -> None:
    told = found(seed())["pod-memory-idle"]
    assert "asks for 24 GB" in told.words
    assert "the 72 emulators are 0.072 GB" in told.words
    assert told.level is Level.DOUBTFUL


def test_seed_a_script_without_an_address_trains_on_its_own_machine() -> None:
    told = found(seed())["address"]
    assert "the 172 CPUs of the cluster stay idle" in told.words
    assert "rl.cluster.address" in told.fix


def test_seed_the_manifest_is_no_yaml() -> None:
    assert "raycluster-broken.yaml cannot be applied: it is no YAML in line 23" in found(seed())["manifest"].words


def test_seed_steps_are_more_than_the_environment_can_make() -> None:
    told = found(seed())["steps"]
    assert told.level is Level.IMPOSSIBLE
    assert "at 16 frames a step that is 8,333 frames/s on each of 48 CPUs" in told.words
    assert "260 to 370 steps per CPU-second, all CPUs 12,480 to 17,760/s before learner and advice" in told.words


def test_seed_advice_episodes_and_waiting_are_found_as_well() -> None:
    told = found(seed())
    assert "1,250 calls/s of advice are asked for (25,000 steps/s × 0.05 calls a step), 131 can be" in told["llm"].words
    assert "61,440 steps are asked for, the environment ends them after 10,000" in told["episode-limit"].words
    assert "950,000 steps over 1,008 environments are 942 for each" in told["episodes"].words
    assert "110 ms of waiting for each step of 3.92 ms" in told["advice-blocks"].words


def test_seed_expects_what_it_came_to() -> None:
    """It made 27 to 511 steps/s, with and without advice."""
    low, high = examine(seed()).estimate.steps_per_s
    assert 27 < low < high < 511


def test_findings_are_in_the_same_order_each_time() -> None:
    codes = [each.code for each in examine(seed()).findings]
    assert codes == [each.code for each in examine(seed()).findings]
    assert codes[:3] == ["address", "manifest", "cpus"]
    assert codes[-1] == "steps"


# One by one, off a plan that is right.


def test_pods_that_fit_nowhere_are_told_with_the_resource() -> None:
    plan = replace(good(), pods=(Pods(name="workers", count=3, takes=Share(cpus=6, memory_gb=6, gpus=2)),))
    assert "3 × workers: 3 places of 6 CPUs, 6 GB, 2 GPUs are asked for, there are 0" in found(plan)["pods"].words
    wide = replace(good(), pods=(Pods(name="workers", count=5, takes=Share(cpus=6, memory_gb=6)),))
    assert "5 places of 6 CPUs, 6 GB are asked for, there are 4 (4 × h 1 each)" in found(wide)["pods"].words


def test_the_head_is_a_pod_as_well() -> None:
    takes = Share(cpus=6, memory_gb=6)
    plan = replace(
        good(), pods=(Pods(name="workers", count=4, takes=takes),), head=Pods(name="head", count=1, takes=takes)
    )
    assert found(plan)["pods"].words.startswith("4 × workers and 1 × head: 5 places of 6 CPUs")
    assert "pods" not in found(replace(plan, head=None))


def test_pods_apart_need_a_host_each() -> None:
    small = Pods(name="workers", count=5, takes=Share(cpus=1, memory_gb=6))
    plan = replace(good(), pods=(small,), runners=4)
    assert "pods" not in found(plan)
    assert "no two workers may share one" in found(replace(plan, apart=True))["pods"].words
    four = replace(plan, apart=True, pods=(replace(small, count=4),), runners=3)
    assert "pods" not in found(four)


def test_pods_go_only_where_they_may() -> None:
    hosts = (*good().hosts, Hosts(name="other", count=1, has=Share(cpus=64, memory_gb=64)))
    pinned = Pods(name="workers", count=3, takes=Share(cpus=6, memory_gb=6), on=("other",))
    assert "pods" not in found(replace(good(), hosts=hosts, pods=(pinned,)))
    many = replace(pinned, count=11)
    assert "there are 10 (1 × other 10 each)" in found(replace(good(), hosts=hosts, pods=(many,)))["pods"].words


def test_sums_count_where_places_do_not_tell() -> None:
    hosts = (Hosts(name="h", count=1, has=Share(cpus=10, memory_gb=100)),)
    pods = (
        Pods(name="big", count=1, takes=Share(cpus=9, memory_gb=6)),
        Pods(name="small", count=1, takes=Share(cpus=2, memory_gb=6)),
    )
    assert (
        "11 CPUs are asked for, 10 are free" in found(replace(good(), hosts=hosts, pods=pods, head=None))["pods"].words
    )


def test_what_is_reserved_and_serves_is_not_free() -> None:
    host = replace(good().hosts[0], reserved=Share(cpus=1), serving=Share(cpus=2, gpus=1))
    assert "pods" in found(replace(good(), hosts=(host,)))
    over = replace(host, reserved=Share(gpus=1))
    assert "1 GPUs are reserved and 1 serve" in found(replace(good(), hosts=(over,)))["reserved-gpus"].words


def test_a_learner_wants_its_cpus_in_one_place() -> None:
    assert (
        "the learner asks for 7 CPUs at once, the largest node has 6"
        in found(replace(good(), learner_cpus=7))["learner"].words
    )
    assert "cpus" in found(replace(good(), learner_cpus=6))
    assert "18 runners are asked for, there is room for 16" not in found(good())


def test_runners_that_may_not_share_a_node_need_one_each() -> None:
    plan = replace(good(), one_per_node=True)
    assert "20 runners, 4 nodes of Ray" in found(plan)["spread"].words
    assert not {"spread", "cpus"} & found(replace(plan, runners=3)).keys()


def test_hosts_as_they_are_hold_what_their_memory_lets_in() -> None:
    bare = replace(good(), pods=(), head=None)
    assert found(bare) == {}
    tight = (Hosts(name="h", count=4, has=Share(cpus=8, memory_gb=1.5)),)
    words = found(replace(bare, hosts=tight))["cpus"].words
    assert "21 CPU bundles are asked for, 13 are there" in words
    assert "0.258 GB a runner" in words


def test_a_pod_has_to_have_the_memory_of_its_runners() -> None:
    small = (Pods(name="workers", count=3, takes=Share(cpus=6, memory_gb=1.5)),)
    assert "each pod of workers has 1.5 GB" in found(replace(good(), pods=small))["pod-memory"].words


def test_fragments_that_come_too_late_teach_nothing() -> None:
    words = found(replace(good(), batch_steps=1024))["stale"].words
    assert "160 environments × 128 steps of a fragment are 20,480 steps under way, 20 updates of 1,024" in words
    assert "stale" not in found(replace(good(), batch_steps=1024, learns_beside=False))


def test_a_budget_bounds_what_is_asked_for() -> None:
    advice = Advice(calls_per_step=0.05, capacity=131)
    assert "llm-budget" in found(replace(good(), advice=advice))
    assert "llm" in found(replace(good(), advice=replace(advice, calls_per_s=200.0)))
    assert found(replace(good(), advice=replace(advice, calls_per_s=20.0))) == {}
    assert found(replace(good(), advice=replace(advice, calls_per_s=20.0), claims=Claims(steps_per_s=9000))) == {}


def test_decisions_a_second_are_frames_by_the_skip() -> None:
    told = found(replace(good(), claims=Claims(actions_per_s=15)))["actions"]
    assert "59.73 frames a second by 8 frames a step are 7.47" in told.words
    assert "a skip of 4 frames" in told.fix
    assert found(replace(good(), claims=Claims(actions_per_s=7.5))) == {}


def test_hosts_without_pods_are_used_by_runners_and_learner() -> None:
    bare = replace(good(), pods=(), head=None, runners=24)
    fine = Claims(utilization=(0.75, 0.85), cpu_share=0.78, memory_share=0.1, worker_cpus=24.0, steps_per_s=30_000.0)
    assert found(replace(bare, claims=fine)) == {}
    told = found(replace(bare, claims=Claims(utilization=(0.9, 1.0), cpu_share=0.5)))
    assert "only 25 of 32 are asked for, 78 %" in told["utilization"].words
    assert "25 of 32 CPUs are 78 %" in told["share-cpus"].words
    assert "in all are used for" not in told["utilization"].words


def test_a_promise_on_hosts_that_all_serve_is_told_without_dividing_by_none() -> None:
    (host,) = good().hosts
    taken = replace(host, serving=Share(cpus=8))
    told = found(replace(good(), pods=(), head=None, hosts=(taken,), claims=Claims(steps_per_s=1000.0)))
    assert "no CPU is left" in told["steps"].words
    assert told["learner"].level is Level.IMPOSSIBLE


def test_a_promise_that_holds_is_no_finding() -> None:
    _, high = estimate(good()).steps_per_s
    assert found(replace(good(), claims=Claims(steps_per_s=high))) == {}
    assert "steps" in found(replace(good(), claims=Claims(steps_per_s=high * 1.1)))


# Whatever the plan.

shares = st.builds(
    Share,
    cpus=st.sampled_from([0.5, 1.0, 2.0, 6.0, 7.5, 16.0, 63.5]),
    memory_gb=st.sampled_from([0.5, 1.0, 2.0, 6.0, 24.0, 127.0]),
    gpus=st.integers(0, 2),
)
hosts = st.lists(st.tuples(st.integers(1, 9), shares), min_size=1, max_size=3).map(
    lambda some: tuple(Hosts(name=f"h{at}", count=count, has=has) for at, (count, has) in enumerate(some))
)
pods = st.lists(st.tuples(st.integers(1, 9), shares, st.sampled_from([(), ("h0",)])), max_size=3).map(
    lambda some: tuple(
        Pods(name=f"p{at}", count=count, takes=takes, on=on) for at, (count, takes, on) in enumerate(some)
    )
)
plans = st.builds(
    RlPlan,
    cluster=st.just("ray"),
    address=st.just("http://head:8265"),
    hosts=hosts,
    pods=pods,
    head=st.none() | shares.map(lambda takes: Pods(name="head", count=1, takes=takes)),
    head_works=st.booleans(),
    apart=st.booleans(),
    one_per_node=st.booleans(),
    runners=st.integers(0, 120),
    envs_per_runner=st.integers(1, 32),
    frame_skip=st.integers(1, 24),
    drawn_frames=st.integers(0, 1),
    sound=st.booleans(),
    batch_steps=st.sampled_from([512, 4096, 65_536]),
    stale_updates=st.none() | st.integers(0, 8),
    runner_cpus=st.sampled_from([0.5, 1.0, 2.0]),
    learner_cpus=st.sampled_from([1.0, 2.0, 8.0]),
    learns_beside=st.booleans(),
    advice=st.none()
    | st.builds(
        Advice,
        calls_per_step=st.sampled_from([None, 0.01, 0.5]),
        calls_per_s=st.sampled_from([None, 1.0, 500.0]),
        blocking=st.booleans(),
        latency_s=st.sampled_from([None, 0.1, 2.0]),
        capacity=st.sampled_from([None, 10.0, 131.0]),
    ),
    claims=st.builds(Claims, steps_per_s=st.sampled_from([None, 100.0, 25_000.0])),
)
more = st.tuples(st.integers(0, 5), st.sampled_from([0.0, 0.5, 8.0]), st.sampled_from([0.0, 4.0]), st.integers(0, 2))


def enlarged(plan: RlPlan, by: tuple[int, float, float, int]) -> RlPlan:
    """With more hosts of each kind, and more in each."""
    count, cpus, memory_gb, gpus = by

    def larger(each: Hosts) -> Hosts:
        has = Share(cpus=each.has.cpus + cpus, memory_gb=each.has.memory_gb + memory_gb, gpus=each.has.gpus + gpus)
        return replace(each, count=each.count + count, has=has)

    return replace(plan, hosts=tuple(larger(each) for each in plan.hosts))


def impossible(plan: RlPlan) -> set[str]:
    return {each.code for each in examine(plan).findings if each.level is Level.IMPOSSIBLE}


@hypothesis_settings(max_examples=30, deadline=None)
@given(plans, more)
def test_more_machines_never_make_more_contradictions(plan: RlPlan, by: tuple[int, float, float, int]) -> None:
    before = impossible(plan)
    if "learner" in before or "spread" in before:
        before |= {"cpus", "spread"}  # what is not asked as long as the learner has no place is asked then
    assert impossible(enlarged(plan, by)) <= before


@hypothesis_settings(max_examples=30, deadline=None)
@given(plans, more)
def test_more_machines_never_make_fewer_steps(plan: RlPlan, by: tuple[int, float, float, int]) -> None:
    before, after = estimate(plan).steps_per_s, estimate(enlarged(plan, by)).steps_per_s
    assert before[0] <= after[0] * (1 + 1e-9)
    assert before[1] <= after[1] * (1 + 1e-9)
    assert before[0] <= before[1] * (1 + 1e-9)


@hypothesis_settings(max_examples=30, deadline=None)
@given(plans, st.integers(1, 8))
def test_more_frames_never_make_more_steps(plan: RlPlan, frames: int) -> None:
    before = estimate(plan).steps_per_s
    after = estimate(replace(plan, frame_skip=plan.frame_skip + frames)).steps_per_s
    assert after[0] <= before[0] * (1 + 1e-9)
    assert after[1] <= before[1] * (1 + 1e-9)


@hypothesis_settings(max_examples=30, deadline=None)
@given(plans)
def test_every_finding_has_words_and_a_way_out(plan: RlPlan) -> None:
    told = examine(plan)
    assert told == examine(plan)
    for each in told.findings:
        assert each.words
        assert each.fix
        assert "inf" not in each.words.split()
        assert "nan" not in each.words


@pytest.mark.parametrize("field", ["policy_us", "learn_us", "encode_us", "transport_us"])
def test_a_dearer_step_never_makes_more(field: str) -> None:
    rates = good().rates
    dear = replace(getattr(rates, field), low=500.0, high=900.0)
    cheap, slow = estimate(good()), estimate(replace(good(), rates=replace(rates, **{field: dear})))
    assert slow.steps_per_s[1] <= cheap.steps_per_s[1]
