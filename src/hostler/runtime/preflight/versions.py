"""Do the nodes of a Ray cluster have what the workers of a training import, all of them in the same versions?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hostler import __version__
from hostler.runtime.preflight.asking import in_words, on_each
from hostler.runtime.preflight.proof import Proof, error, ok
from hostler.runtime.preflight.seam import Machine, RayCluster

IMPORTED = ("gymnasium", "numpy", "pyboy", "safetensors", "torch")
"""By the workers of a training, besides Ray and Hostler."""
LOOK = """
import json, platform, sys
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
def found(name):
    if find_spec(name) is None:
        return None
    try:
        return getattr(__import__(name), "__version__", "") if name == "hostler" else version(name)
    except PackageNotFoundError:
        return ""
has = {name: found(name) for name in sys.argv[1:]}
print(json.dumps({"python": platform.python_version(), "at": sys.executable, "has": has}))
"""
"""Imports none of what it looks for but Hostler, which has nothing to import where that is all that is wanted."""


async def prove_versions(cluster: RayCluster, machines: Sequence[Machine], ray: str) -> Proof:
    """Python, Ray, Hostler and what else is imported, on each node; `ray` is what the cluster itself says to be."""
    argv = ("{python}", "-c", LOOK, "hostler", "ray", *IMPORTED)
    told = await on_each(cluster, [each.name for each in machines], lambda _: argv)
    for code, wrong, fix in _faults(told, ray):
        if wrong:
            return error("version", code, in_words(wrong), fix)
    pythons = {_minor(each) for each in told.values()}
    count = "1 node has" if len(told) == 1 else f"{len(told)} nodes have"
    return ok(
        "version", f"Ray {ray}; {count} Python {' '.join(pythons)}, and Hostler {__version__} with all it imports"
    )


def _faults(told: Mapping[str, Mapping[str, Any]], ray: str) -> Iterator[tuple[str, Mapping[str, str], str]]:
    silent = {node: str(each["error"]) for node, each in told.items() if "error" in each}
    yield "silent", silent, "see that a job runs there: `ray job submit -- python3 -V`, and what `rl.cluster.python` is"
    said = {node: each for node, each in told.items() if node not in silent}
    yield "ray", dict(_other(said, "ray", ray)), "name the Python that Ray itself is run by, in `rl.cluster.python`"
    usual = Counter(map(_minor, said.values())).most_common(1)
    strange = {
        node: f"Python {each['python']}, where {usual[0][0]} is usual"
        for node, each in said.items()
        if _minor(each) != usual[0][0]
    }
    yield "python", strange, "use one image: what is sent from one Python to another one breaks there"
    yield (
        "hostler",
        dict(_other(said, "hostler", __version__)),
        f"install it there: pip install 'hostler[rl]=={__version__}'",
    )
    lacks = {node: [name for name in IMPORTED if each["has"][name] is None] for node, each in said.items()}
    missing = {node: f"no {', no '.join(names)}" for node, names in lacks.items() if names}
    yield "packages", missing, "install them there: pip install 'hostler[rl]'"


def _other(said: Mapping[str, Mapping[str, Any]], name: str, wanted: str) -> Iterator[tuple[str, str]]:
    """Who has no such package, or another version of it."""
    for node, each in said.items():
        found = each["has"][name]
        if found is None:
            yield node, f"{each['at']} has no {name}"
        elif found != wanted:
            yield node, f"{name} {found or 'of an unknown version'}, {wanted} is expected"


def _minor(each: Mapping[str, Any]) -> str:
    return ".".join(str(each["python"]).split(".")[:2])
