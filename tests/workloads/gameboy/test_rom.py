"""Cartridges and states that are not what they should be are refused before anything is played."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path

import pytest
from pyboy import PyBoy

from hostler.workloads.gameboy.homebrew.cartridge import cartridge
from hostler.workloads.gameboy.rom import insert, read
from hostler.workloads.gameboy.strict import SpecError


def state(*, cgb: bool) -> bytes:
    """A real one."""
    machine = PyBoy(io.BytesIO(cartridge(busy=0, cgb=True)), ram_file=io.BytesIO(), window="null", cgb=cgb)
    machine.set_emulation_speed(0)
    machine.tick(60, False, False)
    kept = io.BytesIO()
    machine.save_state(kept)
    machine.stop(save=False)
    return kept.getvalue()


def test_a_cartridge_tells_its_title_and_its_mode() -> None:
    assert insert(cartridge()).title == "KEYROOMS"
    assert [insert(cartridge(cgb=cgb)).cgb for cgb in (False, True)] == [False, True]
    assert insert(cartridge(cgb=True), cgb=False).cgb is False


@pytest.mark.parametrize("rom", [b"", bytes(0x8000), cartridge()[:0x4000], b"\x7fELF" + bytes(0x9000)])
def test_what_is_no_rom_is_refused(rom: bytes) -> None:
    with pytest.raises(SpecError, match="no ROM of a Game Boy"):
        insert(rom)


@pytest.mark.parametrize("mode", [False, True])
def test_a_state_of_the_other_mode_is_refused(mode: bool) -> None:
    rom = cartridge(busy=0, cgb=True)
    assert insert(rom, state(cgb=mode), cgb=mode).state is not None
    with pytest.raises(SpecError, match="it would load, and hang"):
        insert(rom, state(cgb=not mode), cgb=mode)
    with pytest.raises(SpecError, match="empty or cut off"):
        insert(rom, b"\x19")


def test_a_rom_for_the_colour_alone_does_not_run_without() -> None:
    rom = bytearray(cartridge())
    rom[0x14D] = (rom[0x14D] - 0xC0) & 0xFF  # the sum of a header that says so
    rom[0x143] = 0xC0
    assert insert(bytes(rom)).cgb
    with pytest.raises(SpecError, match="mode: cgb"):
        insert(bytes(rom), cgb=False)


def test_a_file_is_read_only_if_it_is_the_one(tmp_path: Path) -> None:
    path = tmp_path / "game.gb"
    with pytest.raises(SpecError, match="cannot be read: No such file"):
        read(path, "0" * 64)
    path.write_bytes(b"game")
    digest = hashlib.sha256(b"game").hexdigest()
    assert read(path, digest.upper()) == b"game"
    with pytest.raises(SpecError, match=f"another file: its SHA-256 is {digest}"):
        read(path, "0" * 64)
