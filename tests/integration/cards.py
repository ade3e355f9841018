"""Two cards of a machine, as an nvidia-smi tells of them whose answers a test writes."""

from __future__ import annotations

from pathlib import Path

from tests.agent.toolbox import put

UUIDS = ("GPU-aa", "GPU-bb")
SMI = """
at=0
case "$1" in
--query-gpu=index,name,*) for uuid in GPU-aa GPU-bb; do echo "$at, Fake 4090, 24564, $uuid"; at=$((at+1)); done ;;
--query-gpu=*)
    for uuid in GPU-aa GPU-bb; do
        echo "$at, 5, $(cat {folder}/$uuid.used), 40, $uuid, Fake 4090, [N/A]"; at=$((at+1))
    done ;;
--query-compute-apps=*) cat {folder}/apps ;;
esac
"""


class Cards:
    """Two cards, and what uses them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.tools = put(folder / "bin", "nvidia-smi", SMI.format(folder=folder)).parent
        self.use()

    def use(self, *apps: str, used_mib: dict[str, int] | None = None) -> None:
        """Have nvidia-smi list these processes (`UUID, PID, MIB`), and this memory as used."""
        memory = dict.fromkeys(UUIDS, 100)
        for uuid, _, mib in (each.split(", ") for each in apps):
            memory[uuid] += int(mib)
        for uuid, mib in {**memory, **(used_mib or {})}.items():
            self._write(f"{uuid}.used", str(mib))
        self._write("apps", "".join(f"{each}\n" for each in apps))

    def _write(self, name: str, text: str) -> None:
        new = self.folder / f"{name}.new"
        new.write_text(text)
        new.rename(self.folder / name)
