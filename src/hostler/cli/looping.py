"""What is asked of self-improvement loops: a pause, its end, one more job."""

from __future__ import annotations

import re
from typing import Annotated

from hostler.cli.common import ConfigName, Json, StateDir, client, user
from hostler.cli.constraints import Node
from hostler.cli.declarations import Option
from hostler.cli.show import clean, clock, say_json
from hostler.model.errors import UsageError

SPAN = re.compile(r"(\d+(?:\.\d+)?)([smhd])")
UNIT_S = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
STAGES = ("selfplay", "training", "evaluation", "export")


def pause(
    config: ConfigName,
    why: Annotated[str, Option(help="Why; whoever finds it paused is told.")],
    span: Annotated[str, Option("--for", metavar="TIME", help="For how long: 90m, 12h, 3d; 30 days at most.")] = "24h",
    as_json: Json = False,
    state_dir: StateDir = None,
) -> None:
    """Order nothing new for a training config for a while. What runs goes on and counts; what waits is called off.

    It ends by itself, or with `resume`; `hostler hold list` lists it until then.

    Example:
      hostler train pause hex8_2p --why "games repeat themselves" --for 2h
    """
    view = client(state_dir).pause_config(config, why, user(), span_s(span))
    if as_json:
        say_json(view)
        return
    paused = view["paused"]
    left = sum(view["stages"].values())
    runs = f"; {left} of its jobs go on" if left else ""
    until = "" if paused is None else f" until {clock(paused['until'], paused['since'])}"
    print(f"{clean(config)}: paused{until}{runs}")


def resume(config: ConfigName, as_json: Json = False, state_dir: StateDir = None) -> None:
    """Order for a training config again.

    Example:
      hostler train resume hex8_2p
    """
    view = client(state_dir).resume_config(config, user())
    if as_json:
        say_json(view)
    else:
        print(f"{clean(config)}: goes on; next: {clean(view['next'])}")


def spawn(
    config: ConfigName,
    stage: Annotated[str, Option(help=f"Which stage: {', '.join(STAGES)}.")] = "selfplay",
    games: Annotated[int | None, Option(min=1, help="Games of self-play; by default as its settings say.")] = None,
    node: Node = None,
    why: Annotated[str | None, Option(help="Why; it is kept in the journal.")] = None,
    key: Annotated[str | None, Option(help="Once more with the same key is the same job.")] = None,
    as_json: Json = False,
    state_dir: StateDir = None,
) -> None:
    """Order one more job of a training config now, beyond what its loop orders by itself.

    It waits in the queue like the loop's own; there may be 16 such jobs of one config.

    Example:
      hostler train spawn hex8_2p --games 200
      hostler train spawn hex8_2p --node rig-1
    """
    if stage not in STAGES:
        raise UsageError(f"--stage {stage!r} is none of {', '.join(STAGES)}")
    job = client(state_dir).spawn(config, stage=stage, games=games, nodes=node, why=why, who=user(), key=key)
    if as_json:
        say_json(job)
    else:
        print(clean(job["id"]))


def span_s(text: str) -> float:
    """Seconds of a time such as `90m`. Raises `UsageError`."""
    found = SPAN.fullmatch(text.strip())
    if found is None:
        raise UsageError(f"{text!r} is no length of time; write a number and s, m, h or d: 90m, 12h, 3d")
    return float(found[1]) * UNIT_S[found[2]]
