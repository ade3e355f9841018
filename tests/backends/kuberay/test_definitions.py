"""Objects against resource definitions: a small one of our own, and KubeRay's, where they are."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from hostler.backends.kuberay import definitions
from hostler.backends.kuberay.definitions import Definitions, strict
from hostler.backends.kuberay.objects import Manifest
from hostler.backends.kuberay.sources import render
from hostler.model.errors import UsageError
from hostler.settings import load

FLEETS = Path(__file__).parent / "fleets"
SCHEMA = {
    "type": "object",
    "properties": {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"type": "object"},
        "spec": {
            "type": "object",
            "required": ["size"],
            "properties": {
                "size": {"type": "integer", "format": "int32", "minimum": 0},
                "port": {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True},
                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {}},
                "note": {"type": "string", "nullable": True},
                "mode": {"type": "string", "enum": ["fast", "slow"]},
                "inner": {
                    "type": "object",
                    "x-kubernetes-embedded-resource": True,
                    "properties": {"spec": {"type": "object", "properties": {}}},
                },
                "parts": {"type": "array", "items": {"type": "object", "properties": {"name": {"type": "string"}}}},
            },
        },
    },
}
GOOD = {
    "size": 3, "port": "web", "labels": {"a": "b"}, "free": {"x": [1]}, "note": None, "mode": "fast",
    "inner": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {}}, "parts": [{"name": "a"}],
}  # fmt: skip


def definition(**more: Any) -> Any:
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": SCHEMA}}
    spec = {"group": "example.org", "names": {"kind": "Thing", "plural": "things"}, "versions": [version]}
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "spec": spec, **more}


def thing(**changes: Any) -> Manifest:
    spec = {**copy.deepcopy(GOOD), **changes}
    return {"apiVersion": "example.org/v1", "kind": "Thing", "metadata": {"name": "a", "namespace": "n"}, "spec": spec}


@pytest.fixture(scope="module")
def small() -> Definitions:
    pytest.importorskip("jsonschema_rs", reason="jsonschema-rs is not installed")
    return Definitions({("example.org/v1", "Thing"): SCHEMA})


def test_what_is_as_it_is_defined_passes(small: Definitions) -> None:
    assert [str(each) for each in small.faults(thing())] == []
    assert list(small.faults({**thing(), "kind": "Other", "spec": 1})) == []


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"sise": 1}, "Thing n/a: spec.sise: is no field of it; did you mean 'size'? [definition]"),
        ({"size": "3"}, "spec.size: "),
        ({"size": 2**31}, "spec.size: "),
        ({"size": -1}, "spec.size: "),
        ({"port": 1.5}, "spec.port: "),
        ({"labels": {"a": 1}}, "spec.labels.a: "),
        ({"mode": "medium"}, "spec.mode: "),
        ({"parts": [{"name": "a"}, {"nam": "b"}]}, "spec.parts[1].nam: is no field of it; did you mean 'name'?"),
        ({"inner": {"other": 1}}, "spec.inner.other: is no field"),
    ],
)
def test_what_is_not_is_told_with_its_field(small: Definitions, changes: dict[str, Any], says: str) -> None:
    (found,) = small.faults(thing(**changes))
    assert says in str(found)


def test_a_strict_schema_lets_through_what_says_so() -> None:
    made = strict(SCHEMA)["properties"]["spec"]["properties"]
    assert "additionalProperties" not in made["free"]
    assert made["labels"]["additionalProperties"] == {"type": "string"}
    assert made["port"] == {"type": ["integer", "string"]}
    assert made["note"] == {"type": ["string", "null"]}


def test_definitions_are_read_one_by_one_and_from_lists_as_kubectl_prints_them(tmp_path: Path) -> None:
    one, several = tmp_path / "one.yaml", tmp_path / "list.yaml"
    one.write_text(yaml.safe_dump(definition()))
    several.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": [definition()]}))
    for path in (one, several):
        assert definitions.read([path]).kinds == (("example.org/v1", "Thing"),)


@pytest.mark.parametrize(("text", "says"), [("a: [", "cannot be read"), ("a: 1\n", "no CustomResourceDefinition")])
def test_a_file_that_is_none_is_refused(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "crd.yaml"
    path.write_text(text)
    with pytest.raises(UsageError, match=says):
        definitions.read([path])
    with pytest.raises(UsageError, match="cannot be read"):
        definitions.read([tmp_path / "absent.yaml"])


@pytest.mark.parametrize(
    "spec",
    [
        None,
        "x",
        {"group": "example.org", "names": None, "versions": definition()["spec"]["versions"]},
        {"group": "example.org", "names": {"kind": "Thing"}, "versions": ["v1"]},
        {"group": "example.org", "names": {"kind": "Thing"}, "versions": [{"served": True, "schema": "x"}]},
        *({**definition()["spec"], "versions": [{"name": "v1", "served": True, "schema": {"openAPIV3Schema": schema}}]}
          for schema in ("x", {"properties": [1]}, {"properties": {"spec": None}})),
    ],
)  # fmt: skip
def test_a_definition_that_is_built_otherwise_is_refused(tmp_path: Path, spec: object) -> None:
    path = tmp_path / "crd.yaml"
    made = definition()
    made["spec"] = spec
    path.write_text(yaml.safe_dump({name: value for name, value in made.items() if value is not None}))
    with pytest.raises(UsageError, match=r"crd\.yaml has a CustomResourceDefinition that is none"):
        definitions.read([path])


def test_what_all_objects_have_need_not_be_defined() -> None:
    pytest.importorskip("jsonschema_rs", reason="jsonschema-rs is not installed")
    short = {"type": "object", "properties": {"spec": SCHEMA["properties"]["spec"]}}
    assert [str(each) for each in Definitions({("example.org/v1", "Thing"): short}).faults(thing())] == []


def test_kinds_that_nobody_defined_are_named(small: Definitions) -> None:
    manifests = [{"apiVersion": "ray.io/v1", "kind": "RayJob"}, {"apiVersion": "v1", "kind": "Pod"}]
    assert definitions.undefined(small, manifests) == ["RayJob"]


@pytest.mark.parametrize("name", ["smallest", "queued", "openshift"])
def test_kuberay_defines_what_is_rendered(defined: Definitions, name: str) -> None:
    main = render(load(FLEETS / f"{name}.yaml", {})).main
    assert [str(each) for each in defined.faults(main)] == []


def _group(spec: dict[str, Any]) -> Any:
    return spec["rayClusterSpec"]["workerGroupSpecs"][0]


CHANGES: list[tuple[Callable[[dict[str, Any]], object], str]] = [
    (lambda spec: _group(spec).update(replica=2), "workerGroupSpecs[0].replica: is no field of it; did you mean 'repl"),
    (lambda spec: _pod(spec).update(toleration=[]), "spec.toleration: is no field of it; did you mean 'tolerations'?"),
    (lambda spec: _group(spec).update(replicas="2"), "workerGroupSpecs[0].replicas: "),
    (lambda spec: _group(spec).pop("groupName"), "groupName"),
    (lambda spec: _group(spec)["rayStartParams"].update({"num-cpus": 1}), "rayStartParams.num-cpus: "),
    (lambda spec: _limits(spec).update(cpu="6 cpus"), "limits.cpu: '6 cpus' is no quantity; write it as 6, 500m"),
    (lambda spec: _terms(spec)[0].pop("topologyKey"), "topologyKey"),
    (lambda spec: spec.update(runtimeEnvYAML={"pip": []}), "spec.runtimeEnvYAML: "),
]  # fmt: skip


def _pod(spec: dict[str, Any]) -> Any:
    return _group(spec)["template"]["spec"]


def _limits(spec: dict[str, Any]) -> Any:
    return _pod(spec)["containers"][0]["resources"]["limits"]


def _terms(spec: dict[str, Any]) -> Any:
    return _pod(spec)["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]


@pytest.mark.parametrize(("change", "says"), CHANGES, ids=[each[1][:40] for each in CHANGES])
def test_kuberays_definitions_catch(
    defined: Definitions, change: Callable[[dict[str, Any]], object], says: str
) -> None:
    main = copy.deepcopy(render(load(FLEETS / "smallest.yaml", {})).main)
    change(main["spec"])
    found = [str(each) for each in defined.faults(main)]
    assert any(says in each for each in found), found
