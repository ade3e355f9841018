"""What a fleet file may ask of Kubernetes, and what contradicts itself."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import yaml
from hypothesis import given, strategies as st
from pydantic import ValidationError

from hostler.model.errors import SettingsError
from hostler.settings import load
from hostler.settings.kuberay import KubeMachines, Kuberay, KubeWorkers, is_secret, workers_fault

SECTION = {
    "name": "a", "namespace": "rl", "image": "rl", "ray_version": "2.60.0", "entrypoint": ["python"],
    "workers": [{"name": "cpu"}],
}  # fmt: skip


def read(folder: Path, **changes: object) -> Kuberay:
    path = folder / "fleet.yaml"
    content = {name: value for name, value in {**SECTION, **changes}.items() if value is not None}
    path.write_text(yaml.safe_dump({"kuberay": content}))
    found = load(path, {}).fleet.kuberay
    assert found is not None
    return found


def test_by_default_a_job_without_gpus_apart_on_machines_of_their_own(tmp_path: Path) -> None:
    found = read(tmp_path)
    (group,) = found.workers
    assert (found.kind, group.gpus, group.spread, found.head.gpus, found.keep_s) == ("job", 0, "node", 0, 600)
    assert (group.least, group.most, found.network is not None) == (1, 1, True)


WORKERS = {"name": "w", "replicas": 7, "cpus": 6, "memory_gb": 28}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"name": "A"}, "kuberay.name"),
        ({"entrypoint": None}, "a job needs an entrypoint"),
        ({"kind": "cluster"}, "entrypoint is for jobs"),
        ({"kind": "cluster", "entrypoint": None, "retries": 1}, "retries is for jobs"),
        ({"workers": []}, "there are no workers, and the head runs nothing"),
        ({"workers": [{"name": "a"}, {"name": "a"}]}, "two groups of workers are called 'a'"),
        ({"workers": [{"name": "a", "max_replicas": 2}]}, "autoscaling: true"),
        ({"workers": [{"name": "a", "min_replicas": 2}]}, "replicas 1 does not lie between min_replicas 2"),
        ({"workers": [{"name": "a", "spread": "pack"}]}, "'node', 'even', 'prefer' or 'none'"),
        ({"workers": [{"name": "a", "tolerations": [{"value": "x"}]}]}, "name its key, too"),
        ({"workers": [{"name": "a", "tolerations": [{"seconds": 1}]}]}, "NoExecute"),
        ({"workers": [{**WORKERS, "machines": {"count": 6}}]}, "7 pods on 6 machines with room for one pod each"),
        ({"workers": [{**WORKERS, "machines": {"cpus": 5}}]}, "a pod needs cpus 6, and a machine has 5"),
        ({"workers": [{**WORKERS, "gpus": 3, "machines": {"gpus": 8, "gpus_kept": 6}}]}, "takes 3 of 8 GPUs, and 6"),
        ({"workers": [{**WORKERS, "gpus": 1, "machines": {"gpus_kept": 6}}]}, "of how many"),
        (
            {"workers": [{**WORKERS, "gpus": 1, "spread": "even", "machines": {"gpus": 8, "gpus_kept": 6}}]},
            "say `spread: node`",
        ),
        ({"env": {"LLM_TOKEN": "abc"}}, "LLM_TOKEN looks like a secret"),
        ({"runtime_env": {"env_vars": {"S3_SECRET_ACCESS_KEY": "abc"}}}, "runtime_env.env_vars: S3_SECRET_ACCESS_KEY"),
        ({"env": {"A": "https://anna:abc@example.org/x"}}, "env: has an address with a password"),
        ({"workers": [{"name": "w", "env": {"PGPASSWORD": "abc"}}]}, "PGPASSWORD looks like a secret"),
        ({"runtime_env": {"pip": ["x", f"git+https://{'t' * 40}@example.org/x"]}}, "runtime_env: has an address with"),
        ({"entrypoint": ["train", "--llm-key=abc"]}, "entrypoint: llm-key looks like a secret"),
        ({"entrypoint": ["train", "--password", "abc"]}, "entrypoint: password looks like a secret"),
        ({"entrypoint": ["train", "llm.api_key=abc"]}, "entrypoint: llm.api_key looks like a secret"),
        ({"entrypoint": ["train", "s3://anna:abc@example.org"]}, "entrypoint: an address with a password"),
        ({"env": {"A": "x"}, "secrets": [{"secret": "s", "env": "A", "key": "k"}]}, "A comes from a Secret, too"),
        ({"env": {"a b": "x"}}, "'a b' is no name of a variable"),
        ({"head": {"env": {"1A": "x"}}}, "'1A' is no name of a variable"),
        ({"runtime_env": {"env_vars": {"A": 1}}}, "A is no text, and all variables are"),
        (
            {"secrets": [{"secret": name, "env": "A", "key": "k"} for name in "st"]},
            "two secrets are to be the variable A",
        ),
        ({"entrypoint": [" ", "x"]}, "the first word of entrypoint"),
        ({"workers": [{"name": "head"}]}, "other pods of Ray are called so"),
        ({"workers": [{"name": "w", "gpus": 1, "gpu_resource": "cpu"}]}, "gpu_resource"),
        ({"network": {"reach": [{"cidr": "999.1.1.1/99"}]}}, "cidr"),
        ({"volumes": [{"claim": "c", "mount": "/a/../b"}]}, "without `..`"),
        ({"volumes": [{"claim": "c", "mount": "/"}]}, "a folder below /"),
        ({"volumes": [{"claim": "c", "mount": "/a/"}]}, "without a slash at its end"),
        ({"files": ["x"], "volumes": [{"claim": "c", "mount": "/etc/hostler/files"}]}, "two things are to lie in"),
        ({"operators": [{"kind": "User", "name": "x", "namespace": "y"}]}, "a User has none"),
        ({"secrets": [{"secret": "s"}]}, "exactly one of env"),
        ({"secrets": [{"secret": "s", "env": "A"}]}, "env and key go together"),
        ({"secrets": [{"secret": "s", "value": "x"}]}, "value: is no setting"),
        ({"secrets": [{"secret": "s", "mount": "/a"}], "volumes": [{"claim": "c", "mount": "/a"}]}, "two things"),
        ({"files": ["a/x", "b/x"]}, "two files are called 'x'"),
        ({"priority": "low"}, "a queue of Kueue"),
        ({"openshift": True, "run_as": 1000}, "are chosen by OpenShift"),
        ({"dashboard": {"image": "h"}}, "name a `tls_secret`"),
        ({"dashboard": {"image": "h", "tls_secret": "t", "plain": True}}, "contradict each other"),
        ({"network": {"reach": [{"ports": [80]}]}}, "give either cidr, or namespace"),
        ({"env": {"NVIDIA_VISIBLE_DEVICES": "all"}}, "shows GPUs to pods that have asked for none"),
    ],
)
def test_what_contradicts_itself_is_refused(tmp_path: Path, changes: dict[str, object], says: str) -> None:
    with pytest.raises(SettingsError) as caught:
        read(tmp_path, **changes)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("LLM_TOKEN", True),
        ("S3_ACCESS_KEY_ID", True),
        ("openai_api_key", True),
        ("PASSWORD", True),
        ("PGPASSWORD", True),
        ("LLM_KEY", True),
        ("SSH_PUBLIC_KEY", False),
        ("HF_TOKEN_PATH", False),
        ("LLM_TOKEN_FILE", False),
        ("TOKEN_URL", False),
        ("OLDPWD", False),
        ("MAX_TOKENS", False),
        ("KEYBOARD", False),
        ("TOKENIZERS_PARALLELISM", False),
        ("OMP_NUM_THREADS", False),
    ],
)
def test_names_that_usually_hold_secrets(name: str, secret: bool) -> None:
    assert is_secret(name) is secret


def test_a_machine_has_room_for_several_pods_that_are_not_kept_apart() -> None:
    machines = KubeMachines(count=2, cpus=30.0, memory_gb=127.0)
    fits = {"name": "w", "cpus": 6.0, "memory_gb": 28.0, "spread": "even", "machines": machines}
    assert KubeWorkers(replicas=8, **fits).most == 8
    with pytest.raises(ValidationError, match="9 pods on 2 machines with room for 4 pods each"):
        KubeWorkers(replicas=9, **fits)


@given(
    st.integers(1, 20), st.integers(1, 20), st.integers(1, 64), st.integers(1, 64),
    st.integers(0, 8), st.integers(0, 8), st.integers(0, 8), st.sampled_from(["node", "even", "none"]),
)  # fmt: skip
def test_what_is_let_through_fits_and_keeps_the_gpus(
    replicas: int, count: int, cpus: int, has: int, gpus: int, there: int, kept: int, spread: str
) -> None:
    machines = KubeMachines(count=count, cpus=float(has), gpus=there, gpus_kept=kept)
    asked = {"name": "w", "replicas": replicas, "cpus": float(cpus), "gpus": gpus, "spread": spread}
    try:
        group = KubeWorkers.model_validate({**asked, "machines": machines})
    except ValidationError:
        return
    assert workers_fault(group) is None
    each = 1 if spread == "node" else math.ceil(replicas / count)
    assert each * cpus <= has
    assert replicas <= count * (1 if spread == "node" else has // cpus)
    if gpus:
        assert each * gpus <= there
        assert not kept or each * gpus <= there - kept
