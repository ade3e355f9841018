"""A Kubernetes cluster, through lightkube: apply, look, watch, read logs, delete. Needs the extra `k8s`.

Objects go out and come in as plain manifests. Everything is applied by the server (server-side apply), under one
manager's name, so that what others set (Kueue sets `suspend`) stays theirs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import httpx2

from hostler.backends.kuberay.objects import Manifest, named
from hostler.backends.kuberay.pods import COMPONENT, GROUP, HEAD, INSTANCE, RAY, SUBMITTER, SUBMITTER_CONTAINER, WORKER
from hostler.backends.kuberay.rendering import MANAGED_BY
from hostler.backends.kuberay.standing import GONE, Standing, standing
from hostler.model.errors import Conflict, LinkLost, LinkRefused, NotFound, UsageError

try:
    from lightkube import ApiError, Client, KubeConfig
    from lightkube.codecs import resource_registry
    from lightkube.core.exceptions import ConfigError, LoadResourceError
    from lightkube.core.resource import api_info
    from lightkube.generic_resource import create_global_resource, create_namespaced_resource
    from lightkube.models.authorization_v1 import ResourceAttributes, SelfSubjectAccessReviewSpec
    from lightkube.resources.authorization_v1 import SelfSubjectAccessReview
    from lightkube.resources.core_v1 import Pod
    from lightkube.types import CascadeType, PatchType
    from msgspec import MsgspecError
except ImportError as error:
    raise UsageError("talking to Kubernetes needs lightkube: pip install 'hostler[k8s]'") from error

MANAGER = "hostler"
PATIENCE_S = 15.0
WATCH_S = 240
"""The server ends a watch after so long, and it is begun anew."""
TRIES, REST_S = 6, 1.0
"""So often a cluster is asked in vain before it is given up; and the first rest between two tries, which grows by twice
until there have been so many."""
LASTED_S = 10.0
"""A watch that ended sooner, and told nothing, is begun anew after a rest."""
WORKLOAD_VERSIONS = ("v1beta2", "v1beta1")
FOREIGN = {
    ("ray.io/v1", "RayJob"): "rayjobs",
    ("ray.io/v1", "RayCluster"): "rayclusters",
    ("route.openshift.io/v1", "Route"): "routes",
    **{(f"kueue.x-k8s.io/{version}", "Workload"): "workloads" for version in WORKLOAD_VERSIONS},
    **{(f"kueue.x-k8s.io/{version}", "LocalQueue"): "localqueues" for version in WORKLOAD_VERSIONS},
    **{(f"kueue.x-k8s.io/{version}", "ClusterQueue"): "clusterqueues" for version in WORKLOAD_VERSIONS},
}
"""Kinds that Kubernetes itself does not have, and their plurals."""
NOWHERE = frozenset({"ClusterQueue"})
"""Those of them that are in no namespace."""
MISSING = {
    "ray.io": "the cluster has no KubeRay; its operator has to be installed first",
    "route.openshift.io": "the cluster is not OpenShift; leave `openshift` out",
}


@dataclass(frozen=True, slots=True)
class Applied:
    """What became of an object."""

    object: str
    did: str
    """`created`, `changed`, `unchanged`; of a dry run, what would become of it."""


class _Ended(httpx2.HTTPError):
    """The server has ended a watch."""


class _Client(Client):
    """lightkube's begins anew what the server has ended, at once and for ever, and waits without end for a watch that
    has fallen silent. With this one a watch is one request."""

    def __init__(self, config: Any) -> None:
        super().__init__(config, timeout=httpx2.Timeout(PATIENCE_S), field_manager=MANAGER)
        self._begun = False
        self._client._watch_timeout.read = WATCH_S + PATIENCE_S
        self._client._client.event_hooks = {"request": [self._once]}

    def watch(self, *args: Any, **asked: Any) -> Iterator[tuple[str, Any]]:
        """Changes until the server ends it. Raises `httpx2.HTTPStatusError` where it is refused."""
        self._begun = False
        with suppress(_Ended):
            yield from super().watch(*args, **asked)

    def _once(self, request: httpx2.Request) -> None:
        if "watch" in request.url.params:
            if self._begun:
                raise _Ended("the watch is over")
            self._begun = True


class Cluster:
    """A cluster that answers. Every method raises `LinkLost` where it does not, or not as an API server does, and
    `LinkRefused` with its own words where it says no."""

    def __init__(
        self,
        client: Client,
        rest: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Of a client of lightkube; `rest` waits for some seconds, `clock` counts them."""
        self._client = client
        self._rest = rest
        self._clock = clock

    @classmethod
    def connect(cls, context: str | None = None) -> Cluster:
        """The cluster of a context of the kubeconfig, or of the pod this runs in; by default the current one. Raises
        `UsageError` where there is none."""
        try:
            config = KubeConfig.from_env().get(context)
            return cls(_Client(config))
        except (ConfigError, KeyError, OSError, ValueError) as error:
            raise UsageError(
                f"no Kubernetes cluster to talk to: {error}; `kubectl config get-contexts` lists them"
            ) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    def apply(self, manifests: Iterable[Manifest], *, dry_run: bool, force: bool) -> Iterator[Applied]:
        """Make objects, or make them as they are given, one after the other; with `dry_run` the server checks and
        keeps nothing. `force` takes over fields that somebody else has set.

        Raises `Conflict` where a RayJob of that name is over: it would not run again. Then nothing was applied.
        """
        wanted = list(manifests)
        there = [self.find(manifest) for manifest in wanted]
        for before in there:
            if before is not None and not dry_run:
                _refuse_ended(before)
        for manifest, before in zip(wanted, there, strict=True):
            with _explained(manifest, "apply"):
                after = self._client.patch(
                    _resource(manifest),
                    manifest["metadata"]["name"],
                    manifest,
                    namespace=manifest["metadata"]["namespace"],
                    patch_type=PatchType.APPLY,
                    field_manager=MANAGER,
                    force=force,
                    dry_run=dry_run,
                )
            yield Applied(named(manifest), _difference(before, _plain(after)))

    def find(self, manifest: Manifest) -> Manifest | None:
        """An object as it is in the cluster; `None`: it is not there."""
        metadata = manifest["metadata"]
        try:
            with _explained(manifest, "read"):
                found = self._client.get(_resource(manifest), metadata["name"], namespace=metadata.get("namespace"))
                return _plain(found)
        except NotFound:
            return None

    def listed(self, version: str, kind: str, namespace: str) -> list[Manifest]:
        """All objects of a kind. Raises `NotFound` where the cluster does not know that kind."""
        asked = {"apiVersion": version, "kind": kind, "metadata": {"namespace": namespace}}
        with _explained(asked, "list"):
            return [_plain(each) for each in self._client.list(_resource(asked), namespace=namespace)]

    def may(self, manifest: Manifest, verb: str, subresource: str | None = None) -> bool:
        """Whether whoever asks may do that with an object, or, where it has no name, with all of its kind there."""
        info, metadata = api_info(_resource(manifest)), manifest["metadata"]
        asked = ResourceAttributes(
            group=info.resource.group,
            version=info.resource.version,
            resource=info.plural,
            subresource=subresource,
            verb=verb,
            namespace=metadata.get("namespace"),
            name=metadata.get("name"),
        )
        review = SelfSubjectAccessReview(spec=SelfSubjectAccessReviewSpec(resourceAttributes=asked))
        with _explained(manifest, "say who may touch"):
            status = self._client.create(review).status
        return status is not None and status.allowed

    def standing(self, manifest: Manifest) -> Standing:
        """How an object is."""
        found = self.find(manifest)
        return GONE if found is None else self._judged(found)

    def watch(self, manifest: Manifest) -> Iterator[Standing]:
        """How it is, each time that changes, until it is over or gone. What breaks is begun anew some times."""
        last: Standing | None = None
        for found in self._changes(manifest):
            now = GONE if found is None else self._judged(found)
            if now != last:
                yield now
            last = now
            if now.over:
                return

    def logs(self, manifest: Manifest, of: str, *, follow: bool, tail: int | None) -> Iterator[str]:
        """Lines of the log of its newest pod: of the `submitter`, which has the job's own output; of the `head`; or of
        a group of workers. Raises `NotFound` where there is no such pod yet."""
        container = None
        labels = _labels(manifest, of)
        if of == SUBMITTER and _mode(manifest) == "SidecarMode":
            labels, container = _labels(manifest, HEAD), SUBMITTER_CONTAINER
        if of == SUBMITTER and _mode(manifest) == "HTTPMode":
            raise UsageError("with HTTPMode the job's output is in no pod's log; Ray's dashboard has it (`--of head`)")
        pod = self._newest(manifest, labels, of)
        with _explained(manifest, "read the log of"):
            yield from self._client.log(
                pod,
                namespace=manifest["metadata"]["namespace"],
                follow=follow,
                tail_lines=tail,
                container=container,
                newlines=False,
            )

    def delete(self, manifests: Iterable[Manifest]) -> Iterator[Applied]:
        """Delete objects, the last first; one that is not there is told so. Raises `Conflict` at one that is not
        Hostler's of that name, and deletes it not."""
        for manifest in reversed(list(manifests)):
            found = self.find(manifest)
            if found is None:
                yield Applied(named(manifest), "was not there")
                continue
            _refuse_others(found, manifest)
            metadata = manifest["metadata"]
            with _explained(manifest, "delete"):
                self._client.delete(
                    _resource(manifest),
                    metadata["name"],
                    namespace=metadata["namespace"],
                    cascade=CascadeType.BACKGROUND,
                )
            yield Applied(named(manifest), "deleted")

    def _judged(self, found: Manifest) -> Standing:
        """Workloads are asked for only where they can say something."""
        first = standing(found, None)
        return standing(found, self._workloads(found)) if first.phase == "queued" else first

    def _workloads(self, found: Manifest) -> list[Manifest] | None:
        namespace = found["metadata"]["namespace"]
        for version in WORKLOAD_VERSIONS:
            try:
                return self.listed(f"kueue.x-k8s.io/{version}", "Workload", namespace)
            except NotFound:
                continue  # that version is not served
            except LinkRefused:
                return None
        return []

    def _changes(self, manifest: Manifest) -> Iterator[Manifest | None]:
        """It, each time it may have changed, without end. A watch is begun with how things are, so that nothing is
        missed between two of them; only a cluster that does not even tell that any more is given up."""
        vain = rests = 0
        while True:
            began = self._clock()
            try:
                now = self.find(manifest)
                vain = 0
                yield now
                for found in () if now is None else self._watched(manifest, now):
                    rests = 0
                    yield found
            except LinkLost:
                vain += 1
                if vain > TRIES:
                    raise
            if self._clock() - began < LASTED_S:
                rests += 1
                self._rest(REST_S * 2 ** (min(rests, TRIES) - 1))

    def _watched(self, manifest: Manifest, now: Manifest) -> Iterator[Manifest | None]:
        metadata = manifest["metadata"]
        with _explained(manifest, "watch"):
            events = self._client.watch(
                _resource(manifest),
                namespace=metadata["namespace"],
                fields={"metadata.name": metadata["name"]},
                resource_version=now["metadata"].get("resourceVersion"),
                server_timeout=WATCH_S,
            )
            for event, found in events:
                if event != "BOOKMARK":  # which has a version, and nothing else
                    yield None if event == "DELETED" else _plain(found)

    def _newest(self, manifest: Manifest, labels: Mapping[str, str], of: str) -> str:
        with _explained(manifest, "list the pods of"):
            found = self._client.list(Pod, namespace=manifest["metadata"]["namespace"], labels=dict(labels))
            pods = [_plain(pod)["metadata"] for pod in found]
        if not pods:
            raise NotFound(f"{named(manifest)} has no pod of {of!r} (yet): {self.standing(manifest).words}")
        newest = max(pods, key=lambda each: str(each.get("creationTimestamp")))
        return str(newest["name"])


