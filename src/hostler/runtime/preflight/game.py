"""Are order, game, ROM and state there, the right ones, and made for each other? Nothing is played, nothing kept."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from hostler.runtime.preflight.proof import Proof, error, ok
from hostler.workloads.gameboy import order, rom, strict

FIXES: Mapping[type[strict.SpecError], tuple[str, str]] = {
    rom.Unreadable: ("missing", "put it there, or correct its path in the order"),
    rom.OtherFile: ("other", "bring the file that was meant, or have its hash in the order (`sha256sum`)"),
    rom.NoCartridge: ("rom", "bring the ROM of a game; what was fetched may be a page that says why it was not"),
    rom.OtherMode: ("mode", "say the mode in the order, or make the state again in this one"),
    rom.NoState: ("state", "make the state again"),
}
"""By what is wrong: the code, and what to do."""


def prove_game(path: Path | None, environ: Mapping[str, str]) -> Proof:
    """Read an order and everything that it names."""
    if path is None:
        return Proof("game", "game-unnamed", "unknown", "no order is named", "name it in `rl.order`: it is what runs")
    try:
        found = order.read_order(path, environ)
    except strict.SpecError as fault:
        code, fix = FIXES.get(type(fault), ("order", "mend it there; docs/reference/gameboy.md says what it may say"))
        return error("game", code, str(fault), fix)
    cartridge = found.cartridge
    mode = "cgb" if cartridge.cgb else "dmg"
    state = "no state: episodes begin at the start" if cartridge.state is None else "the state was kept in that mode"
    return ok("game", f"{found.game.name} on {cartridge.title}, {len(cartridge.rom) >> 10} KiB, {mode}; {state}")
