"""The `rl` section: what is refused, what comes from the order, what variables set."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hostler.model.errors import SettingsError
from hostler.model.rl import Advice, Ordered, OrderedAdvice, RlPlan, Share
from hostler.policy.feasibility import examine
from hostler.settings import advice_key, load, order_path, rl_plan

HERE = Share(cpus=2, memory_gb=8)
LEAST = "runners: 4, envs_per_runner: 8, batch_steps: 4096, frame_skip: 8"
ORDERED = Ordered(
    path="order.yaml",
    runners=6,
    envs_per_runner=8,
    episode_steps=512,
    batch_steps=2048,
    fragment_steps=64,
    stale_updates=8,
    steps=1_000_000,
    frame_skip=8,
    sound=True,
    screen=True,
    runner_cpus=0.5,
    learner_cpus=2,
    one_per_node=True,
)


def planned(tmp_path: Path, rl: str, ordered: Ordered | None = None, environ: dict[str, str] | None = None) -> RlPlan:
    path = tmp_path / "fleet.yaml"
    path.write_text(f"nodes: [{{name: here}}]\nrl: {{{rl}}}\n")
    return rl_plan(load(path, environ or {}), ordered, HERE)


def test_a_plan_of_this_machine_needs_no_hosts(tmp_path: Path) -> None:
    plan = planned(tmp_path, LEAST)
    assert (plan.cluster, plan.hosts[0].has, plan.environments) == ("here", HERE, 32)
    assert (plan.episode_steps, plan.advice, plan.drawn_frames, plan.runner_cpus) == (None, None, 0, 1.0)


def test_the_order_says_what_the_plan_does_not(tmp_path: Path) -> None:
    plan = planned(tmp_path, "order: order.yaml", ORDERED)
    assert (plan.runners, plan.batch_steps, plan.fragment_steps, plan.steps) == (6, 2048, 64, 1_000_000)
    assert (plan.drawn_frames, plan.sound, plan.runner_cpus, plan.learner_cpus) == (1, True, 0.5, 2)
    assert plan.one_per_node
    assert plan.rates.learn_us.low == 600
    assert plan.differs == ()


def test_where_both_say_something_else_that_is_told(tmp_path: Path) -> None:
    plan = planned(tmp_path, "order: order.yaml, runners: 84, batch_steps: 2048", ORDERED)
    assert plan.runners == 84
    assert plan.differs == ("runners is 84 in the plan, and 6 in order.yaml, which is what runs",)


def test_an_order_without_ray_stays_on_one_machine(tmp_path: Path) -> None:
    cluster = "order: order.yaml, cluster: {kind: kuberay}, hosts: [{name: a, cpus: 8}]"
    (words,) = planned(tmp_path, cluster, ORDERED).differs
    assert "its 6 workers would be processes of one machine" in words
    assert planned(tmp_path, cluster, replace(ORDERED, on_ray=True)).differs == ()
    (words,) = planned(tmp_path, "order: order.yaml", replace(ORDERED, on_ray=True)).differs
    assert "the plan is for this machine without Ray" in words


ADVISED = replace(
    ORDERED,
    advice=OrderedAdvice(
        endpoint="http://llm:8000/v1", model="scout", key_env="LLM_KEY", timeout_s=10.0, calls_per_s=20.0
    ),
)


def test_advice_that_only_the_order_asks_for_counts(tmp_path: Path) -> None:
    plan = planned(tmp_path, "order: order.yaml", ADVISED)
    assert plan.advice == Advice(
        calls_per_s=20.0, endpoint="http://llm:8000/v1", model="scout", key_env="LLM_KEY", timeout_s=10.0
    )
    assert (plan.differs, plan.may_differ) == ((), ())


def test_what_the_plan_says_of_advice_and_the_order_does_not_counts_too(tmp_path: Path) -> None:
    plan = planned(tmp_path, "order: order.yaml, advice: {latency_s: 2.0, concurrent: 100, model: scout}", ADVISED)
    assert plan.advice is not None
    assert (plan.advice.capacity, plan.advice.calls_per_s, plan.advice.latency_s) == (50.0, 20.0, 2.0)
    assert (plan.advice.endpoint, plan.advice.timeout_s) == ("http://llm:8000/v1", 10.0)
    assert (plan.differs, plan.may_differ) == ((), ())
    own = planned(tmp_path, "order: order.yaml, advice: {key_file: key, timeout_s: 10}", ADVISED).advice
    assert own is not None
    assert own.key_env is None, "the plan has a key of its own"


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (
            "endpoint: 'http://other:8000/v1'",
            ("rl.advice.endpoint", "other:8000", "training.advice.url", "//llm:8000/v1"),
        ),
        ("model: maverick", ("rl.advice.model", "maverick", "training.advice.model", "scout")),
        ("key_env: OTHER_KEY", ("rl.advice.key_env", "OTHER_KEY", "training.advice.key", "LLM_KEY")),
        ("timeout_s: 30", ("rl.advice.timeout_s", " 30", "training.advice.timeout_s", " 10,")),
        ("calls_per_s: 500", ("rl.advice.calls_per_s", "500", "training.advice.calls_per_s", " 20,")),
        ("calls_per_step: 0.05, latency_s: 2, blocking: true", ("rl.advice.blocking", "training.advice")),
    ],
)
def test_advice_that_both_say_differently_is_told_with_both_values(
    tmp_path: Path, said: str, words: tuple[str, ...]
) -> None:
    (told,) = planned(tmp_path, f"order: order.yaml, advice: {{{said}}}", ADVISED).differs
    for each in (*words, "order.yaml"):
        assert each in told


def test_advice_that_is_planned_and_nobody_asks_for(tmp_path: Path) -> None:
    plan = planned(tmp_path, "order: order.yaml, advice: {calls_per_s: 5.0}", ORDERED)
    assert plan.differs == ()
    assert plan.may_differ == (
        "advice is planned (`rl.advice`), and order.yaml asks nobody: it has no `training.advice`",
    )


ON_RAY = "order: order.yaml, hosts: [{name: a, cpus: 8}], cluster: {kind: ray, address: 'http://%s:8265'}"


@pytest.mark.parametrize(
    ("planned_for", "joined", "is_certain"),
    [
        ("10.0.0.1", "ray://10.0.0.2:10001", True),
        ("10.0.0.1", "10.0.0.2:6379", True),
        ("head", "other:6379", False),
        ("10.0.0.1", "head:6379", False),
        ("head", "local", True),
    ],
)
def test_two_clusters_are_told_with_both_addresses(
    tmp_path: Path, planned_for: str, joined: str, is_certain: bool
) -> None:
    """Names may be those of one machine; addresses are of two."""
    plan = planned(tmp_path, ON_RAY % planned_for, replace(ORDERED, on_ray=True, ray_address=joined))
    certain, perhaps = (plan.differs, plan.may_differ) if is_certain else (plan.may_differ, plan.differs)
    (told,) = certain
    assert perhaps == ()
    assert joined in told
    assert joined == "local" or f"http://{planned_for}:8265" in told


@pytest.mark.parametrize(
    ("planned_for", "joined"),
    [
        ("head", "head:6379"),
        ("head", "ray://head.ray.svc.cluster.local:10001"),
        ("10.0.0.1", "10.0.0.1:6379"),
        ("10.0.0.1", "127.0.0.1:6379"),
        ("localhost", "head:6379"),
        ("head", None),
    ],
)
def test_what_may_be_one_cluster_is_not_told(tmp_path: Path, planned_for: str, joined: str | None) -> None:
    plan = planned(tmp_path, ON_RAY % planned_for, replace(ORDERED, on_ray=True, ray_address=joined))
    assert (plan.differs, plan.may_differ) == ((), ())


def test_where_only_the_order_names_the_cluster_that_counts(tmp_path: Path) -> None:
    rl = "order: order.yaml, hosts: [{name: a, cpus: 8}], cluster: {kind: ray}"
    plan = planned(tmp_path, rl, replace(ORDERED, on_ray=True, ray_address="head:6379"))
    assert (plan.address, plan.joins) == (None, "head:6379")
    assert "address" not in [each.code for each in examine(plan).findings]
    for silent in (None, "local"):
        plan = planned(tmp_path, rl, replace(ORDERED, on_ray=True, ray_address=silent))
        assert "address" in [each.code for each in examine(plan).findings], silent


def test_a_cluster_that_kuberay_makes_has_no_address_yet(tmp_path: Path) -> None:
    rl = "order: order.yaml, hosts: [{name: a, cpus: 8}], cluster: {kind: kuberay}"
    (told,) = planned(tmp_path, rl, replace(ORDERED, on_ray=True, ray_address="head:6379")).may_differ
    assert "head:6379" in told
    assert "KubeRay" in told


def test_what_is_seen_and_heard_is_as_the_game_has_it(tmp_path: Path) -> None:
    told = planned(tmp_path, "order: order.yaml, sound: false, drawn_frames: 0", ORDERED).differs
    assert told == (
        "sound is off in the plan, and on by the game of order.yaml",
        "0 frames of a step are drawn in the plan, and one is by the game of order.yaml",
    )


def test_variables_that_people_know_set_what_they_say(tmp_path: Path) -> None:
    environ = {"RAY_WORKERS": "84", "ENVS_PER_WORKER": "12", "EPISODE_LENGTH": "61440", "BATCH_SIZE": "32768"}
    plan = planned(tmp_path, LEAST, environ=environ)
    assert (plan.runners, plan.envs_per_runner, plan.episode_steps, plan.batch_steps) == (84, 12, 61_440, 32_768)


def test_without_a_plan_they_set_nothing(tmp_path: Path) -> None:
    path = tmp_path / "fleet.yaml"
    path.write_text("nodes: [{name: here}]\n")
    assert load(path, {"BATCH_SIZE": "32", "RAY_WORKERS": "x"}).fleet.rl is None
    assert load(None, {"BATCH_SIZE": "32"}).fleet.rl is None


def test_both_names_of_a_setting_are_one_too_many(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="RAY_WORKERS: sets the same as HOSTLER_RL__RUNNERS"):
        planned(tmp_path, LEAST, environ={"RAY_WORKERS": "3", "HOSTLER_RL__RUNNERS": "3"})


def test_rates_of_yours_go_before_ours_and_say_so(tmp_path: Path) -> None:
    rates = "rates: {source: at home, env_steps_per_cpu_s: [200, 500], learn_us: 40}"
    found = planned(tmp_path, f"{LEAST}, {rates}").rates
    assert found.env_step_us is not None
    assert (found.env_step_us.low, found.env_step_us.high, found.env_step_us.source) == (2000, 5000, "at home")
    assert (found.learn_us.low, found.learn_us.high) == (40, 40)
    assert "key rooms" in found.policy_us.source


def test_capacity_is_what_is_answered_at_once_by_how_long_it_takes(tmp_path: Path) -> None:
    advice = planned(tmp_path, f"{LEAST}, advice: {{latency_s: 2.0, concurrent: 288}}").advice
    assert advice is not None
    assert advice.capacity == 144


@pytest.mark.parametrize(
    ("rl", "told"),
    [
        ("envs_per_runner: 8", "`runners` is missing; give it, or the `order`"),
        (f"{LEAST}, cluster: {{kind: ray}}", "`hosts` are missing"),
        (f"{LEAST}, pods: [{{count: 2}}]", "pods and a head are of Ray"),
        (f"{LEAST}, cluster: {{address: 'http://head:8265'}}", "address is of a Ray cluster that is there"),
        (f"{LEAST}, cluster: {{kind: ray, address: 'http://h', ca: a}}, hosts: [{{name: a}}]", "and http shows none"),
        (f"{LEAST}, hosts: [{{name: a}}, {{name: a}}]", "two of `hosts` have one name"),
        (
            f"{LEAST}, cluster: {{kind: kuberay}}, hosts: [{{name: a}}], pods: [{{on: [b]}}]",
            "there are no hosts 'b' for pods to be on; there are: a",
        ),
        (
            f"{LEAST}, cluster: {{kind: kuberay}}, hosts: [{{name: a}}], pods: [{{name: head}}]",
            "two of `pods` have one name, or one is called `head`",
        ),
        (f"{LEAST}, claims: {{utilization: [0.8, 0.7]}}", r"utilization is \[lowest, highest\]"),
        (f"{LEAST}, advice: {{concurrent: 3}}", "concurrent gives its capacity with latency_s"),
        (f"{LEAST}, advice: {{key_env: A, key_file: b}}", "one of key_env and key_file"),
        (f"{LEAST}, advice: {{endpoint: 'http://me:secret@llm/v1'}}", "endpoint"),
        (f"{LEAST}, rates: {{learn_us: [1, 2, 3]}}", "rl.rates.learn_us"),
        (f"{LEAST}, rates: {{learn_us: [3, 2]}}", "lowest"),
        (f"{LEAST}, gpus: 3", "rl.gpus: is no setting"),
    ],
)
def test_what_has_no_meaning_is_refused(tmp_path: Path, rl: str, told: str) -> None:
    with pytest.raises(SettingsError, match=told):
        planned(tmp_path, rl)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (None, "it cannot be read: No such file"),
        ("", "there is nothing in it"),
        ("a: [1", "it is no YAML in line"),
        ("kind: RayJob\n", "no apiVersion or no kind"),
        ("kind: RayJob\napiVersion: ray.io/v1\n---\n- 1\n", "no apiVersion or no kind"),
        ("kind: RayJob\napiVersion: ray.io/v1\n---\n", None),
    ],
)
def test_a_manifest_has_to_be_one(tmp_path: Path, text: str | None, told: str | None) -> None:
    if text is not None:
        (tmp_path / "m.yaml").write_text(text)
    fault = planned(tmp_path, f"{LEAST}, cluster: {{manifest: m.yaml}}").manifest_fault
    assert (fault is None) if told is None else (told in str(fault))


def test_the_key_is_read_where_it_lies(tmp_path: Path) -> None:
    path = tmp_path / "fleet.yaml"

    def key(words: str, environ: dict[str, str]) -> str | None:
        path.write_text(f"rl: {{{LEAST}, advice: {{{words}}}}}\n")
        return advice_key(load(path, {}), environ)

    assert key("latency_s: 2.0", {}) is None
    assert key("key_env: LLM_KEY", {"LLM_KEY": " abc\n"}) == "abc"
    (tmp_path / "key").write_text("def\nrest\n")
    assert key("key_file: key", {}) == "def"
    with pytest.raises(SettingsError, match="LLM_KEY holds no key"):
        key("key_env: LLM_KEY", {})
    with pytest.raises(SettingsError, match="cannot be read: No such file"):
        key("key_file: other", {})


def test_paths_start_from_the_folder_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "fleet.yaml"
    path.write_text("rl: {order: orders/a.yaml}\n")
    assert order_path(load(path, {})) == tmp_path / "orders/a.yaml"
