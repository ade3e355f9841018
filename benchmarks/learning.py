"""How well and how fast a loop learns: a real `hostler up` with one training config, from random weights.

    python benchmarks/learning.py [--quick] [--minutes N] [--config FILE] [--keep DIR] [--json FILE]

It runs learning.yaml (hex8_2p) for 45 minutes; --quick a small board (learning-quick.yaml) for three. Ratings are
those of the loop itself: in Elo against anchors of measured strength, `random` at 0, with 95 % intervals, as they were
known at the time; in the table of models as they are known at the end. CPU-seconds are those of jobs, from the start
to the end of their processes; what the controller and its agent take is told apart.

At the end `hostler down` lets what runs run out, and the evaluation stage plays the current model against the one that
the loop began with, `greedy` and `mc-200`: groups of two games from one opening, each player once in each seat. p is
the probability that a player who is no better wins so many of the decided groups (sign test, one-sided).

--json FILE also draws the ratings into FILE with the suffix .svg. --keep leaves the state directory in DIR, for
`hostler train report --state-dir DIR/state` and the like after another `hostler up`.
"""

import argparse
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from common import Bar, Row, command_line, report
from learning_final import Final, play, untrained_player
from learning_run import Told, learn
from learning_story import Story, tell

HERE = Path(__file__).resolve().parent
MINUTES, QUICK_MINUTES = 45.0, 3.0
GROUPS, QUICK_GROUPS = 100, 40
ROWS = 9
P_BAR = 0.01
STRONG = ("greedy", "mc-200")
UNTRAINED = "model 0"
STAGES = ("selfplay", "export", "training", "evaluation")


def main() -> int:
    """Run the command line described above."""
    options = _arguments()
    with _folder(options.keep) as folder:
        told = learn(options.config, folder, options.minutes)
        first = untrained_player(told.history)
        opponents = [*([first] if first else []), *(name for name in STRONG if name in told.history["players"])]
        finals = play(told.history, opponents, options.groups, folder / "state" / "artifacts", folder / "final")
    story = tell(told.entries)
    if options.json is not None:
        draw(told, story, options.json.with_suffix(".svg"))
    report("learning", list(rows(told, story, finals)), bars(told.history, finals, options.quick), options.json)
    return 0


def rows(told: Told, story: Story, finals: Sequence[Final]) -> Iterator[Row]:
    """All tables, one after the other."""
    yield sum_row(told, story)
    yield from time_rows(told, story)
    yield from model_rows(told, story)
    yield from stage_rows(told, story)
    yield from (final_row(told.history, final) for final in finals)


def sum_row(told: Told, story: Story) -> Row:
    """The run as a whole."""
    config, hours = told.history["config"], (told.at - story.began) / 3600
    return {
        "config": config["name"],
        "minutes": 60 * hours,
        "games": int(story.games.total),
        "games/h": story.games.total / hours,
        "positions": int(story.positions.total),
        "datasets": config["datasets"],
        "models": config["models"],
        "promotions": config["promotions"],
        "rejections": config["rejections"],
        "CPU-s": told.cpu_s,
    }


def time_rows(told: Told, story: Story) -> Iterator[Row]:
    """The current model and its rating as it was known at equal steps of time."""
    numbers = {model["sha256"]: model["number"] for model in told.history["models"]}
    for step in range(1, ROWS + 1):
        at = story.began + (told.at - story.began) * step / ROWS
        point = next((each for each in reversed(told.history["ratings"]) if each["at"] <= at), None)
        rating = {} if point is None else point["rating"]
        yield {
            "minute": (at - story.began) / 60,
            "CPU-s of jobs": story.cpu_s.until(at),
            "games": int(story.games.until(at)),
            "model": None if point is None else numbers[model_of(point["player"])],
            "Elo": rating.get("elo"),
            "low": rating.get("low"),
            "high": rating.get("high"),
        }


def model_rows(told: Told, story: Story) -> Iterator[Row]:
    """The models that became current, with what is known of them at the end."""
    for model in told.history["models"]:
        if model["status"] != "promoted":
            continue
        at = model["decided_at"] or model["made_at"]
        rating, after = model["rating"] or {}, model["after"] or {}
        yield {
            "promoted model": model["number"],
            "at minute": (at - story.began) / 60,
            "CPU-s of jobs": story.cpu_s.until(at),
            "games": int(story.games.until(at)),
            "steps": model["steps"],
            "policy loss": after.get("policy"),
            "value loss": after.get("value"),
            "Elo at the end": rating.get("elo"),
            "low": rating.get("low"),
            "high": rating.get("high"),
        }