def _resource(manifest: Mapping[str, Any]) -> Any:
    version, kind = str(manifest["apiVersion"]), str(manifest["kind"])
    if (version, kind) in FOREIGN:
        return _generic(version, kind)
    try:
        return resource_registry.load(version, kind)
    except (LoadResourceError, ImportError) as error:
        raise UsageError(f"{named(manifest)}: {version} {kind} is no kind that Hostler knows") from error


def _generic(version: str, kind: str) -> Any:
    group, _, number = version.partition("/")
    make = create_global_resource if kind in NOWHERE else create_namespaced_resource
    return make(group, number, kind, FOREIGN[version, kind])


def _plain(found: Any) -> Manifest:
    """An object as plain values. Raises `ValueError` for what is none."""
    made = dict(found.to_dict())
    if not isinstance(made.get("metadata"), dict) or not made["metadata"].get("name"):
        raise ValueError("an object without metadata")
    for part in ("spec", "status"):
        if not isinstance(made.get(part) or {}, dict):
            raise ValueError(f"an object whose {part} is no mapping")
    return made


def _difference(before: Manifest | None, after: Manifest) -> str:
    if before is None:
        return "created"
    return "unchanged" if _meant(before) == _meant(after) else "changed"


def _meant(manifest: Manifest) -> Manifest:
    """An object without what the server keeps of it: of a dry run its version says nothing."""
    metadata = {key: manifest["metadata"].get(key) for key in ("labels", "annotations")}
    return {**{key: value for key, value in manifest.items() if key != "status"}, "metadata": metadata}


