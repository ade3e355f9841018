"""Cartridges and states that people bring: the right ones, by their hashes, and made for each other.

They are read where they lie; nothing keeps or passes on a copy.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hostler.workloads.gameboy.strict import SpecError

CGB_FLAG, CGB_TOO, CGB_ONLY = 0x143, 0x80, 0xC0
TITLE = slice(0x134, 0x143)
SUMMED, SUM = slice(0x134, 0x14D), 0x14D
LEAST_BYTES = 0x8000
STATE_OLDEST, STATE_CGB = 16, 5
"""States of PyBoy from this version on have a byte there that tells the mode (pyboy/core/mb.py, `save_state`)."""


class Unreadable(SpecError):
    """A file is not there, or cannot be read."""


class OtherFile(SpecError):
    """A file is not the one that was asked for."""


class NoCartridge(SpecError):
    """It is no ROM of a Game Boy."""


class NoState(SpecError):
    """It is no state of PyBoy."""


class OtherMode(SpecError):
    """ROM, state and mode are not made for each other."""


@dataclass(frozen=True, slots=True)
class Cartridge:
    """What is played: a ROM, whether as on a Game Boy Color, and the state that episodes begin in, if there is one."""

    rom: bytes
    cgb: bool
    state: bytes | None = None

    @property
    def sha256(self) -> str:
        """Of the ROM."""
        return hashlib.sha256(self.rom).hexdigest()

    @property
    def named(self) -> str:
        """For people who have to find it."""
        return f"the ROM {self.title!r} with the SHA-256 {self.sha256}"

    @property
    def title(self) -> str:
        """As its header has it."""
        return self.rom[TITLE].split(b"\0")[0].decode("ascii", errors="replace").strip()


def insert(rom: bytes, state: bytes | None = None, *, cgb: bool | None = None) -> Cartridge:
    """A cartridge and a state, checked against each other; `cgb`: the mode, by default what the ROM's header asks for.

    Raises `SpecError` where the ROM is none, is not made for the mode, or the state was kept in the other one.
    """
    if len(rom) < LEAST_BYTES or _header_sum(rom) != rom[SUM]:
        raise NoCartridge(f"this is no ROM of a Game Boy: {len(rom)} bytes, whose header has a wrong sum or is cut off")
    flag = rom[CGB_FLAG]
    mode = bool(flag & CGB_TOO) if cgb is None else cgb
    if not mode and flag == CGB_ONLY:
        raise OtherMode("the ROM is for the Game Boy Color only; say `mode: cgb`")
    if state is not None:
        kept = _mode_of(state)
        if kept is not None and kept != mode:
            raise OtherMode(
                f"the state was kept in {_told(kept)} mode, the ROM is to run in {_told(mode)} mode: it would load, "
                f"and hang. Say `mode: {_told(kept)}` if the ROM can, or make the state again"
            )
    return Cartridge(rom, mode, state)


def banked(cartridge: Cartridge, values: Sequence[str]) -> None:
    """Raises `OtherMode` where values with these names are in banks of memory that the mode does not have."""
    if values and not cartridge.cgb:
        raise OtherMode(
            f"ram.{values[0]}.bank: there are banks on a Game Boy Color only, and the game is played in dmg mode; say "
            "`mode: cgb` if the ROM can, or leave `bank` out"
        )


def read(path: Path, sha256: str) -> bytes:
    """A file, if it is the right one. Raises `SpecError`."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise Unreadable(f"{path} cannot be read: {error.strerror}") from error
    found = hashlib.sha256(content).hexdigest()
    if found != sha256.lower():
        raise OtherFile(f"{path} is another file: its SHA-256 is {found}, and {sha256} was asked for")
    return content


def _header_sum(rom: bytes) -> int:
    """https://gbdev.io/pandocs/The_Cartridge_Header.html"""
    total = 0
    for byte in rom[SUMMED]:
        total = (total - byte - 1) & 0xFF
    return total


def _mode_of(state: bytes) -> bool | None:
    """Whether a state is of a Game Boy Color; `None`: this cannot be told of so old a one."""
    if len(state) <= STATE_CGB:
        raise NoState("the state is empty or cut off")
    return None if state[0] < STATE_OLDEST else bool(state[STATE_CGB])


def _told(cgb: bool) -> str:
    return "cgb" if cgb else "dmg"