def stage_rows(told: Told, story: Story) -> Iterator[Row]:
    """What each stage cost, and what is left for the controller, its agent, and jobs that had not ended."""
    for stage in STAGES:
        cost = story.stages.get(stage)
        if cost is not None:
            known = None if cost.unknown else cost.cpu_s
            yield _cost_row(stage, cost.ended, cost.failed, known, told.cpu_s)
    yield _cost_row("controller, agent, jobs not ended", None, None, told.cpu_s - story.cpu_s.total, told.cpu_s)


def final_row(history: Mapping[str, Any], final: Final) -> Row:
    """One match of the end."""
    return {
        "at the end": f"model {history['config']['generation']}",
        "against": UNTRAINED if "@" in final.b else final.b,
        "groups won": final.won,
        "even": final.even,
        "lost": final.lost,
        "score %": 100 * final.score,
        "p": final.p,
    }


def bars(history: Mapping[str, Any], finals: Sequence[Final], quick: bool) -> list[Bar]:
    """Better than the untrained model, which nothing is where nothing was promoted, and better than `greedy`."""
    found = {UNTRAINED if "@" in final.b else final.b: final.p for final in finals}
    values = {UNTRAINED: found.get(UNTRAINED, 1.0), "greedy": found.get("greedy")}
    notes = {} if UNTRAINED in found else {UNTRAINED: "nothing was promoted"}
    return [_bar(history["config"]["name"], other, values[other], notes.get(other, ""), quick) for other in values]


def draw(told: Told, story: Story, path: Path) -> None:
    """The ratings as a picture; none where there is no rating."""
    from learning_plot import Point, Promotion, draw

    def place(at: float) -> tuple[float, float]:
        return (at - story.began) / 60, story.cpu_s.until(at)

    known = told.history["ratings"]
    if not known:
        return
    held = [*((each["at"], each["rating"]) for each in known), (told.at, known[-1]["rating"])]
    points = [Point(*place(at), rating["elo"], rating["low"], rating["high"]) for at, rating in held]
    promoted = [model for model in told.history["models"] if model["status"] == "promoted" and model["number"]]
    promotions = [Promotion(*place(model["decided_at"]), model["number"]) for model in promoted]
    anchors = {name: rating["elo"] for name, rating in told.history["players"].items() if "@" not in name and rating}
    draw(points, promotions, anchors, path)


def model_of(player: str) -> str:
    """The SHA-256 of the model a player plays with."""
    return player.partition("@")[2]


def _bar(config: str, other: str, p: float | None, note: str, quick: bool) -> Bar:
    name = f"{config}: p of the last promoted model against {other}"
    if quick and p is not None:
        return Bar(name, None, P_BAR, "<", f"so short a run sets no bar; here {p:.3g}")
    return Bar(name, p, P_BAR, "<", note)


def _cost_row(what: str, ended: int | None, failed: int | None, cpu_s: float | None, of: float) -> Row:
    share = None if cpu_s is None else 100 * cpu_s / of
    return {"stage": what, "attempts": ended, "failed": failed, "CPU-s": cpu_s, "share %": share}


@contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="hostler-learning-") as made:
            yield Path(made)
        return
    keep.mkdir(parents=True)
    yield keep.resolve()


def _arguments() -> argparse.Namespace:
    parser = command_line(__doc__)
    parser.add_argument("--minutes", type=float, help=f"how long to learn; {MINUTES:g}, with --quick {QUICK_MINUTES:g}")
    parser.add_argument("--config", type=Path, metavar="FILE", help="another fleet file, with one training config")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="leave everything in this folder, which must be new")
    options = parser.parse_args()
    options.minutes = options.minutes or (QUICK_MINUTES if options.quick else MINUTES)
    options.config = options.config or HERE / ("learning-quick.yaml" if options.quick else "learning.yaml")
    options.groups = QUICK_GROUPS if options.quick else GROUPS
    return options


if __name__ == "__main__":
    sys.exit(main())
