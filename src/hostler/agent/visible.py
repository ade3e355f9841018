"""The devices that the agent's own environment leaves it: CUDA_VISIBLE_DEVICES and its like, as drivers read them.

Indices count as ``nvidia-smi`` does, and on AMD as the devices of the agent's own list do. A list ends at the first
entry that names no device, or one a second time; an empty list leaves none. An agent in an allocation of a cluster has
no restriction here: its cluster has chosen, and translates for itself.

Formats: "CUDA Environment Variables" of the CUDA programming guide; the environment variables of ROCm (ROCR, HIP).
"""

from __future__ import annotations

import re
from typing import Dict, List, Mapping, NamedTuple, Optional, Set, Tuple

from .protocol import Json

CUDA = "CUDA_VISIBLE_DEVICES"
HIP = "HIP_VISIBLE_DEVICES"
ROCR = "ROCR_VISIBLE_DEVICES"
ORDER = "CUDA_DEVICE_ORDER"
_KINDS = {"cuda": (CUDA,), "rocm": (ROCR, HIP)}
_LONGEST_QUOTE = 100
_INDEX = re.compile(r"[0-9]{1,9}\Z")
_UUID = re.compile(r"(?:GPU|MIG)-[0-9A-Za-z/-]+\Z")
_OLD_SLICE = re.compile(r"MIG-(GPU-[0-9A-Za-z-]+)/[0-9]+/[0-9]+\Z")


class Slice(NamedTuple):
    """A part of a card (MIG): its own UUID, its profile, and the index of the card."""

    uuid: str
    profile: str
    card: int


class _Chosen(NamedTuple):
    devices: List[Json]
    notes: List[str]