def _refuse_ended(before: Manifest) -> None:
    if before["kind"] != "RayJob":
        return
    ended = standing(before, None)
    if ended.over:
        raise Conflict(
            f"{named(before)} is over already: {ended.words}; KubeRay runs a job once. Delete it to run it again "
            "(`hostler kuberay delete`), or give the new one another name"
        )


def _refuse_others(found: Manifest, wanted: Manifest) -> None:
    labels = found["metadata"].get("labels") or {}
    own = wanted["metadata"]["labels"]
    if labels.get(MANAGED_BY) != own[MANAGED_BY] or labels.get(INSTANCE) != own[INSTANCE]:
        raise Conflict(
            f"{named(found)} is not Hostler's (its labels {MANAGED_BY} and {INSTANCE} say otherwise), and stays; "
            "delete it by hand if it is yours"
        )


def _labels(manifest: Manifest, of: str) -> dict[str, str]:
    own = {RAY: str(manifest["metadata"]["name"])}
    return own | ({COMPONENT: of} if of in (HEAD, SUBMITTER) else {COMPONENT: WORKER, GROUP: of})


def _mode(manifest: Manifest) -> str:
    return str(manifest["spec"].get("submissionMode", ""))


@contextmanager
def _explained(manifest: Mapping[str, Any], what: str) -> Iterator[None]:
    """Errors of lightkube as ours: what was asked, of what, and what to do."""
    try:
        yield
    except ApiError as error:
        raise _refusal(manifest, what, error) from error
    except httpx2.HTTPStatusError as error:
        raise _turned_away(manifest, what, error.response.status_code) from error
    except httpx2.HTTPError as error:
        raise _unknown(manifest, f"did not answer ({type(error).__name__}: {error})") from error
    except (MsgspecError, ValueError, TypeError, AttributeError) as error:
        refused = error.__context__  # lightkube stumbles over it where its body is not what it says
        if isinstance(refused, httpx2.HTTPStatusError):
            raise _turned_away(manifest, what, refused.response.status_code) from error
        raise _unknown(manifest, "answers what no API server does; is another server there?") from error


