"""NVIDIA's devices, as nvidia-smi tells of them."""

from __future__ import annotations

import re
from functools import partial
from typing import Any, Dict, Generator, Iterator, List, Optional, Sequence, Set, Union

from .protocol import Json
from .readings import MIB, MOST_PROCESSES, number, sample, share, whole
from .tools import Question, Talk, Tools
from .users import process_of
from .visible import Slice

PROGRAM = "nvidia-smi"
FACT_FIELDS = ("index", "name", "memory.total", "uuid")
SAMPLE_FIELDS = ("index", "utilization.gpu", "memory.used", "temperature.gpu", "uuid", "name", "mig.mode.current")
PROCESS_FIELDS = ("gpu_uuid", "pid", "used_memory")
_DISPENSABLE = frozenset({"uuid", "name", "mig.mode.current"})
_FORMAT = "--format=csv,noheader,nounits"
_UNKNOWN_FIELD = re.compile(r'Field "([^"]*)" is not a valid field to query')
_LOST = re.compile(r"\bis lost\b")
_CARD_LINE = re.compile(r"GPU ([0-9]{1,9}): .*\(UUID: (GPU-[^)\s]+)\)")
_SLICE_LINE = re.compile(r"\s+MIG (\S+)\s.*\(UUID: (MIG-[^)\s]+)\)")
_VGPU = re.compile(r"-[0-9]+[ABCQ]\Z|\bvGPU\b", re.IGNORECASE)

Row = Dict[str, str]


class Nvidia:
    """The devices that nvidia-smi knows."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools
        self._unknown: Set[str] = set()

    def is_there(self) -> bool:
        """Whether there is somebody to ask."""
        return self._tools.has(PROGRAM)

    def facts(self) -> Talk:
        """What they are; None if nvidia-smi gives no answer. A lost one is left out."""
        rows = yield from self._rows(FACT_FIELDS)
        return None if rows is None else [_fact(row) for row in rows]

    def slices(self) -> Generator[Question, Any, Optional[List[Slice]]]:
        """The parts of cards in MIG mode; None if nvidia-smi gives no answer."""
        found: Optional[List[Slice]] = yield Question(
            [PROGRAM, "-L"],
            slices_in,
            PROGRAM + " -L",
            "the card of the slice that CUDA_VISIBLE_DEVICES names is unknown until it answers",
        )
        return found

    def samples(self) -> Talk:
        """How busy they are, and who keeps them busy; None if nvidia-smi gives no answer."""
        rows = yield from self._rows(SAMPLE_FIELDS)
        if not rows:
            return rows
        devices = [nvidia_sample(row) for row in rows]
        users = yield Question(
            [PROGRAM, "--query-compute-apps=" + ",".join(PROCESS_FIELDS), _FORMAT],
            process_rows,
            PROGRAM + " --query-compute-apps",
            "who uses its devices is unknown until it answers",
        )
        for at, row in enumerate(rows if users is not None else ()):
            if "uuid" in row:
                devices[at]["processes"] = self._processes(row["uuid"], users)
        return devices

    def _rows(self, fields: Sequence[str]) -> Generator[Question, Any, Optional[List[Row]]]:
        """Rows of these fields, less those that an older driver does not know: they cost it the whole answer."""
        while True:
            known = [field for field in fields if field not in self._unknown]
            answer = yield Question([PROGRAM, "--query-gpu=" + ",".join(known), _FORMAT], partial(self._read, known))
            if not isinstance(answer, str):
                rows: Optional[List[Row]] = answer
                return rows
            self._unknown.add(answer)

    def _read(self, fields: Sequence[str], text: str) -> Union[str, List[Row], None]:
        """Rows; the name of a field to do without; None if it is no answer."""
        refused = _UNKNOWN_FIELD.search(text)
        if refused is not None:
            return refused.group(1) if refused.group(1) in _DISPENSABLE.intersection(fields) else None
        rows = list(device_rows(fields, text))
        if not rows and text.strip():
            return None
        self._tell_of_lost(text)
        return rows

    def _tell_of_lost(self, text: str) -> None:
        lost = [row.strip() for row in text.splitlines() if _LOST.search(row)]
        if lost:
            self._tools.troubles.lasts("lost cuda", "a device is lost; nvidia-smi says: %s" % lost[0][:200])
        else:
            self._tools.troubles.over("lost cuda", "no device is lost any more, says nvidia-smi")

    def _processes(self, uuid: str, users: List[Row]) -> List[Json]:
        mine = [row for row in users if row["gpu_uuid"] == uuid][:MOST_PROCESSES]
        directory = self._tools.node.directory
        return [process_of(int(row["pid"]), whole(number(row["used_memory"]), MIB), directory) for row in mine]


def device_rows(fields: Sequence[str], text: str) -> Iterator[Row]:
    """The rows of an answer that tell of a device; of one that is lost there is none, or one without numbers."""
    for row in _cells(fields, text):
        if _is_number(row["index"]):
            yield row


def slices_in(text: str) -> Optional[List[Slice]]:
    """The slices of the cards that ``nvidia-smi -L`` lists; None if it is no such answer."""
    found: List[Slice] = []
    card: Optional[int] = None
    for line in text.splitlines():
        begins, part = _CARD_LINE.match(line), _SLICE_LINE.match(line)
        if begins is not None:
            card = int(begins.group(1))
        elif part is not None and card is not None:
            found.append(Slice(part.group(2), part.group(1), card))
    return found if card is not None else None


def process_rows(text: str) -> Optional[List[Row]]:
    """The rows of an answer that tell of a process; None if there is text and no such row."""
    rows = [row for row in _cells(PROCESS_FIELDS, text) if _is_number(row["pid"])]
    return rows if rows or not text.strip() else None


def nvidia_sample(row: Row) -> Json:
    """How busy a device is. Of one in slices (MIG), or a slice itself (vGPU), nobody can say that."""
    percent = None if _is_sliced(row) else number(row["utilization.gpu"])
    used = whole(number(row["memory.used"]), MIB)
    return sample("cuda", int(row["index"]), share(percent), used, number(row["temperature.gpu"]))


def _fact(row: Row) -> Json:
    return {
        "index": int(row["index"]),
        "kind": "cuda",
        "model": row.get("name") or None,
        "vram_bytes": whole(number(row["memory.total"]), MIB),
        "uuid": row.get("uuid") or None,
    }


def _is_sliced(row: Row) -> bool:
    return row.get("mig.mode.current") == "Enabled" or _VGPU.search(row.get("name", "")) is not None


def _cells(fields: Sequence[str], text: str) -> Iterator[Row]:
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) == len(fields):
            yield {field: cells[at] for at, field in enumerate(fields)}


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10