class Visible:
    """What an environment leaves of the devices of a machine. ``of`` comes first; the rest goes by its last answer."""

    def __init__(self, environ: Optional[Mapping[str, str]] = None) -> None:
        self._lists = {name: environ[name] for name in (CUDA, HIP, ROCR) if name in environ} if environ else {}
        self._by_bus = environ is not None and environ.get(ORDER) == "PCI_BUS_ID"
        self._shown: Dict[str, Set[int]] = {}
        cuda = self._lists.get(CUDA, "").split(",")[0].strip()
        self._slice = cuda if cuda.startswith("MIG-") else None
        """CUDA shows a process one slice at a time: behind the first one of a list, all entries are ignored."""

    @property
    def names_slice(self) -> bool:
        """Whether the list names a slice of a card, which only ``nvidia-smi -L`` can place."""
        return self._slice is not None

    def of(self, found: List[Json], slices: Optional[List[Slice]] = None) -> Tuple[List[Json], List[str]]:
        """Those of the devices that are left, and notes on entries that drivers ignore."""
        left: List[Json] = []
        notes: List[str] = []
        for kind in dict.fromkeys(str(each["kind"]) for each in found):
            chosen = self._of_kind(kind, [each for each in found if each["kind"] == kind], slices or [])
            left += chosen.devices
            notes += chosen.notes
        return left, notes

    def shows(self, sample: Json) -> Optional[Json]:
        """A sample of a device that is left; None for others. The use of a slice of a card is unknown."""
        kind, index = str(sample["kind"]), int(sample["index"])
        if self._is_free(kind):
            return sample
        if index not in self._shown.get(kind, ()):
            return None
        if kind == "cuda" and self._slice is not None:
            return {**sample, "utilization": None, "vram_used_bytes": None, "processes": None}
        return sample

    def bind(self, env: Dict[str, str], over: Mapping[str, Optional[str]]) -> None:
        """Adapt the environment of a process whose devices ``over`` names by their index.

        A card in slices shows CUDA its first slice, whoever holds that: the process gets the agent's own by its UUID.
        HIP would count again inside what ROCR leaves, and indices count all devices. A process that is to see no device
        keeps ROCR's list.
        """
        if self._slice is not None and _INDEX.match(over.get(CUDA) or ""):
            env[CUDA] = self._slice
        if over.get(HIP) and ROCR in self._lists and ROCR not in over:
            env.pop(ROCR, None)

    def _is_free(self, kind: str) -> bool:
        names = (*_KINDS.get(kind, ()), *((CUDA,) if kind == "rocm" else ()))
        return not any(name in self._lists for name in names)

    def _of_kind(self, kind: str, found: List[Json], slices: List[Slice]) -> _Chosen:
        if self._is_free(kind):
            return _Chosen(found, [])
        if kind == "cuda" and self._slice is not None:
            chosen = self._sliced(found, slices)
        else:
            chosen = self._listed(kind, found)
        self._shown[kind] = {int(each["index"]) for each in chosen.devices}
        return chosen

    def _listed(self, kind: str, found: List[Json]) -> _Chosen:
        """ROCR's list comes first, HIP's counts inside it; HIP takes CUDA's where its own is not set."""
        notes: List[str] = []
        left, by_index = list(found), False
        for name in _KINDS[kind]:
            name = CUDA if name == HIP and HIP not in self._lists else name
            if name not in self._lists:
                continue
            by_index = by_index or any(_INDEX.match(each.strip()) for each in self._lists[name].split(","))
            left, ignored = _picked(self._lists[name], left, own_index=kind == "cuda")
            if ignored:
                notes.append("%s=%.300s: %s" % (name, self._lists[name], ignored))
        if kind == "cuda" and by_index and not self._by_bus and len({each["model"] for each in found}) > 1:
            notes.append(
                "%s=%.300s is read as nvidia-smi counts, and programs without %s=PCI_BUS_ID count the fastest device "
                "first; name the devices by their UUIDs" % (CUDA, self._lists[CUDA], ORDER)
            )
        return _Chosen(sorted(left, key=lambda each: int(each["index"])), notes)

    def _sliced(self, found: List[Json], slices: List[Slice]) -> _Chosen:
        assert self._slice is not None
        wanted = self._slice.lower()
        mine = [each for each in slices if each.uuid.lower().startswith(wanted)]
        cards = {int(each["index"]): each for each in found}
        if len(mine) == 1 and mine[0].card in cards:
            card = cards[mine[0].card]
            model = None if card["model"] is None else "%s MIG %s" % (card["model"], mine[0].profile)
            self._slice = mine[0].uuid
            return _Chosen([{**card, "model": model, "vram_bytes": None, "uuid": mine[0].uuid}], [])
        old = _OLD_SLICE.match(self._slice)
        by_uuid = [each for each in found if old is not None and each["uuid"] == old.group(1)]
        if by_uuid:
            return _Chosen([{**by_uuid[0], "vram_bytes": None, "uuid": self._slice}], [])
        return _Chosen([], ["%s=%.300s: %s" % (CUDA, self._lists[CUDA], _ignored(self._slice, "names no slice"))])


def _picked(text: str, devices: List[Json], own_index: bool) -> Tuple[List[Json], str]:
    """The devices that a list names, and why its rest is ignored; ``own_index``: by their index, not their place."""
    by_index = {int(each["index"]) if own_index else place: each for place, each in enumerate(devices)}
    picked: List[Json] = []
    entries = [each.strip() for each in text.split(",")] if text.strip() else []
    for entry in entries:
        named = [by_index[int(entry)]] if _INDEX.match(entry) and int(entry) in by_index else []
        if _UUID.match(entry):
            named = [each for each in devices if _has_uuid(each, entry)]
        if len(named) != 1:
            return picked, _ignored(entry, "names several devices" if named else "names no device")
        if named[0] in picked:
            return picked, _ignored(entry, "names a device a second time")
        picked.append(named[0])
    return picked, ""


def _has_uuid(device: Json, entry: str) -> bool:
    """Whether the entry is the UUID of the device, or the begin of it. AMD's tools write it in hexadecimal alone."""
    uuid = str(device["uuid"] or "").lower()
    wanted = entry.lower()
    if device["kind"] == "rocm":
        return bool(uuid) and _bare(uuid).startswith(_bare(wanted))
    return bool(uuid) and uuid.startswith(wanted)


def _bare(uuid: str) -> str:
    return re.sub(r"\A(?:gpu-|0x)", "", uuid)


def _ignored(entry: str, why: str) -> str:
    return "entry %r %s, so it and all entries behind it are ignored, as the driver's runtime does" % (
        entry[:_LONGEST_QUOTE],
        why,
    )
