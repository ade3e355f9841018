"""The models of training configs: listing, going back to an earlier one, playing against the current one."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated

from hostler.cli.common import ConfigName, Json, StateDir, client, directory
from hostler.cli.declarations import Argument, Option
from hostler.cli.show import Column, age, clean, quantity, say, say_json, table
from hostler.cli.training import rating_text
from hostler.model.errors import NotFound, UsageError

if TYPE_CHECKING:
    from hostler.client import View


PROGRAM = "hostler.workloads.alphazero"
SEATS = ("first", "second", "third", "fourth")
"""What the program calls them."""
SHOWN_SHA = 12
LISTED = 20
NUMBER_DIGITS = 5
"""Up to so many decimal digits are a model's number, anything else the beginning of its SHA-256."""
MODEL_COLUMNS = (
    Column("#", right=True),
    Column("MODEL"),
    Column("STATUS"),
    Column("ELO", right=True),
    Column("STEPS", right=True),
    Column("AGE", right=True),
    Column("WHY", yields=True),
)


def list_models(config: ConfigName, as_json: Json = False, state_dir: StateDir = None) -> None:
    """List the models of a training config, oldest first; the current one has a `*`.

    Example:
      hostler model list hex8_2p
    """
    models = client(state_dir).models(config)
    if as_json:
        say_json(models)
        return
    now = time.time()
    say(table(MODEL_COLUMNS, [_row(each, now) for each in models]) if models else ["no models yet"])


def rollback(
    config: ConfigName,
    which: Annotated[
        str | None,
        Argument(metavar="MODEL", help="Its number or the beginning of its SHA-256; by default the one before."),
    ] = None,
    why: Annotated[str | None, Option(help="Why; it is kept in the journal.")] = None,
    as_json: Json = False,
    state_dir: StateDir = None,
) -> None:
    """Make an earlier model of a training config the current one again.

    Self-play, training and evaluation go on from it.

    Example:
      hostler model rollback hex8_2p
      hostler model rollback hex8_2p 7 --why "plays worse against people"
    """
    asked = client(state_dir)
    models = asked.models(config)
    chosen = None if which is None else _find(config, models, which)["sha256"]
    before = next((each for each in models if each["current"]), None)
    view = asked.roll_back(config, chosen, why)
    if as_json:
        say_json(view)
        return
    was = "" if before is None else f", was {_name(before)}"
    current = view["current"] or ""
    now = next((_name(each) for each in models if each["sha256"] == current), clean(current[:SHOWN_SHA]))
    print(f"{clean(config)}: the current model is {now}{was}")


def play(
    config: ConfigName,
    simulations: Annotated[
        int | None, Option(min=1, help="Simulations for each of its moves; by default as it is rated.")
    ] = None,
    seat: Annotated[int, Option(min=1, max=len(SEATS), help="Your seat; who has the first moves first.")] = 1,
    state_dir: StateDir = None,
) -> int:
    """Play against the current model of a training config, on this terminal.

    It needs the extra `train`: pip install 'hostler[train]'.

    Example:
      hostler model play hex8_2p --simulations 200 --seat 2
    """
    view = client(state_dir).config(config)
    _refuse_unplayable(view, seat)
    options = {
        "--artifacts": str(directory(state_dir) / "artifacts"),
        "--model": view["current"],
        "--config": view["name"],
        "--game": json.dumps(view["game"]),
        "--simulations": _budget(view["player"]) if simulations is None else str(simulations),
        "--seat": SEATS[seat - 1],
    }
    words = [word for name, value in options.items() if value is not None for word in (name, value)]
    return subprocess.run([sys.executable, "-m", PROGRAM, "play", *words], check=False).returncode


def _row(model: View, now: float) -> Sequence[object]:
    return (
        ("*" if model["current"] else "") + str(model["number"]),
        model["sha256"][:SHOWN_SHA],
        model["status"],
        rating_text(model["rating"]),
        quantity(model["steps"]),
        age(model["made_at"], now),
        model["why"] or "",
    )


def _find(config: str, models: Sequence[View], word: str) -> View:
    """The one model that a number or the beginning of a SHA-256 stands for."""
    by_number = len(word) <= NUMBER_DIGITS and word.isascii() and word.isdigit()
    found = [
        each
        for each in models
        if (each["number"] == int(word) if by_number else each["sha256"].startswith(word.lower()))
    ]
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(f"{word!r} is the beginning of several models of {config}; write more of it: {_names(found)}")
    there = f"there are: {_names(models)}" if models else "there is none yet; `hostler train list` tells what is next"
    raise NotFound(f"{config} has no model {word!r}; {there}")


def _names(models: Sequence[View]) -> str:
    """The models, newest first, as they can be asked for."""
    newest = list(reversed(models))
    more = [f"and {len(newest) - LISTED} older"] if len(newest) > LISTED else []
    return ", ".join([*map(_name, newest[:LISTED]), *more])


def _name(model: View) -> str:
    return f"{model['number']} ({clean(model['sha256'][:SHOWN_SHA])})"


def _refuse_unplayable(config: View, seat: int) -> None:
    name = config["name"]
    if config["current"] is None:
        raise UsageError(f"{name} has no model to play against yet; next: {config['next']}")
    if not config["game"]["factory"]:
        raise UsageError(f"{name} is a game that only its own commands know; give it a `factory` to play it here")
    if seat > config["players"]:
        raise UsageError(f"{name} has the seats 1 to {config['players']}, and --seat {seat} is none of them")
    if find_spec("torch") is None:
        raise UsageError("playing needs torch, which is not installed; install it with `pip install 'hostler[train]'`")


def _budget(player: str | None) -> str | None:
    """Simulations of a player such as `gumbel-64@...`; `None` where it does not say."""
    engine, dash, simulations = (player or "").partition("@")[0].partition("-")
    return simulations if engine == "gumbel" and dash else None
