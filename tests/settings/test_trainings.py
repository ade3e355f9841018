"""The `rl` section: what is refused, what comes from the order, what variables set."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hostler.model.errors import SettingsError
from hostler.model.rl import Ordered, RlPlan, Share
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
