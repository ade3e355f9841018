"""The client against a cluster on loopback: real HTTP, and the server's own checks."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hostler.backends.kuberay.objects import Manifest
from hostler.backends.kuberay.sources import Rendered, render
from hostler.model.errors import Conflict, HostlerError, LinkLost, LinkRefused, NotFound, UsageError
from hostler.settings import load

pytest.importorskip("lightkube", reason="lightkube is not installed: pip install 'hostler[k8s]'")

from hostler.backends.kuberay.cluster import TRIES, Cluster
from tests.backends.kuberay.apiserver import NO_ROOM

if TYPE_CHECKING:
    from tests.backends.kuberay.apiserver import World

FLEETS = Path(__file__).parent / "fleets"


def fleet(name: str) -> Rendered:
    return render(load(FLEETS / f"{name}.yaml", {}))


@pytest.fixture
def rests() -> list[float]:
    return []


@pytest.fixture
def cluster(world: World, rests: list[float]) -> Iterator[Cluster]:
    with Cluster.connect() as made:
        made._rest = rests.append
        yield made


def did(cluster: Cluster, rendered: Rendered, *, dry_run: bool = False, force: bool = False) -> set[str]:
    return {each.did for each in cluster.apply(rendered.manifests, dry_run=dry_run, force=force)}


@pytest.mark.parametrize(
    "name", ["smallest", *(pytest.param(each, marks=pytest.mark.long) for each in ("queued", "openshift"))]
)
def test_a_server_takes_what_is_rendered_and_takes_it_once(cluster: Cluster, world: World, name: str) -> None:
    rendered = fleet(name)
    assert did(cluster, rendered, dry_run=True) == {"created"}
    assert world.objects == {}
    assert did(cluster, rendered) == {"created"}
    assert did(cluster, rendered) == {"unchanged"}
    assert did(cluster, rendered, dry_run=True) == {"unchanged"}
    kinds = [each["kind"] for each in rendered.manifests]
    own = [each for each in world.objects.values() if each["metadata"].get("labels", {}).get("app.kubernetes.io/name")]
    assert sorted(each["kind"] for each in own) == sorted(kinds)


def test_what_is_asked_for_no_more_goes_and_what_others_set_stays(cluster: Cluster, world: World) -> None:
    rendered = fleet("queued")
    did(cluster, rendered)
    assert world.get("rayjobs", "zelda")["spec"]["suspend"] is True  # Kueue's webhook
    changed = copy.deepcopy(rendered.manifests)
    del changed[-1]["spec"]["activeDeadlineSeconds"]
    changed[-1]["spec"]["backoffLimit"] = 5
    assert did(cluster, replace(rendered, manifests=changed)) == {"unchanged", "changed"}
    spec = world.get("rayjobs", "zelda")["spec"]
    assert (spec["suspend"], spec["backoffLimit"], "activeDeadlineSeconds" in spec) == (True, 5, False)


def test_fields_of_others_are_taken_over_only_by_force(cluster: Cluster) -> None:
    rendered = fleet("queued")
    did(cluster, rendered)
    changed = copy.deepcopy(rendered.manifests)
    changed[-1]["spec"]["suspend"] = False
    fought = replace(rendered, manifests=changed)
    with pytest.raises(LinkRefused, match=r'conflict with "kueue": .spec.suspend.*--force-conflicts'):
        did(cluster, fought)
    assert did(cluster, fought, force=True) == {"unchanged", "changed"}


@pytest.mark.usefixtures("crds")
def test_a_dry_run_tells_the_field(cluster: Cluster, world: World) -> None:
    (*others, main) = fleet("smallest").manifests
    main["spec"]["rayClusterSpec"]["workerGroupSpecs"][0]["replica"] = 2
    with pytest.raises(LinkRefused, match=r"RayJob rl/smallest: .*workerGroupSpecs\[0\].replica: .*'replicas'"):
        list(cluster.apply([*others, main], dry_run=True, force=False))
    assert world.objects == {}


def test_of_kubernetes_own_kinds_the_server_knows_every_field(cluster: Cluster) -> None:
    manifests = copy.deepcopy(fleet("queued").manifests)
    (policy, *_) = [each for each in manifests if each["kind"] == "NetworkPolicy"]
    policy["spec"]["ingres"] = []
    with pytest.raises(LinkRefused, match=r"NetworkPolicy rl/zelda-ray: .*spec.ingres: unknown field"):
        list(cluster.apply([policy], dry_run=True, force=False))


def test_a_job_that_waits_in_a_queue_runs_and_ends(cluster: Cluster, world: World) -> None:
    main = fleet("queued").main
    did(cluster, fleet("queued"))
    seen = cluster.watch(main)
    assert next(seen).words == f"queued by Kueue: in research: {NO_ROOM}"
    with pytest.raises(NotFound, match=r"has no pod of 'submitter' .*queued by Kueue"):
        list(cluster.logs(main, "submitter", follow=False, tail=None))
    world.admit("zelda")
    while (now := next(seen)).phase == "queued":
        pass
    assert now.phase == "starting"
    world.run("zelda")
    assert next(seen).phase == "running"
    lines = cluster.logs(main, "submitter", follow=True, tail=None)
    assert next(lines) == "zelda-submitter begins"
    world.log("zelda-submitter", "step 1")
    assert next(lines) == "step 1"
    world.end("zelda")
    assert list(lines) == []
    last = next(seen)
    assert (last.phase, last.good) == ("done", True)
    assert list(seen) == []


@pytest.mark.long
def test_a_job_that_fails_says_why(cluster: Cluster, world: World) -> None:
    did(cluster, fleet("smallest"))
    assert cluster.standing(fleet("smallest").main).phase == "new"
    world.run("smallest")
    world.end("smallest", "FAILED", reason="AppFailed", message="exit code 1")
    (last,) = cluster.watch(fleet("smallest").main)
    assert (last.words, last.good) == ("failed (AppFailed: exit code 1)", False)


def test_logs_of_pods_by_what_they_are(cluster: Cluster, world: World) -> None:
    main = fleet("queued").main
    did(cluster, fleet("queued"))
    world.run("zelda")
    world.log("zelda-sampling", "two")
    assert list(cluster.logs(main, "sampling", follow=False, tail=1)) == ["two"]
    assert list(cluster.logs(main, "head", follow=False, tail=None)) == ["zelda-head begins"]
    with pytest.raises(NotFound, match="'nobody'"):
        list(cluster.logs(main, "nobody", follow=False, tail=None))
    by_http = {**main, "spec": {**main["spec"], "submissionMode": "HTTPMode"}}
    with pytest.raises(UsageError, match="Ray's dashboard has it"):
        list(cluster.logs(by_http, "submitter", follow=False, tail=None))
    beside = {**main, "spec": {**main["spec"], "submissionMode": "SidecarMode"}}
    assert list(cluster.logs(beside, "submitter", follow=False, tail=None)) == ["zelda-head begins"]


def test_why_a_job_waits_is_unknown_to_who_may_not_see_it(cluster: Cluster, world: World) -> None:
    did(cluster, fleet("queued"))
    world.forbidden.add(("GET", "workloads"))
    assert "why cannot be read" in cluster.standing(fleet("queued").main).words
    del world.groups["kueue.x-k8s.io/v1beta1"]
    assert "is Kueue on for RayJob" in cluster.standing(fleet("queued").main).words


def test_a_watch_that_breaks_is_begun_anew(cluster: Cluster, world: World, rests: list[float]) -> None:
    did(cluster, fleet("smallest"))
    world.breaks = 3
    seen = cluster.watch(fleet("smallest").main)
    assert next(seen).phase == "new"
    world.tell("smallest", jobDeploymentStatus="Initializing")
    assert next(seen).phase == "starting"
    world.remove(("ray.io/v1", "rayjobs", "rl", "smallest"))
    (last,) = seen
    assert (last.phase, last.good) == ("gone", False)
    assert len(rests) <= 3


STATUS = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
SHORT = {"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": {"name": "smallest", "resourceVersion": "7"}}


def event(kind: str, found: object) -> tuple[int, str, str]:
    return 200, "application/json", json.dumps({"type": kind, "object": found}) + "\n"


def failed(code: int) -> tuple[int, str, str]:
    return code, "application/json", json.dumps({**STATUS, "code": code, "message": "made up"})


WATCHES = {
    "ends at once": (200, "application/json", ""),
    "too old a version, as an event": event("ERROR", {**STATUS, "code": 410, "message": "too old"}),
    "in trouble, as an event": event("ERROR", {**STATUS, "code": 500, "message": "etcd"}),
    "too old a version": failed(410),
    "too many questions": failed(429),
    "in trouble": failed(500),
    "a page of a gateway": (502, "text/html", "<html>"),
    "no events": (200, "application/json", "what?\n"),
    "an event of nothing": event("MODIFIED", None),
    "a bookmark": event("BOOKMARK", SHORT),
}
FEW_WATCHES = ("no events", "too old a version, as an event", "a page of a gateway", "in trouble")


@pytest.mark.parametrize(
    "said",
    [
        pytest.param(said, id=name, marks=() if name in FEW_WATCHES else pytest.mark.long)
        for name, said in WATCHES.items()
    ],
)
def test_a_watch_that_tells_nothing_is_begun_anew_ever_more_rarely(
    cluster: Cluster, world: World, rests: list[float], said: tuple[int, str, str]
) -> None:
    did(cluster, fleet("smallest"))
    world.odd = lambda _, path: said if "watch=" in path and len(rests) < 9 else None
    world.asked.clear()
    seen = cluster.watch(fleet("smallest").main)
    assert next(seen).phase == "new"
    cluster._rest = lambda seconds: (rests.append(seconds), _ends_after(world, rests))[0]
    (last,) = seen
    assert (last.phase, last.good) == ("done", True)
    assert rests == [1, 2, 4, 8, 16, 32, 32, 32, 32]
    assert len(world.asked) < 24


def _ends_after(world: World, rests: list[float]) -> None:
    if len(rests) == 9:
        world.end("smallest")


def test_a_watch_that_may_not_be_is_told(cluster: Cluster, world: World) -> None:
    did(cluster, fleet("smallest"))
    world.odd = lambda _, path: failed(403) if "watch=" in path else None
    with pytest.raises(LinkRefused, match="403"):
        list(cluster.watch(fleet("smallest").main))


ODD = {
    "a page": (200, "text/html", "<html>log in</html>"),
    "a page that says it is JSON": (200, "application/json", "<html>"),
    "a failure that says it is JSON": (500, "application/json", "<html>"),
    "another page": (404, "text/html", "<html>nothing here</html>"),
    "a door": (401, "text/html", "<html>log in</html>"),
    "somewhere else": (302, "text/html", ""),
    "a list": (200, "application/json", "[1]"),
    "nothing": (200, "application/json", "null"),
    "no object": (200, "application/json", "{}"),
    "half an object": (200, "application/json", '{"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": null}'),
    "an odd one": (200, "application/json", json.dumps({**SHORT, "spec": "x", "status": [1]})),
    **{f"{code}": failed(code) for code in (400, 401, 403, 409, 410, 422, 429, 500, 503)},
}
FEW_ODD = (
    "a page",
    "a failure that says it is JSON",
    "somewhere else",
    "a list",
    "half an object",
    "403",
    "410",
    "503",
)


@pytest.mark.parametrize(
    "said",
    [pytest.param(said, id=name, marks=() if name in FEW_ODD else pytest.mark.long) for name, said in ODD.items()],
)
def test_whatever_a_server_answers_is_told_of_and_nothing_is_made_of_it(
    cluster: Cluster, world: World, said: tuple[int, str, str]
) -> None:
    main = fleet("smallest").main
    world.odd = lambda *_: said
    for ask in (
        lambda: cluster.standing(main),
        lambda: list(cluster.apply([main], dry_run=False, force=False)),
        lambda: list(cluster.delete([main])),
        lambda: list(cluster.logs(main, "head", follow=False, tail=None)),
        lambda: list(cluster.watch(main)),
        lambda: cluster.listed("v1", "ResourceQuota", "rl"),
    ):
        with pytest.raises((LinkLost, LinkRefused)) as caught:
            ask()
        assert "made-up" not in str(caught.value), "the token of the kubeconfig"
    assert {method for method, _ in world.asked} == {"GET"}


def test_a_cluster_that_does_not_answer_is_no_job_that_is_gone(rests: list[float], world: World) -> None:
    with Cluster.connect("dead") as dead:
        dead._rest = rests.append
        with pytest.raises(LinkLost, match="what is there is unknown"):
            dead.standing(fleet("smallest").main)
        with pytest.raises(LinkLost):
            list(dead.watch(fleet("smallest").main))
    assert rests == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0][:TRIES]


def test_what_is_over_is_not_applied_again(cluster: Cluster, world: World) -> None:
    did(cluster, fleet("smallest"))
    world.end("smallest", "FAILED")
    before = len(world.events)
    with pytest.raises(Conflict, match=r"RayJob rl/smallest is over already: failed; .*hostler kuberay delete"):
        did(cluster, fleet("smallest"))
    assert len(world.events) == before


def test_everything_is_deleted_the_last_first_and_nothing_of_others(cluster: Cluster, world: World) -> None:
    rendered = fleet("queued")
    did(cluster, rendered)
    gone = list(cluster.delete(rendered.manifests))
    assert gone[0].object == "RayJob rl/zelda"
    assert {each.did for each in gone} == {"deleted"}
    assert world.names("rayjobs") == world.names("deployments") == []
    assert {each.did for each in cluster.delete(rendered.manifests)} == {"was not there"}


def test_what_is_not_hostlers_stays(cluster: Cluster, world: World) -> None:
    foreign: Manifest = {"apiVersion": "ray.io/v1", "kind": "RayJob", "spec": {}}
    world.put("ray.io/v1", "rayjobs", {**foreign, "metadata": {"name": "smallest", "namespace": "rl"}})
    with pytest.raises(Conflict, match="is not Hostler's"):
        list(cluster.delete(fleet("smallest").manifests))
    assert world.names("rayjobs") == ["smallest"]


def test_what_is_missing_is_named_with_what_to_do(cluster: Cluster, world: World) -> None:
    def refused(name: str) -> str:
        with pytest.raises(HostlerError) as caught:
            did(cluster, fleet(name))
        return str(caught.value)

    world.namespaces.remove("rl")
    assert "kubectl create namespace rl" in refused("smallest")
    world.namespaces.add("rl")
    del world.groups["route.openshift.io/v1"]
    assert "not OpenShift" in refused("openshift")
    del world.groups["ray.io/v1"]
    assert "no KubeRay" in refused("smallest")
    world.groups["ray.io/v1"] = {"rayjobs": "RayJob"}
    world.forbidden.add(("PATCH", "rayjobs"))
    told = refused("smallest")
    assert 'User "anna" cannot patch' in told
    assert "operators" in told


def test_no_cluster_is_said(world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no Kubernetes cluster to talk to: .*nowhere.*get-contexts"):
        Cluster.connect("nowhere")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "absent"))
    with pytest.raises(UsageError, match="no Kubernetes cluster"):
        Cluster.connect()
