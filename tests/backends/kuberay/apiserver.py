"""A small Kubernetes API server on loopback, for kubectl and lightkube: discovery, OpenAPI, get, list, watch, create,
patch (merge and server-side apply, with owners of fields and conflicts), delete, logs, dry runs.

It takes what resource definitions allow, where there are any, and of Kubernetes' own kinds what lightkube's models
know. It plays KubeRay and Kueue when it is told to: `admit`, `run`, `end`. Nothing happens by itself or by the clock.
"""

from __future__ import annotations

import copy
import json
import threading
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import msgspec
import yaml
from lightkube.codecs import resource_registry

from hostler.backends.kuberay.definitions import Definitions
from hostler.backends.kuberay.objects import Manifest
from hostler.backends.kuberay.rules import QUEUE
from tests.patience import PATIENCE_S
from tests.servers import QuietServer

Key = tuple[str, str, str, str]
"""Group and version, plural, namespace, name."""
VERBS = ["create", "delete", "get", "list", "patch", "update", "watch"]
KINDS = {
    "v1": {
        "configmaps": "ConfigMap",
        "pods": "Pod",
        "resourcequotas": "ResourceQuota",
        "services": "Service",
        "serviceaccounts": "ServiceAccount",
    },
    "apps/v1": {"deployments": "Deployment"},
    "rbac.authorization.k8s.io/v1": {"roles": "Role", "rolebindings": "RoleBinding"},
    "networking.k8s.io/v1": {"networkpolicies": "NetworkPolicy"},
    "ray.io/v1": {"rayjobs": "RayJob", "rayclusters": "RayCluster"},
    "route.openshift.io/v1": {"routes": "Route"},
    "kueue.x-k8s.io/v1beta1": {"clusterqueues": "ClusterQueue", "localqueues": "LocalQueue", "workloads": "Workload"},
}
NO_ROOM = (
    "couldn't assign flavors to pod set workers: insufficient unused quota for cpu in flavor default, 6 more needed"
)


class Refused(Exception):
    """An answer that is no success."""

    def __init__(self, code: int, reason: str, message: str, causes: list[dict[str, str]] | None = None) -> None:
        super().__init__(message)
        self.body = {
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": code, "reason": reason,
            "message": message, "details": {"causes": causes or []},
        }  # fmt: skip
        self.code = code


