"""Apple's devices: the GPU of a Mac's own chip, which shares the memory of the machine."""

from __future__ import annotations

import platform
from typing import Any, Dict, List, Optional

from .protocol import Json
from .readings import amount, json_in, whole
from .tools import Question, Talk, Tools

DISPLAYS = ["system_profiler", "SPDisplaysDataType", "-json"]
MEMORY = ["sysctl", "-n", "hw.memsize"]


class Apple:
    """The GPU of an Apple chip. Nothing without root tells how busy it is."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools

    def is_there(self) -> bool:
        """Whether this is such a machine."""
        return platform.system() == "Darwin" and platform.machine() == "arm64"

    def facts(self) -> Talk:
        """What it is; None if nobody says."""
        displays = yield Question(DISPLAYS, apple_model_answer)
        if displays is None:
            return None
        memory = yield Question(MEMORY, memory_answer)
        return apple_devices(displays, memory or "")

    def samples(self) -> Talk:
        """Nothing."""
        yield from ()
        return []


def apple_devices(displays: str, memory: str) -> Optional[List[Json]]:
    """The device of ``system_profiler SPDisplaysDataType -json`` and ``sysctl hw.memsize``; None if it is none.

    Its memory is all of the machine's: there is no other.
    """
    gpus = _gpus(displays)
    if gpus is None:
        return None
    models = [str(gpu.get("sppci_model") or gpu.get("_name")) for gpu in gpus if _is_apple(gpu)]
    vram = whole(amount(memory.rpartition(":")[2]))
    return [{"index": 0, "kind": "mps", "model": model[:200], "vram_bytes": vram, "uuid": None} for model in models[:1]]


def apple_model_answer(text: str) -> Optional[str]:
    """The text, if it is an answer of system_profiler."""
    return None if _gpus(text) is None else text


def memory_answer(text: str) -> Optional[str]:
    """The text, if it is a size."""
    return None if amount(text.rpartition(":")[2]) is None else text


def _gpus(text: str) -> Optional[List[Dict[str, Any]]]:
    told = json_in(text)
    listed = told.get("SPDisplaysDataType") if isinstance(told, dict) else None
    return [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else None


def _is_apple(gpu: Dict[str, Any]) -> bool:
    maker = str(gpu.get("spdisplays_vendor") or gpu.get("sppci_vendor") or "")
    return "apple" in maker.lower() or str(gpu.get("sppci_model") or gpu.get("_name")).startswith("Apple ")
