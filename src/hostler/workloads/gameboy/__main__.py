"""By hand: `python -m hostler.workloads.gameboy check|train|rom …`.

Exit status: 0 done, 1 failed, 2 asked for what cannot be.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hostler.workloads.gameboy.checks import Verdict
from hostler.workloads.gameboy.homebrew.cartridge import cartridge
from hostler.workloads.gameboy.order import read_order
from hostler.workloads.gameboy.strict import SpecError
from hostler.workloads.gameboy.trial import proved, tried

if TYPE_CHECKING:
    from hostler.workloads.gameboy.training import Training

DONE, FAILED, MISUSED = 0, 1, 2


def main(arguments: Sequence[str]) -> int:
    """One command."""
    asked = _parsed(arguments)
    try:
        status: int = asked.command(asked)
    except SpecError as error:
        print(f"gameboy: error: {error}", file=sys.stderr)
        return MISUSED
    except _failures() as error:
        print(f"gameboy: error: {error}", file=sys.stderr)
        return FAILED
    return status


def rom(asked: argparse.Namespace) -> int:
    """Write our own cartridge."""
    asked.file.write_bytes(cartridge(cgb=asked.cgb))
    return DONE


def check(asked: argparse.Namespace) -> int:
    """Play by chance, and tell what is not as the game's file has it."""
    order = read_order(asked.order, os.environ)
    found = tried(order.run.game(order.game), order.cartridge, steps=asked.steps)
    for each in found:
        print(f"{each.verdict:5}  {each.what}: {each.words}")
    return FAILED if any(each.verdict is Verdict.WRONG for each in found) else DONE


def train(asked: argparse.Namespace) -> int:
    """Learn, from the newest checkpoint on, once the game was found to be what its file says."""
    from hostler.workloads.gameboy.checkpoints import Checkpoints
    from hostler.workloads.gameboy.training import Training

    order = read_order(asked.order, os.environ)
    notes = proved(order.run.game(order.game), order.cartridge)
    if notes:
        _tell({"note": "; ".join(notes)})
    kept = None if asked.checkpoints is None else Checkpoints(asked.checkpoints, order.made_of, order.beside)
    try:
        training = Training(order.run, order.game, order.cartridge, kept, told=_tell)
    except ValueError as error:
        raise SpecError(str(error)) from error
    signal.signal(signal.SIGTERM, lambda *_: training.end())
    signal.signal(signal.SIGINT, lambda *_: _interrupted(training))
    progress = training.run()
    ending = {"steps": progress.steps, "places": progress.mean_places, "reward": progress.mean_reward}
    _tell({**ending, "done": training.is_over})
    return DONE


def _interrupted(training: Training) -> None:
    """Once, it ends as if it were asked to; twice, whoever is at the keyboard waits no longer."""
    training.end()
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _failures() -> tuple[type[Exception], ...]:
    """What ends a training, with words that say why; looked for when it has: to play, nobody needs PyTorch."""
    from hostler.workloads.alphazero.artifacts import ArtifactError
    from hostler.workloads.gameboy.batch import WrongValue
    from hostler.workloads.gameboy.training import Diverged
    from hostler.workloads.gameboy.workers import NoWorker

    return ArtifactError, WrongValue, Diverged, NoWorker


def _tell(told: Mapping[str, Any]) -> None:
    print(json.dumps(told), flush=True)


def _some(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("has to be 1 at least")
    return number


def _parsed(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m hostler.workloads.gameboy", description=__doc__)
    commands = parser.add_subparsers(required=True)
    making = commands.add_parser("rom", help=rom.__doc__)
    making.add_argument("file", type=Path)
    making.add_argument("--cgb", action="store_true", help="for the Game Boy Color")
    making.set_defaults(command=rom)
    checking = commands.add_parser("check", help=check.__doc__)
    checking.add_argument("order", type=Path)
    checking.add_argument("--steps", type=_some, default=2000)
    checking.set_defaults(command=check)
    training = commands.add_parser("train", help=train.__doc__)
    training.add_argument("order", type=Path)
    training.add_argument("--checkpoints", type=Path, help="folder that it goes on from, and leaves its own in")
    training.set_defaults(command=train)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