@dataclass
class World:
    """Everything the server knows. Methods without a leading underscore are for tests."""

    definitions: Definitions | None
    namespaces: set[str] = field(default_factory=lambda: {"default", "rl"})
    groups: dict[str, dict[str, str]] = field(default_factory=lambda: copy.deepcopy(KINDS))
    forbidden: set[tuple[str, str]] = field(default_factory=set)
    """Method and plural."""
    denied: set[tuple[str, str]] = field(default_factory=set)
    """Verb and plural that a review of rights answers no to."""
    objects: dict[Key, Manifest] = field(default_factory=dict)
    owners: dict[Key, dict[str, Manifest]] = field(default_factory=dict)
    """What each manager applied last."""
    events: list[tuple[int, str, Key, Manifest]] = field(default_factory=list)
    logs: dict[str, list[str]] = field(default_factory=dict)
    ended: set[str] = field(default_factory=set)
    """Pods whose log is complete."""
    asked: list[tuple[str, str]] = field(default_factory=list)
    """Methods and paths of all requests."""
    breaks: int = 0
    """So many watches break off without a word."""
    odd: Callable[[str, str], tuple[int, str, str] | None] = lambda _method, _path: None
    """By method and path with its query: status, kind and text of an answer that is given instead; `None`: none is."""
    changed: threading.Condition = field(default_factory=threading.Condition)
    over: bool = False
    """Whether streams of it end, as the server does."""
    version: int = 100

    def get(self, plural: str, name: str, namespace: str = "rl") -> Manifest:
        found = next(value for key, value in self.objects.items() if key[1:] == (plural, namespace, name))
        return copy.deepcopy(found)

    def names(self, plural: str) -> list[str]:
        return sorted(key[3] for key in self.objects if key[1] == plural)

    def put(self, version: str, plural: str, manifest: Manifest) -> None:
        """An object that somebody else made, or changed."""
        metadata = manifest["metadata"]
        self.store((version, plural, metadata.get("namespace", ""), metadata["name"]), manifest)

    def tell(self, name: str, plural: str = "rayjobs", **status: Any) -> None:
        """KubeRay says how one of its objects is."""
        found = self.get(plural, name)
        found["status"] = {**found.get("status", {}), **status}
        self.put("ray.io/v1", plural, found)

    def admit(self, name: str) -> None:
        """Kueue has room for it: it is no longer suspended."""
        found = self.get("rayjobs", name)
        found["spec"]["suspend"] = False
        self.put("ray.io/v1", "rayjobs", found)
        workload = self.get("workloads", f"rayjob-{name}")
        workload["status"]["conditions"] = [
            {"type": "QuotaReserved", "status": "True"}, {"type": "Admitted", "status": "True"},
        ]  # fmt: skip
        self.put("kueue.x-k8s.io/v1beta1", "workloads", workload)
        self.tell(name, jobDeploymentStatus="Initializing")

    def run(self, name: str) -> None:
        """KubeRay has made its cluster and submitted it."""
        spec = self.get("rayjobs", name)["spec"]
        templates = {"submitter": spec.get("submitterPodTemplate")}
        templates["head"] = spec["rayClusterSpec"]["headGroupSpec"]["template"]
        for group in spec["rayClusterSpec"]["workerGroupSpecs"]:
            templates[group["groupName"]] = group["template"]
        for what, template in templates.items():
            if template is not None:
                self.start_pod(f"{name}-{what}", template)
        self.tell(name, jobDeploymentStatus="Running", jobStatus="RUNNING", rayClusterName=f"{name}-abcde")

    def start_pod(self, name: str, template: Manifest) -> None:
        metadata = {"name": name, "namespace": "rl", "labels": template["metadata"]["labels"]}
        self.put("v1", "pods", {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]})
        self.logs[name] = [f"{name} begins"]

    def log(self, pod: str, line: str) -> None:
        with self.changed:
            self.logs[pod].append(line)
            self.changed.notify_all()

    def end(self, name: str, job: str = "SUCCEEDED", **more: str) -> None:
        """The job is over."""
        with self.changed:
            self.ended |= {pod for pod in self.logs if pod.startswith(name)}
            self.changed.notify_all()
        done = "Complete" if job == "SUCCEEDED" else "Failed"
        self.tell(name, jobDeploymentStatus=done, jobStatus=job, **more)

    def store(self, key: Key, manifest: Manifest) -> Manifest:
        with self.changed:
            before = self.objects.get(key)
            if before is not None and _content(before) == _content(manifest):
                return copy.deepcopy(before)
            self.version += 1
            made = self._stamped(key, manifest, before)
            self.objects[key] = made
            self.events.append((self.version, "MODIFIED" if before else "ADDED", key, copy.deepcopy(made)))
            self.changed.notify_all()
            return copy.deepcopy(made)

    def remove(self, key: Key) -> None:
        with self.changed:
            self.version += 1
            gone = self.objects.pop(key)
            self.owners.pop(key, None)
            gone["metadata"]["resourceVersion"] = str(self.version)
            self.events.append((self.version, "DELETED", key, gone))
            self.changed.notify_all()

    def _stamped(self, key: Key, manifest: Manifest, before: Manifest | None) -> Manifest:
        made = copy.deepcopy(manifest)
        kept = {} if before is None else before["metadata"]
        made["metadata"] |= {
            "namespace": key[2],
            "resourceVersion": str(self.version),
            "uid": kept.get("uid", f"uid-{self.version}"),
            "creationTimestamp": kept.get("creationTimestamp", "2026-01-01T00:00:00Z"),
        }
        return made

    def create(self, key: Key, manifest: Manifest, dry: bool) -> Manifest:
        """What comes in anew goes by Kueue's webhook first."""
        self.check(manifest)
        made = copy.deepcopy(manifest)
        queue = (made["metadata"].get("labels") or {}).get(QUEUE)
        if queue and made["kind"] in ("RayJob", "RayCluster"):
            made["spec"]["suspend"] = True
            self.owners.setdefault(key, {})["kueue"] = {"spec": {"suspend": True}}
        if dry:
            return self._stamped(key, made, None)
        stored = self.store(key, made)
        if queue and made["kind"] == "RayJob":
            self._queue(stored)
        return self.objects[key]

    def _queue(self, stored: Manifest) -> None:
        name, uid = stored["metadata"]["name"], stored["metadata"]["uid"]
        condition = {"type": "QuotaReserved", "status": "False", "reason": "Pending", "message": NO_ROOM}
        metadata = {"name": f"rayjob-{name}", "namespace": "rl", "ownerReferences": [{"kind": "RayJob", "uid": uid}]}
        workload: Manifest = {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "Workload", "metadata": metadata}
        workload |= {"spec": {}, "status": {"conditions": [condition]}}
        self.put("kueue.x-k8s.io/v1beta1", "workloads", workload)
        self.tell(name, jobDeploymentStatus="Suspended")

    def check(self, manifest: Manifest) -> None:
        """Refuse what the definitions, or Kubernetes' own types, do not know."""
        if manifest["apiVersion"].startswith(("ray.io/", "route.", "kueue.")):
            faults = [] if self.definitions is None else list(self.definitions.faults(manifest))
            causes = [{"field": each.field, "message": each.what} for each in faults]
        else:
            kind = resource_registry.load(manifest["apiVersion"], manifest["kind"])
            causes = [{"field": at, "message": what} for at, what in unknown(manifest, kind)]
        if causes:
            told = ", ".join(f"{each['field']}: {each['message']}" for each in causes)
            name = f'{manifest["kind"]} "{manifest["metadata"]["name"]}"'
            raise Refused(422, "Invalid", f"{name} is invalid: {told}", causes)

    def apply(self, key: Key, manifest: Manifest, manager: str, *, force: bool, dry: bool) -> Manifest:
        """Server-side apply: what this manager said before and says no more goes, what others have set stays theirs."""
        live = self.objects.get(key)
        if live is None:
            made = self.create(key, manifest, dry)
            if not dry:
                self.owners.setdefault(key, {})[manager] = copy.deepcopy(manifest)
            return made
        others = {name: _leaves(said) for name, said in self.owners.get(key, {}).items() if name != manager}
        wanted, present = _leaves(manifest), _leaves(live)
        taken = [
            (name, path)
            for name, said in others.items()
            for path, value in wanted.items()
            if path in said and present.get(path) != value
        ]
        if taken and not force:
            told = "\n".join(f'conflict with "{name}": .{".".join(path)}' for name, path in taken)
            raise Refused(409, "Conflict", f"Apply failed with {len(taken)} conflict: {told}")
        made = copy.deepcopy(live)
        for path in _leaves(self.owners.get(key, {}).get(manager, {})).keys() - wanted.keys():
            if not any(path in said for said in others.values()):
                _drop(made, path)
        made = _merged(made, manifest)
        self.check({name: value for name, value in made.items() if name != "status"})
        if dry:
            return made
        self.owners.setdefault(key, {})[manager] = copy.deepcopy(manifest)
        return self.store(key, made)