def _unknown(manifest: Mapping[str, Any], why: str) -> LinkLost:
    return LinkLost(f"{named(manifest)}: the API server {why}; what is there is unknown, and it can be asked again")


def _turned_away(manifest: Mapping[str, Any], what: str, code: int) -> LinkRefused | LinkLost:
    """Of an answer without the words of an API server: a proxy's, or that of a watch."""
    text = f"{named(manifest)}: the API server refused to {what} it ({code})"
    return LinkLost(text) if _passes(code) else LinkRefused(f"{text}; see the address and the user of the kubeconfig")


def _passes(code: int) -> bool:
    """Whether it may be different the next time: too old a version, too many questions, a server in trouble."""
    return code in (410, 429) or code >= 500


def _refusal(manifest: Mapping[str, Any], what: str, error: ApiError) -> LinkRefused | NotFound | LinkLost:
    status = error.status
    code, message = status.code or 0, status.message or str(error)
    text = f"{named(manifest)}: the API server refused to {what} it: {message}{_causes(status)}"
    if code == 404:
        return _absent(manifest, message, text)
    if _passes(code):
        return LinkLost(text)
    if code == 409 and "conflict" in message:
        return LinkRefused(f"{text}; somebody else has set these fields, `--force-conflicts` takes them over")
    if code == 401:
        return LinkRefused(f"{text}; the user of the kubeconfig counts for nothing there (any more): log in anew")
    if code == 403:
        return LinkRefused(f"{text}; who may change that gives the right to it (`kuberay: {{operators: [...]}}`)")
    return LinkRefused(text)


def _absent(manifest: Mapping[str, Any], message: str, text: str) -> NotFound | LinkRefused:
    metadata = manifest.get("metadata") or {}
    if message.startswith("namespaces "):
        return LinkRefused(f"{text}; make it: `kubectl create namespace {metadata.get('namespace')}`")
    if metadata.get("name") and metadata["name"] in message:
        return NotFound(text)
    missing = MISSING.get(str(manifest.get("apiVersion")).partition("/")[0])
    # A path that the server does not know: the kind itself is missing, and so is every object of it.
    return NotFound(text) if missing is None else LinkRefused(f"{text}; {missing}")


def _causes(status: Any) -> str:
    """The fields that the server complains of, where its message does not name them."""
    causes = (status.details.causes if status.details else None) or ()
    told = [
        f"{each.field}: {each.message}" for each in causes if each.field and each.field not in (status.message or "")
    ]
    return f" ({'; '.join(told)})" if told else ""
