"""The GPUs of a node that its owner lets Hostler use: `gpus.only` and `gpus.exclude` of the fleet file.

An entry is an index, as `nvidia-smi` counts, or a UUID or its begin. What is unknown is left out: a GPU that does not
tell its UUID is not used where one is excluded by a UUID that no GPU tells.
"""

from __future__ import annotations

from collections.abc import Sequence

from hostler.backends.base import Facts
from hostler.model.record import record

NAMED_MOST = 16
"""GPUs that a message names."""


@record
class Selection:
    """Which GPUs of a node are used; `only` is `None` where all are that are not excluded."""

    only: tuple[int | str, ...] | None = None
    exclude: tuple[int | str, ...] = ()


NO_CHOICE = Selection()


@record
class Selected:
    """The GPUs that are used, and what of the selection cannot be carried out."""

    devices: tuple[Facts, ...]
    faults: tuple[str, ...]


def selected(node: str, found: Sequence[Facts], asked: Selection) -> Selected:
    """Apply a selection to the GPUs that the agent of a node reports."""
    faults: list[str] = []
    kept = list(found)
    if asked.only is not None:
        named = {entry: _matching(found, entry) for entry in asked.only}
        clear = [each for entry, each in named.items() if _is_clear(entry, each)]
        faults += [_unmatched(node, "only", entry, found) for entry, each in named.items() if each not in clear]
        kept = [each for each in found if any(each in which for which in clear)]
    for entry in asked.exclude:
        matching = _matching(found, entry)
        if not matching:
            faults.append(_unmatched(node, "exclude", entry, found))
            if isinstance(entry, str) and (nameless := [each for each in kept if not each.get("uuid")]):
                kept = [each for each in kept if each.get("uuid")]
                faults.append(
                    f"{len(nameless)} GPUs of {node} tell no UUID, so gpus.exclude may mean them: they are not used; "
                    "exclude by index instead"
                )
        kept = [each for each in kept if each not in matching]
    if found and not kept:
        faults.append(f"the settings gpus.only and gpus.exclude of {node} leave none of its {len(found)} GPUs")
    return Selected(devices=tuple(kept), faults=tuple(faults))


def _is_clear(entry: int | str, matching: Sequence[Facts]) -> bool:
    """Whether an entry is clear: a UUID names one GPU; an index may name one of each maker."""
    return bool(matching) if isinstance(entry, int) else len(matching) == 1


def _matching(found: Sequence[Facts], entry: int | str) -> list[Facts]:
    if isinstance(entry, int):
        return [each for each in found if each["index"] == entry]
    wanted = _bare(entry)
    return [each for each in found if isinstance(each.get("uuid"), str) and _bare(each["uuid"]).startswith(wanted)]


def _bare(uuid: str) -> str:
    """AMD's tools write the same UUID with `GPU-`, with `0x`, and without both."""
    return uuid.lower().removeprefix("gpu-").removeprefix("0x")


def _unmatched(node: str, field: str, entry: int | str, found: Sequence[Facts]) -> str:
    count = len(_matching(found, entry))
    which = f"{count} GPUs; write more of the UUID" if count else "no GPU that is found there"
    known = [f"{each['index']} ({each.get('uuid') or 'no UUID'})"[:80] for each in found[:NAMED_MOST]]
    more = f" and {len(found) - NAMED_MOST} more" if len(found) > NAMED_MOST else ""
    return f"gpus.{field} of {node}: {entry} names {which}. It has {', '.join(known) or 'no GPUs'}{more}"