def serve(world: World) -> QuietServer:
    """A server of a world, on a free port; `shutdown` ends it."""

    class Handler(_Handler):
        pass

    Handler.world = world
    made = QuietServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    return made


def unknown(value: Any, kind: Any, at: str = "") -> Iterator[tuple[str, str]]:
    """Fields of an object that its type does not have, and values of other types."""
    kind = _bare(kind)
    origin = typing.get_origin(kind)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        if not isinstance(value, dict):
            yield at, f"{value!r} should be an object"
            return
        fields = {each.encode_name: each.type for each in msgspec.structs.fields(kind)}
        for name, below in value.items():
            if name not in fields:
                yield f"{at}.{name}".lstrip("."), "unknown field"
            else:
                yield from unknown(below, fields[name], f"{at}.{name}".lstrip("."))
    elif origin in (list, typing.List):  # noqa: UP006
        for index, below in enumerate(value):
            yield from unknown(below, typing.get_args(kind)[0], f"{at}[{index}]")
    elif kind in (str, int, bool) and type(value) is not kind:
        yield at, f"{value!r} should be {kind.__name__}"


def _bare(kind: Any) -> Any:
    """`Optional[X]` as X; of several, anything."""
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        some = [each for each in typing.get_args(kind) if each is not type(None)]
        return _bare(some[0]) if len(some) == 1 else Any
    return kind


