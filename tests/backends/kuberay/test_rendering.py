"""What is written for fleet files: as it was agreed on (golden/), and true of every one of them.

`UPDATE_GOLDEN=1` writes the golden files anew.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from hostler.backends.kuberay.objects import Manifest
from hostler.backends.kuberay.sources import Rendered, render
from hostler.backends.kuberay.text import stream
from hostler.settings import load

HERE = Path(__file__).parent
FLEETS = ("smallest", "queued", "openshift")


def made(name: str) -> Rendered:
    return render(load(HERE / "fleets" / f"{name}.yaml", {}))


def one(rendered: Rendered, kind: str, name: str | None = None) -> Manifest:
    found = [each for each in rendered.manifests if each["kind"] == kind and name in (None, each["metadata"]["name"])]
    assert len(found) == 1
    return found[0]


def groups(rendered: Rendered) -> dict[str, Any]:
    spec = rendered.main["spec"]
    return {each["groupName"]: each for each in spec.get("rayClusterSpec", spec)["workerGroupSpecs"]}


def pods(rendered: Rendered) -> Iterator[tuple[str, Any]]:
    """Every pod's template, by what it is."""
    spec = rendered.main["spec"]
    if "submitterPodTemplate" in spec:
        yield "submitter", spec["submitterPodTemplate"]
    yield "head", spec.get("rayClusterSpec", spec)["headGroupSpec"]["template"]
    yield from ((name, group["template"]) for name, group in groups(rendered).items())
    for each in rendered.manifests:
        if each["kind"] == "Deployment":
            yield "dashboard", each["spec"]["template"]


@pytest.mark.parametrize("name", FLEETS)
def test_manifests_are_as_they_were_agreed_on(name: str) -> None:
    golden = HERE / "golden" / f"{name}.yaml"
    text = stream(made(name).manifests)
    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")


def test_there_is_no_golden_file_that_nobody_makes() -> None:
    assert {path.stem for path in (HERE / "golden").glob("*.yaml")} == set(FLEETS)


@pytest.mark.parametrize("seed", ["1", pytest.param("2", marks=pytest.mark.long)])
def test_the_bytes_do_not_depend_on_the_process(seed: str) -> None:
    """Nor on what its hashes begin with."""
    program = (
        "import sys; from pathlib import Path; from hostler.settings import load;"
        "from hostler.backends.kuberay.sources import render; from hostler.backends.kuberay.text import stream;"
        "sys.stdout.write(stream(render(load(Path(sys.argv[1]), {})).manifests))"
    )
    command = [sys.executable, "-c", program, str(HERE / "fleets/queued.yaml")]
    environ = {**os.environ, "PYTHONHASHSEED": seed}
    made = subprocess.run(command, capture_output=True, text=True, env=environ, check=True).stdout
    assert made == (HERE / "golden/queued.yaml").read_text(encoding="utf-8")


def test_the_bytes_do_not_depend_on_the_order_of_what_has_none(tmp_path: Path) -> None:
    section = yaml.safe_load((HERE / "fleets/queued.yaml").read_text(encoding="utf-8"))["kuberay"]
    many = {"B": "2", "A": "$(B)", "C": "3"}
    section |= {"env": many, "files": [], "dashboard": None}
    section["head"] = {**section.get("head", {}), "node_selector": {"b": "1", "a": "2"}, "env": many}
    texts = set()
    for turned in (section, _backwards(section)):
        (tmp_path / "fleet.yaml").write_text(json.dumps({"kuberay": turned}))
        texts.add(stream(render(load(tmp_path / "fleet.yaml", {})).manifests))
    (text,) = texts
    head = next(each for each in yaml.safe_load_all(text) if each["kind"] == "RayJob")["spec"]["rayClusterSpec"]
    env = head["headGroupSpec"]["template"]["spec"]["containers"][0]["env"]
    names = [each["name"] for each in env if "value" in each]
    assert names[-1] == "A", "what refers to another one comes after it"


