"""Whether a game can be played at all, found out in a process of its own: there are cartridges that never come back.

The processor of a Game Boy stands still at an opcode that it does not have. So does PyBoy, for ever, inside one call
that no signal and no exception ends; whoever made it could only be killed. So the first time a cartridge is played is
in a child that may be: it tells where the game stands, or has used up more of a CPU than any game takes.
"""

from __future__ import annotations

import os
import pickle
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Event, Thread
from typing import TYPE_CHECKING

from hostler.workloads.gameboy.checks import STEPS, Finding, Verdict, check_game, frames_of
from hostler.workloads.gameboy.game import Game
from hostler.workloads.gameboy.machine import inserted
from hostler.workloads.gameboy.rom import Cartridge
from hostler.workloads.gameboy.strict import SpecError

if TYPE_CHECKING:
    from pyboy import PyBoy

CHILD = "from hostler.workloads.gameboy.trial import child; child()"
PROVED_STEPS = 500
"""Of what a training plays by chance before it begins."""
LEAST_CPU_S = 30.0
FRAMES_PER_CPU_S = 2000
"""A fifth of what the slowest game comes to, with sound (docs/performance.md)."""
LOOKS_S = 0.05
SURE = 4
"""Looks in a row that found the processor at the same opcode."""
NO_OPCODES = frozenset({0xD3, 0xDB, 0xDD, 0xE3, 0xE4, 0xEB, 0xEC, 0xED, 0xF4, 0xFC, 0xFD})
"""That the processor does not have (https://gbdev.io/pandocs/CPU_Instruction_Set.html)."""


class Hangs(SpecError):
    """The game stands still, and with it whoever plays it."""


class Unsound(SpecError):
    """The game is not what its file says."""


def tried(game: Game, cartridge: Cartridge, *, steps: int = STEPS) -> list[Finding]:
    """What `check_game` finds, in a process of its own. Raises `SpecError`: `Hangs` where it does not come back."""
    asked = pickle.dumps((game, cartridge, steps, _cpu_s(game, steps)))
    with subprocess.Popen([sys.executable, "-c", CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        try:
            told, _ = child.communicate(asked)
        finally:
            child.kill()
    if child.returncode == -signal.SIGXCPU:
        raise Hangs(
            f"{_named(cartridge)} has stood still: a frame of it has not ended in {_cpu_s(game, steps):.0f} s of a "
            "CPU; the ROM is damaged, or made for what PyBoy does not emulate: try another copy of it, or look with "
            "PyBoy itself how far it comes"
        )
    if child.returncode:
        raise SpecError(f"{_named(cartridge)} cannot be tried: the process that played it ended with {_how(child)}")
    found: list[Finding] | SpecError = pickle.loads(told)  # noqa: S301 - from our own child
    if isinstance(found, SpecError):
        raise found
    return found


def proved(game: Game, cartridge: Cartridge, *, steps: int = PROVED_STEPS) -> list[str]:
    """What there is to note of a game before it is learnt. Raises `SpecError`: `Unsound` where something is wrong."""
    found = tried(game, cartridge, steps=steps)
    wrong = [f"{each.what}: {each.words}" for each in found if each.verdict is Verdict.WRONG]
    if wrong:
        raise Unsound(f"the game is not what its file says, so nothing is learnt: {'; '.join(wrong)}")
    return [f"{each.what}: {each.words}" for each in found if each.verdict is Verdict.NOTE]


def child() -> None:
    """What the child does: pickles of ours, in on standard input and out on standard output."""
    out = os.dup(1)
    os.dup2(2, 1)  # nothing else may come among what is told
    game, cartridge, steps, cpu_s = pickle.load(sys.stdin.buffer)  # noqa: S301 - from whoever has begun us
    until = int(time.process_time() + cpu_s) + 1
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (until, until + 1))
    told: Sequence[Finding] | SpecError
    try:
        if cartridge.state is None:
            _boot(game, cartridge, out)
        told = check_game(game, cartridge, steps=steps)
    except SpecError as error:
        told = error
    _tell(out, told)


def _cpu_s(game: Game, steps: int) -> float:
    """What may be used up: far more than it takes, however slow the machine."""
    return LEAST_CPU_S + frames_of(game, steps) / FRAMES_PER_CPU_S


def _named(cartridge: Cartridge) -> str:
    return f"the ROM {cartridge.title!r} with the SHA-256 {cartridge.sha256}"


def _how(child: subprocess.Popen[bytes]) -> str:
    code = child.returncode
    return f"signal {-code}" if code < 0 else f"status {code}; see what it wrote above"


def _boot(game: Game, cartridge: Cartridge, out: int) -> None:
    """As far as where episodes begin and a step further, watched on the way."""
    pyboy = inserted(cartridge, sound=game.sound)
    pyboy.set_emulation_speed(0)
    with _watched(pyboy, cartridge, out):
        pyboy.tick(game.boot_frames + game.skip, False, False)
    pyboy.stop(save=False)


@contextmanager
def _watched(pyboy: PyBoy, cartridge: Cartridge, out: int) -> Iterator[None]:
    """Meanwhile another thread, which PyBoy lets work, looks where the processor stands; it ends us where that is for
    ever."""
    over = Event()
    watcher = Thread(target=_watch, args=(pyboy, cartridge, out, over), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


def _watch(pyboy: PyBoy, cartridge: Cartridge, out: int, over: Event) -> None:
    looks: list[tuple[int, int]] = []
    while not over.wait(LOOKS_S):
        at = int(pyboy.register_file.PC)
        looks = [*looks[1 - SURE :], (at, int(pyboy.memory[at]))]
        if len(looks) == SURE and len(set(looks)) == 1 and looks[0][1] in NO_OPCODES:
            _tell(out, Hangs(_stands(cartridge, *looks[0])))
            os._exit(0)


def _stands(cartridge: Cartridge, at: int, opcode: int) -> str:
    return (
        f"{_named(cartridge)} stands still at {at:#06x}: {opcode:#04x} there is no opcode of the processor, and "
        "neither a Game Boy nor PyBoy goes on from it; the ROM is damaged, or made for what PyBoy does not emulate: "
        "try another copy of it"
    )


def _tell(out: int, told: object) -> None:
    with os.fdopen(out, "wb") as file:
        pickle.dump(told, file)
