"""Machines that stand still for ever: where the processor of a Game Boy comes to an opcode that it does not have.

PyBoy does not come back from there either: no signal and no exception ends the call that it is in. But it lets other
threads work meanwhile, and one of them can look where the processor stands, and end the process with words that say so.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from threading import Event, Thread
from typing import TYPE_CHECKING, NamedTuple, Protocol

from hostler.workloads.gameboy.rom import Cartridge

if TYPE_CHECKING:
    from pyboy import PyBoy

EVERY_S = 5.0
"""Between two looks at machines that play."""
LOOKS, BETWEEN_S = 4, 0.05
"""In a row that have to find the same, before that is for ever."""
NO_OPCODES = frozenset({0xD3, 0xDB, 0xDD, 0xE3, 0xE4, 0xEB, 0xEC, 0xED, 0xF4, 0xFC, 0xFD})
"""That the processor does not have (https://gbdev.io/pandocs/CPU_Instruction_Set.html)."""
CALM = (range(0x8000), range(0xC000, 0xE000))
"""Memory that may be looked at while the machine runs: reading elsewhere makes its other parts go on."""


class Stand(NamedTuple):
    """Where a processor stands, and before what."""

    at: int
    opcode: int

    def told(self, cartridge: Cartridge) -> str:
        """For people."""
        return (
            f"{cartridge.named} stands still at {self.at:#06x}: {self.opcode:#04x} there is no opcode of the "
            "processor, and neither a Game Boy nor PyBoy goes on from it; the ROM is damaged, made for what PyBoy does "
            "not emulate, or has a fault that was come to: try another copy of it"
        )


class Stands(Protocol):
    """What may stand still."""

    def stands(self) -> Stand | None:
        """Before what is no opcode; `None`: it goes on, or stands where it cannot be looked at."""
        ...


def stand_of(pyboy: PyBoy) -> Stand | None:
    """As `Stands.stands`; from any thread."""
    at = int(pyboy.register_file.PC)
    if not any(at in each for each in CALM):
        return None
    opcode = int(pyboy.memory[at])
    return Stand(at, opcode) if opcode in NO_OPCODES else None


class Watch:
    """Another thread that looks at machines, until it is closed; once one stands still, it says so and looks no more.

    `tell` has that machine's stand. Whoever plays it never comes back: `tell` has to end the process.
    """

    def __init__(self, machines: Sequence[Stands], tell: Callable[[Stand], None], every_s: float = EVERY_S) -> None:
        self._machines = machines
        self._tell = tell
        self._every_s = every_s
        self._over = Event()
        self._thread = Thread(target=self._look, name="stillness", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Look no more; machines may be let go of then."""
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._over.wait(self._every_s):
            for each in self._machines:
                found = _for_ever(each)
                if found is not None:
                    self._tell(found)
                    return


def _for_ever(machine: Stands) -> Stand | None:
    first = machine.stands()
    for _ in range(1, LOOKS):
        if first is None:
            return None
        time.sleep(BETWEEN_S)
        if machine.stands() != first:
            return None
    return first
