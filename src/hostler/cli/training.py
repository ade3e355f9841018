"""Self-improvement loops: where they stand, how they came there."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from hostler.cli.common import ConfigName, Json, StateDir, client
from hostler.cli.completing import complete_config
from hostler.cli.curve import Point, curve
from hostler.cli.declarations import Argument, Option
from hostler.cli.pages import report_extra, write_page
from hostler.cli.show import (
    UNKNOWN,
    Column,
    clean,
    duration,
    maybe,
    quantity,
    say,
    say_json,
    table,
    terminal_width,
    wrapped,
)
from hostler.model.errors import UsageError

if TYPE_CHECKING:
    from hostler.client import Client, View


NONE = "no training configs; a fleet file asks for them under `configs:`"
LEAST_CURVE = 40
SHORT_SHA = 8
CONFIG_COLUMNS = (
    Column("CONFIG", yields=True),
    Column("GEN", right=True),
    Column("ELO", right=True),
    Column("ELO/DAY", right=True),
    Column("GAMES", right=True),
    Column("GAMES/H", right=True),
    Column("DATA", right=True),
    Column("TRIAL / NEXT", yields=True),
)
HISTORY_COLUMNS = (
    Column("#", right=True),
    Column("MODEL"),
    Column("VERDICT"),
    Column("ELO", right=True),
    Column("POLICY", right=True),
    Column("VALUE", right=True),
    Column("WHY", yields=True),
)


def list_configs(as_json: Json = False, state_dir: StateDir = None) -> None:
    """Show the training configs in numbers.

    ELO is the current model's rating with half its 95 % interval, ELO/DAY the slope of that over time. DATA is the age
    of the newest dataset.

    Example:
      hostler train list
    """
    configs = client(state_dir).configs()
    if as_json:
        say_json(configs)
        return
    say(table(CONFIG_COLUMNS, map(_config_row, configs)) if configs else [NONE])
    now = time.time()
    for config in configs:
        say(_remarks(config, now))


def history(config: ConfigName, as_json: Json = False, state_dir: StateDir = None) -> None:
    """Draw the rating of a config's models over time, and list the models.

    A dot is the current model's rating as it was known then, the line through it the 95 % interval, an arrow below the
    picture a promotion. Losses are on games held out, before and after the training.

    Example:
      hostler train history hex8_2p
    """
    told = client(state_dir).history(config)
    if as_json:
        say_json(told)
        return
    say(_heading(told["config"]))
    print()
    say(rating_curve(told) or ["no model has been rated yet"])
    print()
    say(table(HISTORY_COLUMNS, map(_model_row, told["models"])) if told["models"] else ["no models yet"])
    say(_remarks(told["config"], time.time()))


def report(
    configs: Annotated[
        list[str] | None,
        Argument(metavar="CONFIG", help="Training configs; all.", complete=complete_config),
    ] = None,
    output: Annotated[Path, Option("--output", "-o", metavar="FILE", help="The page to write.")] = Path(
        "hostler-report.html"
    ),
    as_json: Json = False,
    state_dir: StateDir = None,
) -> None:
    """Write an HTML page with plots of ratings, losses, games, data and rejections; it needs no network.

    It needs the extra `report`: pip install 'hostler[report]'.

    Example:
      hostler train report
      hostler train report hex8_2p -o hex8.html
    """
    page = _page(client(state_dir), configs)
    write_page(output, page)
    if as_json:
        say_json({"file": str(output), "bytes": len(page.encode())})
    else:
        print(f"{clean(output)} written")


def rating_text(rating: View | None) -> str:
    """`842 ±57`: a rating and half its 95 % interval; an anchor has none."""
    if rating is None:
        return UNKNOWN
    half = (rating["high"] - rating["low"]) / 2
    return f"{rating['elo']:.0f} ±{half:.0f}" if half else f"{rating['elo']:.0f}"


def rating_curve(history: View) -> list[str]:
    """The rating of the current model over time, as wide as the terminal allows; empty if there is none."""
    points = [
        Point(each["at"], *(each["rating"][key] for key in ("elo", "low", "high"))) for each in history["ratings"]
    ]
    anchors = {name: known["elo"] for name, known in history["players"].items() if known and "@" not in name}
    promoted = [each["decided_at"] for each in history["models"] if each["status"] == "promoted" and each["number"]]
    return curve(
        points, {clean(name): elo for name, elo in anchors.items()}, promoted, max(terminal_width(), LEAST_CURVE)
    )


def _config_row(config: View) -> Sequence[object]:
    return (
        config["name"],
        maybe(config["generation"]),
        rating_text(config["rating"]),
        _velocity_text(config["velocity"]),
        quantity(config["games"]),
        _whole(config["games_per_h"]),
        duration(config["data_age_s"]),
        _trial_brief(config["trial"]) or config["next"],
    )


def _velocity_text(velocity: View | None) -> str:
    if velocity is None:
        return UNKNOWN
    return f"{velocity['per_day']:+.0f} ±{(velocity['high'] - velocity['low']) / 2:.0f}"


def _trial_brief(trial: View | None) -> str | None:
    return None if trial is None else f"LLR {_decimals(trial['llr'], 2)}, {trial['groups']} groups"


def _trial_text(trial: View) -> str:
    """Where the sequential test stands: it is decided where the log-likelihood ratio leaves its bounds."""
    candidate, against = (clean(trial[side][:SHORT_SHA]) for side in ("candidate", "against"))
    bounds = f"({_decimals(trial['lower'], 2)}, {_decimals(trial['upper'], 2)})"
    so_far = f"{trial['groups']} groups, score {_decimals(trial['score'], 3)}"
    return f"trial of {candidate} against {against}: {so_far}, LLR {_decimals(trial['llr'], 2)} in {bounds}"


def _decimals(value: float | None, places: int) -> str:
    return UNKNOWN if value is None else f"{value:.{places}f}"


def _whole(value: float | None) -> str:
    return UNKNOWN if value is None else quantity(round(value))


def _remarks(config: View, now: float) -> Iterator[str]:
    """What a table has no room for."""
    title = f"{clean(config['name'])}: "
    if config["trial"] is not None:
        yield from wrapped(title, _trial_text(config["trial"]))
    state = "" if config["state"] == "open" else f"{config['state']}: "
    yield from wrapped(title, clean(f"{state}{config['next']}"))
    for rest in config["resting"]:
        left = duration(max(0.0, rest["until"] - now))
        yield from wrapped(
            title, clean(f"{rest['stage']} rests for {left} after {rest['failures']} failures: {rest['why']}")
        )


def _heading(config: View) -> Iterator[str]:
    rating, current = config["rating"], config["current"]
    name = clean(config["name"])
    if current is None:
        yield from wrapped("", f"{name}: no model yet")
        return
    known = "not rated yet" if rating is None else f"Elo {_interval(rating)} from {rating['games']} games"
    yield from wrapped("", f"{name}: model {config['generation']} ({clean(current[:SHORT_SHA])}), {known}")
    velocity = config["velocity"]
    if velocity is not None:
        yield f"{velocity['per_day']:+.0f} Elo/day, 95 % in [{velocity['low']:+.0f}, {velocity['high']:+.0f}]"


def _interval(rating: View) -> str:
    return f"{rating['elo']:.0f}, 95 % in [{rating['low']:.0f}, {rating['high']:.0f}],"


def _model_row(model: View) -> Sequence[object]:
    current = "*" if model["current"] else ""
    return (
        f"{current}{model['number']}",
        model["sha256"][:SHORT_SHA],
        model["status"],
        rating_text(model["rating"]),
        _losses(model, "policy"),
        _losses(model, "value"),
        model["why"] or "",
    )


def _losses(model: View, which: str) -> str:
    """What the training did to a loss; an untrained model has none."""
    if not model["steps"]:
        return "-"
    return "→".join(UNKNOWN if each is None else f"{each[which]:#.3g}" for each in (model["before"], model["after"]))


def _page(asked: Client, names: Sequence[str] | None) -> str:
    """The page of these configs, or of all."""
    with report_extra():
        from hostler.report import make_page
    before = asked.status()
    chosen = list(dict.fromkeys(names or [config["name"] for config in asked.configs()]))
    if not chosen:
        raise UsageError(NONE)
    histories = [asked.history(name) for name in chosen]
    return make_page(before, asked.status()["seq"], histories)
