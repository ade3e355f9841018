"""The GPUs of this machine by sources that Hostler does not use for it: `nvidia-smi -L`, device files, the PCI bus."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

LISTED = re.compile(r"^GPU (\d+): (.*) \(UUID: (GPU-[^)\s]+)\)$", re.MULTILINE)
NVIDIA, AMD = "0x10de", "0x1002"
ASK_S = 30.0


class Card(NamedTuple):
    """A card as `nvidia-smi -L` lists it."""

    number: int
    model: str
    uuid: str


class Machine(NamedTuple):
    """The cards, and in words why there are none, or what of the machine says that there should be some."""

    cards: Sequence[Card]
    says: str
    has_gpu: bool
    """Whether there is an NVIDIA card, be its driver well or not."""


def look(pci: Path = Path("/sys/bus/pci/devices"), dev: Path = Path("/dev")) -> Machine:
    """The machine as it is now."""
    listing, problem = _listing()
    cards = [Card(int(index), model, uuid) for index, model, uuid in LISTED.findall(listing)]
    if cards:
        return Machine(cards, f"{len(cards)} of NVIDIA", has_gpu=True)
    if _displays(pci, NVIDIA) or (dev / "nvidia0").exists():
        return Machine((), f"an NVIDIA card is there, and {problem}", has_gpu=True)
    others = _displays(pci, AMD)
    more = f"; {others} of AMD are there, for which there are no checks" if others else ""
    return Machine((), f"{problem}{more}", has_gpu=False)


def _listing() -> tuple[str, str]:
    """The answer of nvidia-smi, and what is wrong where it lists nothing."""
    if shutil.which("nvidia-smi") is None:
        return "", "nvidia-smi is not installed"
    try:
        asked = subprocess.run(["nvidia-smi", "-L"], capture_output=True, timeout=ASK_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return "", f"nvidia-smi does not answer: {error}"
    text = asked.stdout.decode(errors="replace")
    if asked.returncode == 0:
        return text, "nvidia-smi lists no card"
    return "", f"nvidia-smi fails: {' '.join((text + asked.stderr.decode(errors='replace')).split())[:200]}"


def _displays(pci: Path, vendor: str) -> int:
    found = 0
    for path in pci.glob("*/class"):
        try:
            is_display = path.read_text().startswith("0x03")
            found += is_display and (path.parent / "vendor").read_text().strip() == vendor
        except OSError:  # a device may be taken off the bus while it is read
            continue
    return found
