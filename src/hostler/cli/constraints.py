"""Options that say on which nodes and GPUs work may run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from hostler.cli.completing import complete_node
from hostler.cli.declarations import Option
from hostler.model.errors import UsageError

Node = Annotated[
    list[str] | None,
    Option("--node", metavar="NODE", help="A node it may run on; repeat for several.", complete=complete_node),
]
ExcludeNode = Annotated[
    list[str] | None,
    Option("--exclude-node", metavar="NODE", help="A node to keep off; repeat for several.", complete=complete_node),
]
GpuModel = Annotated[
    list[str] | None,
    Option("--gpu-model", metavar="MODEL", help="A GPU model by words of its name, as 4090; repeat for several."),
]
ExcludeGpuModel = Annotated[
    list[str] | None,
    Option("--exclude-gpu-model", metavar="MODEL", help="A GPU model to keep off; repeat for several."),
]
Provider = Annotated[
    list[str] | None,
    Option("--provider", metavar="NAME", help="A provider whose nodes it may run on; repeat for several."),
]
Label = Annotated[
    list[str] | None,
    Option("--label", metavar="NAME=VALUE", help="A label its node must have; repeat for several, all hold."),
]

OPTIONS: Mapping[str, str] = {
    "nodes": "--node",
    "exclude_nodes": "--exclude-node",
    "gpu_models": "--gpu-model",
    "exclude_gpu_models": "--exclude-gpu-model",
    "providers": "--provider",
    "labels": "--label",
}


def constraints(**given: Sequence[str] | None) -> dict[str, Any]:
    """The fields of `Resources` for these options, by the names of the fields; those not given are left out.

    Raises `UsageError` for an option without a value, and for a label that is not `NAME=VALUE`.
    """
    for field, words in given.items():
        for word in words or ():
            _check(OPTIONS[field], word)
    both = set(given.get("nodes") or ()) & set(given.get("exclude_nodes") or ())
    if both:
        raise UsageError(f"--node and --exclude-node both name {min(both)}; leave one of them out")
    return {field: list(dict.fromkeys(words)) for field, words in given.items() if words}


def _check(option: str, word: str) -> None:
    if not any(each.isalnum() for each in word):
        raise UsageError(f"{option} {word!r} has no letter and no digit; give a name")
    name, found, value = word.partition("=")
    if option == "--label" and not (found and name and value):
        raise UsageError(f"--label {word!r} is not NAME=VALUE; write --label zone=a")