class _Handler(BaseHTTPRequestHandler):
    world: World
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    """Head and body go as two writes: with it, the second would wait 40 ms for word of the first."""

    def do_GET(self) -> None:
        self._answer()

    do_POST = do_PATCH = do_PUT = do_DELETE = do_GET

    def log_message(self, format: str, *args: object) -> None:
        pass

    def _answer(self) -> None:
        split = urlsplit(self.path)
        query = dict(parse_qsl(split.query))
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.world.asked.append((self.command, split.path))
        odd = self.world.odd(self.command, self.path)
        if odd is not None:
            return self._send_text(*odd)
        try:
            self._route([part for part in split.path.split("/") if part], query, body)
        except Refused as refused:
            self._send(refused.code, refused.body)

    def _route(self, path: list[str], query: Mapping[str, str], body: bytes) -> None:
        found = _discovery(self.world, path)
        if found is not None:
            return self._send(200, found)
        version, rest = ("v1", path[2:]) if path[:1] == ["api"] else ("/".join(path[1:3]), path[3:])
        if rest == ["selfsubjectaccessreviews"]:
            return self._send(201, self._reviewed(_read(body)))
        if len(rest) == 2 and rest[0] in self.world.groups.get(version, {}):
            rest = ["namespaces", "", *rest]  # an object of no namespace
        if rest[:1] == ["namespaces"] and len(rest) == 2:
            return self._namespace(rest[1])
        if rest[:1] != ["namespaces"] or len(rest) < 3 or rest[2] not in self.world.groups.get(version, {}):
            raise Refused(404, "NotFound", "the server could not find the requested resource")
        namespace, plural = rest[1], rest[2]
        if (self.command, plural) in self.world.forbidden:
            told = f'{plural} is forbidden: User "anna" cannot {self.command.lower()} resource "{plural}"'
            raise Refused(403, "Forbidden", told)
        if len(rest) == 3:
            return self._collection((version, plural, namespace, ""), query, body)
        if rest[4:] == ["log"]:
            return self._log(rest[3], query)
        return self._single((version, plural, namespace, rest[3]), query, body)

    def _reviewed(self, review: Manifest) -> Manifest:
        asked = review["spec"]["resourceAttributes"]
        what = "/".join(filter(None, (asked["resource"], asked.get("subresource"))))
        return {**review, "status": {"allowed": (asked["verb"], what) not in self.world.denied}}

    def _namespace(self, name: str) -> None:
        if name not in self.world.namespaces:
            raise Refused(404, "NotFound", f'namespaces "{name}" not found')
        self._send(200, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})

    def _collection(self, key: Key, query: Mapping[str, str], body: bytes) -> None:
        if self.command == "POST":
            manifest = _read(body)
            self._need_namespace(key)
            own = (*key[:3], manifest["metadata"]["name"])
            if own in self.world.objects:
                raise Refused(409, "AlreadyExists", f'{key[1]} "{own[3]}" already exists')
            return self._send(201, self.world.create(own, manifest, "dryRun" in query))
        if query.get("watch") in ("true", "1"):
            return self._watch(key, query)
        with self.world.changed:
            items = [each for own, each in self.world.objects.items() if own[:3] == key[:3] and _chosen(each, query)]
            version = str(self.world.version)
        kind = self.world.groups[key[0]][key[1]]
        metadata = {"resourceVersion": version}
        return self._send(200, {"apiVersion": key[0], "kind": f"{kind}List", "metadata": metadata, "items": items})

    def _single(self, key: Key, query: Mapping[str, str], body: bytes) -> None:
        kind = self.headers.get("Content-Type", "")
        if self.command == "PATCH" and "apply-patch" in kind:
            self._need_namespace(key)
            force, dry = query.get("force") == "true", "dryRun" in query
            made = self.world.apply(key, _read(body), query["fieldManager"], force=force, dry=dry)
            return self._send(200, made)
        if key not in self.world.objects:
            raise Refused(404, "NotFound", f'{key[1]} "{key[3]}" not found')
        if self.command == "GET":
            return self._send(200, self.world.objects[key])
        if self.command == "DELETE":
            self.world.remove(key)
            return self._send(200, {"kind": "Status", "apiVersion": "v1", "status": "Success", "metadata": {}})
        return self._patch(key, query, body)

    def _patch(self, key: Key, query: Mapping[str, str], body: bytes) -> None:
        """Merge patches; a strategic one would merge lists, which what tests change has not."""
        made = _merged(copy.deepcopy(self.world.objects[key]), _read(body)) if self.command == "PATCH" else _read(body)
        self.world.check({name: value for name, value in made.items() if name != "status"})
        self._send(200, made if "dryRun" in query else self.world.store(key, made))

    def _need_namespace(self, key: Key) -> None:
        if key[2] not in self.world.namespaces:
            raise Refused(404, "NotFound", f'namespaces "{key[2]}" not found')

    def _watch(self, key: Key, query: Mapping[str, str]) -> None:
        self._begin_stream("application/json")
        seen = int(query.get("resourceVersion") or 0)
        if self.world.breaks > 0:
            self.world.breaks -= 1
            self.close_connection = True
            self.connection.close()
            return None
        while True:
            with self.world.changed:
                new = [each for each in self.world.events if each[0] > seen]
                if self.world.over or (not new and not self.world.changed.wait(PATIENCE_S)):
                    return self._chunk(b"")
            for version, event, own, manifest in new:
                seen = version
                if own[:3] == key[:3] and _chosen(manifest, query):
                    self._chunk(json.dumps({"type": event, "object": manifest}).encode() + b"\n")

    def _log(self, pod: str, query: Mapping[str, str]) -> None:
        if pod not in self.world.logs:
            raise Refused(404, "NotFound", f'pods "{pod}" not found')
        self._begin_stream("text/plain")
        tail = int(query.get("tailLines", 0))
        at = max(0, len(self.world.logs[pod]) - tail) if tail else 0
        while True:
            with self.world.changed:
                lines, over = self.world.logs[pod][at:], pod in self.world.ended or query.get("follow") != "true"
                if self.world.over or (not lines and not over and not self.world.changed.wait(PATIENCE_S)):
                    over = True
            at += len(lines)
            for line in lines:
                self._chunk(f"{line}\n".encode())
            if over:
                return self._chunk(b"")

    def _begin_stream(self, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def _chunk(self, data: bytes) -> None:
        try:
            self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
            self.wfile.flush()
        except OSError:  # whoever watched has gone
            self.close_connection = True

    def _send(self, code: int, value: Any) -> None:
        self._send_text(code, "application/json", json.dumps(value))

    def _send_text(self, code: int, kind: str, text: str) -> None:
        data = text.encode()
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def _discovery(world: World, path: list[str]) -> Any:
    if path == ["version"]:
        return {"major": "1", "minor": "32", "gitVersion": "v1.32.0"}
    if path == ["api"]:
        return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
    if path == ["apis"]:
        groups = [_group(name) for name in world.groups if "/" in name]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
    if path == ["openapi", "v3"]:
        return {"paths": {_root(name): {"serverRelativeURL": f"/openapi/v3/{_root(name)}"} for name in world.groups}}
    if path[:2] == ["openapi", "v3"]:
        name = path[-1] if path[2] == "api" else "/".join(path[3:])
        return _openapi(name, world.groups[name])
    name = "v1" if path == ["api", "v1"] else "/".join(path[1:3]) if path[:1] == ["apis"] and len(path) == 3 else ""
    if name not in world.groups:
        return None
    resources = [
        {"name": plural, "singularName": kind.lower(), "kind": kind, "namespaced": True, "verbs": VERBS}
        for plural, kind in world.groups[name].items()
    ]
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": name, "resources": resources}


def _group(version: str) -> Any:
    group, _, number = version.partition("/")
    entry = {"groupVersion": version, "version": number}
    return {"name": group, "versions": [entry], "preferredVersion": entry}


def _root(version: str) -> str:
    return f"apis/{version}" if "/" in version else f"api/{version}"


def _openapi(version: str, kinds: Mapping[str, str]) -> Any:
    """As much as kubectl looks up: that the server checks fields, and dry runs."""
    group, _, number = version.rpartition("/")
    parameters = [{"name": name, "in": "query", "schema": {"type": "string"}} for name in ("dryRun", "fieldValidation")]
    paths = {
        f"/{_root(version)}/namespaces/{{namespace}}/{plural}/{{name}}": {
            "patch": {
                "parameters": parameters,
                "responses": {},
                "x-kubernetes-action": "patch",
                "x-kubernetes-group-version-kind": {"group": group, "version": number, "kind": kind},
            }
        }
        for plural, kind in kinds.items()
    }
    return {"openapi": "3.0.0", "info": {"title": "Kubernetes", "version": "v1.32.0"}, "paths": paths}


def _read(body: bytes) -> Manifest:
    return dict(yaml.safe_load(body))


def _chosen(manifest: Manifest, query: Mapping[str, str]) -> bool:
    labels = manifest["metadata"].get("labels") or {}
    for part in filter(None, query.get("labelSelector", "").split(",")):
        name, _, value = part.replace("==", "=").partition("=")
        if labels.get(name) != value:
            return False
    named = dict(part.split("=", 1) for part in query.get("fieldSelector", "").replace("==", "=").split(",") if part)
    return named.get("metadata.name", manifest["metadata"]["name"]) == manifest["metadata"]["name"]


def _content(manifest: Manifest) -> Manifest:
    server = ("resourceVersion", "uid", "creationTimestamp", "namespace", "managedFields")
    metadata = {name: value for name, value in manifest["metadata"].items() if name not in server}
    return {**manifest, "metadata": metadata}


def _leaves(value: Manifest, at: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    """What somebody says, by path; lists are one."""
    made: dict[tuple[str, ...], Any] = {}
    for name, below in value.items():
        if at == () and name in ("apiVersion", "kind"):
            continue
        made |= _leaves(below, (*at, name)) if isinstance(below, dict) and below else {(*at, name): below}
    return made


def _drop(value: Manifest, path: tuple[str, ...]) -> None:
    for part in path[:-1]:
        value = value.get(part, {})
    value.pop(path[-1], None)


def _merged(value: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    made = dict(value) if isinstance(value, dict) else {}
    for name, below in patch.items():
        if below is None:
            made.pop(name, None)
        else:
            made[name] = _merged(made.get(name), below)
    return made
