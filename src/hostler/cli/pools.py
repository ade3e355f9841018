"""Parts of clusters, in a few words and slot by slot."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from hostler.cli.show import UNKNOWN, Column, age, duration, maybe, paragraph, plural, quantity, table

if TYPE_CHECKING:
    from hostler.client import View

OLD_S = 120.0
"""What was seen so long ago is said with its age; a queue that matters is looked at more often."""
SLOT_COLUMNS = (
    Column("SLOT"),
    Column("JOB", right=True),
    Column("PHASE"),
    Column("FOR", right=True),
    Column("ENDS", right=True),
    Column("HOLDS", yields=True),
    Column("SLURM SAYS", yields=True),
)


def pool_row(node: View, now: float) -> Sequence[object]:
    """A pool in the table of the nodes: one line, however many slots it has."""
    vram = {device["vram_gb"] for device in node["devices"] if device["kind"] != "cpu"}
    gigabytes = "-" if not vram else quantity(vram.pop()) if len(vram) == 1 else UNKNOWN
    return node["name"], node["link"], age(node["since"], now), "-", "-", gigabytes, _models(node), _counts(node, now)


def pool_remarks(node: View, now: float) -> Iterator[str]:
    """Why what is known of it may be old."""
    seen = node["seen"]
    if seen is not None and seen["trouble"]:
        at = age(seen["at"], now)
        yield from paragraph(f"{node['name']}: as seen {at} ago: {seen['trouble']}", rest="  ")


def pool_lines(node: View, now: float) -> Iterator[str]:
    """A line for each slot that has something, and how busy the hosts are."""
    seen = node["seen"]
    yield ""
    rows = [_slot_row(node, device, now) for device in node["devices"] if _is_used(node, device)]
    if rows:
        yield from table(SLOT_COLUMNS, rows)
    idle = len(node["devices"]) - len(rows)
    of = "" if not rows else " more"
    yield f"{plural(idle, 'slot')}{of} without a job; {_supply(node)}"
    if seen is not None and now - seen["at"] > OLD_S:
        yield f"seen {age(seen['at'], now)} ago"
    for batch in node["batches"]:
        job = "not submitted yet" if batch["job"] is None else f"job {batch['job']}"
        tasks = plural(len(batch["tasks"]), "task")
        yield from paragraph(f"{batch['token']}: {batch['mode']}, {tasks}, {job}: {batch['wants']}", rest="  ")


def _models(node: View) -> str:
    kinds = Counter("CPU" if each["kind"] == "cpu" else each["model"] or "GPU" for each in node["devices"])
    return ", ".join(f"{count} {name}" for name, count in kinds.items()) or "no slots"


def _counts(node: View, now: float) -> str:
    """`3 up, 2 wait (max 8)`; of what nobody knows, since when."""
    seen, most = node["seen"], node["pool"]["max_pending"]
    if seen is None:
        return "not seen yet"
    phases = Counter(slot["phase"] for slot in seen["slots"].values())
    waiting = phases["asked"] + phases["waiting"]
    told = [f"{phases['up']} up, {waiting} wait (max {most})"]
    if phases["unknown"]:
        told.append(f"{phases['unknown']} unknown")
    if seen["trouble"] or (seen["slots"] and now - seen["at"] > OLD_S):
        told.append(f"seen {age(seen['at'], now)} ago")
    return ", ".join(told)


def _is_used(node: View, device: View) -> bool:
    return bool(device["attempts"] or device["chunks"] or _slot(node, device) is not None)


def _slot(node: View, device: View) -> View | None:
    seen = node["seen"]
    return None if seen is None else seen["slots"].get(device["id"].rpartition("/")[2])


def _slot_row(node: View, device: View, now: float) -> Sequence[object]:
    name, held = device["id"].rpartition("/")[2], " ".join([*device["attempts"], *device["chunks"]]) or "idle"
    slot = _slot(node, device)
    if slot is None:
        return name, "-", "asked", "-", "-", held, "nothing is known of it yet"
    since = slot["began_at"] if slot["phase"] == "up" else slot["asked_at"]
    lasts = "-" if slot["ends_at"] is None else duration(slot["ends_at"] - now)
    waited = UNKNOWN if since is None else age(since, now)
    return name, maybe(slot["job"]), slot["phase"], waited, lasts, held, slot["says"]


def _supply(node: View) -> str:
    supply = None if node["seen"] is None else node["seen"]["supply"]
    if supply is None:
        return "how busy its hosts are is not known"
    down = f", {supply['down']} down" if supply["down"] else ""
    what = "GPUs" if any(each["kind"] != "cpu" for each in node["devices"]) else "cores"
    return f"of its {what} {supply['idle']} are idle and {supply['used']} used by anybody{down}"
