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
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hostler.workloads.gameboy.checks import STEPS, Finding, Verdict, check_game, frames_of
from hostler.workloads.gameboy.game import Game
from hostler.workloads.gameboy.machine import inserted
from hostler.workloads.gameboy.rom import Cartridge
from hostler.workloads.gameboy.stillness import Stand, Watch, stand_of
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
"""Between two looks where a machine stands: nobody else is kept waiting by them."""


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
            f"{cartridge.named} has stood still: a frame of it has not ended in {_cpu_s(game, steps):.0f} s of a "
            "CPU; the ROM is damaged, or made for what PyBoy does not emulate: try another copy of it, or look with "
            "PyBoy itself how far it comes"
        )
    if child.returncode:
        raise SpecError(f"{cartridge.named} cannot be tried: the process that played it ended with {_how(child)}")
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


def _how(child: subprocess.Popen[bytes]) -> str:
    code = child.returncode
    return f"signal {-code}" if code < 0 else f"status {code}; see what it wrote above"


def _boot(game: Game, cartridge: Cartridge, out: int) -> None:
    """As far as where episodes begin and a step further, watched on the way."""
    pyboy = inserted(cartridge, sound=game.sound)
    pyboy.set_emulation_speed(0)
    watch = Watch([_Booting(pyboy)], lambda stand: _ended(out, Hangs(stand.told(cartridge))), LOOKS_S)
    pyboy.tick(game.boot_frames + game.skip, False, False)
    watch.close()
    pyboy.stop(save=False)


class _Booting:
    """A machine that is none yet."""

    def __init__(self, pyboy: PyBoy) -> None:
        self._pyboy = pyboy

    def stands(self) -> Stand | None:
        return stand_of(self._pyboy)


def _ended(out: int, told: SpecError) -> None:
    _tell(out, told)
    os._exit(0)


def _tell(out: int, told: object) -> None:
    with os.fdopen(out, "wb") as file:
        pickle.dump(told, file)
