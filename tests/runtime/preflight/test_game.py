"""Orders, ROMs and states that are right, and those that are not: real files, our own cartridge."""

from __future__ import annotations

import hashlib
import io
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from hostler.runtime.preflight.game import prove_game
from hostler.workloads.gameboy.homebrew.cartridge import cartridge
from tests.patience import PATIENCE_S

ORDER = "schema: 1\ngame: keyrooms\nrom: {rom}\n{more}training: {{steps: 1000}}\n"


@cache
def state(*, cgb: bool) -> bytes:
    """A real one, of our cartridge in that mode."""
    pyboy = pytest.importorskip("pyboy", reason="PyBoy is not installed, which makes states")
    machine = pyboy.PyBoy(io.BytesIO(cartridge(busy=0, cgb=True)), ram_file=io.BytesIO(), window="null", cgb=cgb)
    machine.set_emulation_speed(0)
    machine.tick(60, False, False)
    kept = io.BytesIO()
    machine.save_state(kept)
    machine.stop(save=False)
    return kept.getvalue()


def order(folder: Path, rom: bytes | None, *, kept: bytes | None = None, mode: str | None = None) -> Path:
    def named(name: str, content: bytes) -> str:
        (folder / name).write_bytes(content)
        return f"{{path: {name}, sha256: {hashlib.sha256(content).hexdigest()}}}"

    more = "" if kept is None else f"state: {named('game.state', kept)}\n"
    more += "" if mode is None else f"mode: {mode}\n"
    path = folder / "order.yaml"
    path.write_text(ORDER.format(rom="keyrooms" if rom is None else named("game.gb", rom), more=more))
    return path


def test_our_own_game_needs_nothing(tmp_path: Path) -> None:
    found = prove_game(order(tmp_path, None), {})
    assert (found.code, found.health) == ("game-ok", "ok")
    assert "key rooms on KEYROOMS, 32 KiB, dmg; no state" in found.says


def test_a_rom_and_a_state_of_one_mode_are_proved(tmp_path: Path) -> None:
    found = prove_game(order(tmp_path, cartridge(cgb=True), kept=state(cgb=True)), {})
    assert found.health == "ok"
    assert "cgb; the state was kept in that mode" in found.says


def test_a_state_of_the_other_mode_is_refused(tmp_path: Path) -> None:
    found = prove_game(order(tmp_path, cartridge(cgb=True), kept=state(cgb=False)), {})
    assert (found.code, found.health) == ("game-mode", "error")
    assert "it would load, and hang" in found.says


def test_a_rom_that_is_not_there_is_told(tmp_path: Path) -> None:
    path = order(tmp_path, cartridge())
    (tmp_path / "game.gb").unlink()
    found = prove_game(path, {})
    assert found.code == "game-missing"
    assert "game.gb cannot be read: No such file" in found.says


def test_another_rom_is_told_with_its_hash(tmp_path: Path) -> None:
    path = order(tmp_path, cartridge())
    (tmp_path / "game.gb").write_bytes(cartridge(busy=0))
    found = prove_game(path, {})
    assert found.code == "game-other"
    assert hashlib.sha256(cartridge(busy=0)).hexdigest() in found.says


def test_a_page_is_no_rom(tmp_path: Path) -> None:
    assert prove_game(order(tmp_path, b"<html>not found</html>"), {}).code == "game-rom"


def test_a_state_that_is_cut_off_is_told(tmp_path: Path) -> None:
    assert prove_game(order(tmp_path, cartridge(), kept=b"\x10"), {}).code == "game-state"


def test_an_order_that_cannot_be_is_told(tmp_path: Path) -> None:
    path = tmp_path / "order.yaml"
    path.write_text("schema: 1\ngame: keyrooms\nrom: keyrooms\ntraining: {step: 3}\n")
    found = prove_game(path, {})
    assert found.code == "game-order"
    assert prove_game(tmp_path / "nowhere.yaml", {}).code == "game-order"
    assert prove_game(None, {}).health == "unknown"


def test_neither_emulator_nor_learner_is_imported_for_it() -> None:
    """The controller and the command line do without them."""
    words = (
        "import sys, hostler.cli.rl, hostler.runtime.preflight.proving\n"
        "print([name for name in ('numpy', 'torch', 'pyboy', 'ray', 'gymnasium') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    assert done.stdout.strip() == "[]"