def _backwards(value: Any) -> Any:
    """Mappings from their end."""
    if isinstance(value, dict):
        return {name: _backwards(value[name]) for name in reversed(value)}
    return [_backwards(each) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize("name", FLEETS)
def test_requests_are_limits_and_nobody_is_root(name: str) -> None:
    for what, template in pods(made(name)):
        spec = template["spec"]
        assert spec["securityContext"]["runAsNonRoot"] is True, what
        for container in spec["containers"]:
            resources = container["resources"]
            assert resources["requests"] == resources["limits"] != {}, what
            assert container["securityContext"]["allowPrivilegeEscalation"] is False


@pytest.mark.parametrize("name", FLEETS)
def test_who_asked_for_no_gpu_sees_none(name: str) -> None:
    for what, template in pods(made(name)):
        if what in ("submitter", "dashboard"):
            continue
        container = template["spec"]["containers"][0]
        env = {each["name"]: each.get("value") for each in container["env"]}
        wants = "nvidia.com/gpu" in container["resources"]["limits"]
        assert (env.get("NVIDIA_VISIBLE_DEVICES") == "void") is not wants, what


def test_groups_are_kept_apart_by_the_labels_their_pods_have() -> None:
    found = {name: group["template"] for name, group in groups(made("queued")).items()}
    for name in ("sampling", "learning"):
        affinity = found[name]["spec"]["affinity"]["podAntiAffinity"]
        (term,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]
        assert term["topologyKey"] == "kubernetes.io/hostname"
        assert term["labelSelector"]["matchLabels"] == found[name]["metadata"]["labels"]
    for name, what in (("even", "DoNotSchedule"), ("prefer", "ScheduleAnyway")):
        (spread,) = found[name]["spec"]["topologySpreadConstraints"]
        assert (spread["maxSkew"], spread["whenUnsatisfiable"]) == (1, what)
        assert spread["labelSelector"]["matchLabels"] == found[name]["metadata"]["labels"]
    assert not {"affinity", "topologySpreadConstraints"} & found["anywhere"]["spec"].keys()
    assert found["even"]["spec"]["topologySpreadConstraints"][0]["topologyKey"] == "topology.kubernetes.io/zone"


def test_secrets_are_named_and_never_told() -> None:
    text = stream(made("queued").manifests)
    assert "kind: Secret\n" not in text
    (variable,) = [
        each for each in groups(made("queued"))["sampling"]["template"]["spec"]["containers"][0]["env"]
        if each["name"] == "LLM_TOKEN"
    ]  # fmt: skip
    assert variable == {"name": "LLM_TOKEN", "valueFrom": {"secretKeyRef": {"name": "llm", "key": "token"}}}


@pytest.mark.parametrize("name", FLEETS)
def test_nobody_may_read_secrets_and_pods_have_no_token_they_do_not_need(name: str) -> None:
    rendered = made(name)
    for each in rendered.manifests:
        if each["kind"] == "Role":
            for rule in each["rules"]:
                assert "secrets" not in rule["resources"]
                assert "*" not in [*rule["verbs"], *rule["resources"], *rule["apiGroups"]]
                changing = {"patch", "update", "delete"} & set(rule["verbs"])
                assert not changing or rule["resourceNames"] == [rendered.asked.name]
    needing = {"openshift": {"head", "dashboard"}}.get(name, set())
    assert {what for what, pod in pods(rendered) if pod["spec"]["automountServiceAccountToken"]} == needing


def test_a_queue_is_a_label_and_suspend_is_left_to_kueue() -> None:
    main = made("queued").main
    assert main["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "research"
    assert main["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] == "low"
    assert "suspend" not in main["spec"]
    assert "kueue" not in stream(made("smallest").manifests)


def test_on_openshift_the_cluster_chooses_users_and_makes_the_certificate() -> None:
    rendered = made("openshift")
    assert "runAsUser" not in stream(rendered.manifests)
    assert "fsGroup" not in stream(rendered.manifests)
    route, service = one(rendered, "Route"), one(rendered, "Service")
    assert route["spec"]["tls"] == {"termination": "reencrypt", "insecureEdgeTerminationPolicy": "Redirect"}
    assert route["spec"]["port"]["targetPort"] == service["spec"]["ports"][0]["name"]
    secret = service["metadata"]["annotations"]["service.beta.openshift.io/serving-cert-secret-name"]
    volumes = one(rendered, "Deployment")["spec"]["template"]["spec"]["volumes"]
    assert {"name": "tls", "secret": {"secretName": secret}} in volumes
    ports = {
        each["port"]
        for rule in one(rendered, "NetworkPolicy", "zelda-ray")["spec"]["egress"]
        for each in rule.get("ports", ())
    }
    assert ports >= {53, 5353, 443, 6443}
    head = dict(pods(rendered))["head"]["spec"]["containers"][0]["env"]
    assert {"name": "HOME", "value": "/tmp"} in head


def test_elsewhere_users_are_rays_own() -> None:
    security = dict(pods(made("smallest")))["head"]["spec"]["securityContext"]
    assert (security["runAsUser"], security["fsGroup"]) == (1000, 1000)
    assert not [each for each in made("queued").manifests if each["kind"] == "Route"]


def test_ray_pods_reach_what_is_named_and_nothing_else() -> None:
    spec = one(made("queued"), "NetworkPolicy", "zelda-ray")["spec"]
    assert spec["policyTypes"] == ["Ingress", "Egress"]
    own, dns, llm, addresses = spec["egress"]
    assert own == {"to": [{"podSelector": {"matchLabels": {"app.kubernetes.io/instance": "zelda"}}}]}
    assert {each["port"] for each in dns["ports"]} == {53}
    assert llm["to"][0]["namespaceSelector"] == {"matchLabels": {"kubernetes.io/metadata.name": "models"}}
    assert addresses["to"] == [{"ipBlock": {"cidr": "10.20.0.0/16"}}]
    operator = spec["ingress"][1]["from"][0]
    assert operator["namespaceSelector"]["matchLabels"] == {"kubernetes.io/metadata.name": "kuberay"}
    selected = spec["podSelector"]["matchLabels"].items()
    for what, template in pods(made("queued")):
        assert (selected <= template["metadata"]["labels"].items()) is (what != "dashboard")


@pytest.mark.parametrize(("name", "tls"), [("queued", True), ("openshift", True)])
def test_a_controller_takes_the_settings_its_pod_gives_it(name: str, tls: bool, tmp_path: Path) -> None:
    rendered = made(name)
    container = dict(pods(rendered))["dashboard"]["spec"]["containers"][0]
    data = one(rendered, "ConfigMap", "zelda-dashboard")["data"]["fleet.yaml"]
    (tmp_path / "fleet.yaml").write_text(data, encoding="utf-8")
    loaded = load(tmp_path / "fleet.yaml", {each["name"]: each["value"] for each in container["env"]})
    api = loaded.fleet.api
    assert (api.host, api.port, api.certificate is not None) == ("0.0.0.0", 8765, tls)
    assert f"zelda-dashboard.{rendered.asked.namespace}.svc" in api.names
    assert str(rendered.asked.dashboard.host if rendered.asked.dashboard else None) in api.names
    assert str(loaded.state_dir) == "/var/lib/hostler"
    assert container["readinessProbe"]["httpGet"] == {"path": "/healthz", "port": "web", "scheme": "HTTPS"}


def test_another_fleet_file_is_another_pod() -> None:
    def digest(rendered: Rendered) -> str:
        return str(dict(pods(rendered))["dashboard"]["metadata"]["annotations"]["hostler/fleet-sha256"])

    assert digest(made("queued")) != digest(made("openshift"))
    given = one(made("openshift"), "ConfigMap")["data"]["fleet.yaml"]
    assert given == (HERE / "fleets/board.yaml").read_text(encoding="utf-8")


def test_files_travel_to_every_ray_pod() -> None:
    rendered = made("smallest")
    given = one(rendered, "ConfigMap")
    assert yaml.safe_load(given["data"]["order.yaml"])["game"] == "keyrooms"
    for what in ("head", "cpu"):
        spec = dict(pods(rendered))[what]["spec"]
        (mount,) = spec["containers"][0]["volumeMounts"]
        assert mount["mountPath"] == "/etc/hostler/files"
        assert spec["volumes"] == [{"name": mount["name"], "configMap": {"name": given["metadata"]["name"]}}]
