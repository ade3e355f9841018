"""From histories to one HTML page that needs nothing but itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib import resources
from typing import Any, NamedTuple

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup
from pydantic import ValidationError

from hostler.model import codec
from hostler.model.errors import AnswerError
from hostler.model.learning import Losses, Rating
from hostler.model.units import printable
from hostler.model.views import ConfigHistory, ConfigView, TrialView, VelocityView
from hostler.report import plots
from hostler.report.drawing import style

UNKNOWN = "?"
LONGEST = 2000
TEMPLATE = "page.html.j2"


class Picture(NamedTuple):
    """A plot with what it shows, what is written below it, and what stands there while there is none."""

    title: str
    caption: str
    svg: Markup | None
    otherwise: str


def make_page(status: Mapping[str, Any], newest: int, histories: Sequence[Mapping[str, Any]]) -> str:
    """A page of these histories (`ConfigHistory` as decoded JSON), in their order.

    `status` (`Status`) is from before they were read and gives the page its time; `newest` is the journal's last entry
    after it. Ages are taken from that time.
    """
    now = float(status["at"])
    try:
        known = [codec.adapter(ConfigHistory).validate_python(each) for each in histories]
    except ValidationError as error:
        raise AnswerError(
            f"a history is not one of this version: {codec.explain(error)}. Client and controller are of versions that "
            "do not fit; `hostler --version` shows them"
        ) from error
    with style():
        configs = [_config(history, now) for history in known]
    template = _environment().from_string(resources.files("hostler.report").joinpath(TEMPLATE).read_text("utf-8"))
    return template.render(status=status, entries=_entries(status["seq"], newest), now=now, configs=configs)


def _environment() -> Environment:
    made = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    made.finalize = _clean
    made.filters.update(rating=rating, utc=utc, losses=losses, clean=_clean)
    return made


def rating(value: Rating | None) -> str:
    """`842 [785, 899]`, an anchor without interval."""
    if value is None:
        return UNKNOWN
    return f"{value.elo:.0f}" + (f" [{value.low:.0f}, {value.high:.0f}]" if value.low != value.high else "")


def losses(before: Losses | None, after: Losses | None, which: str) -> str:
    """What the training did to a loss; `–` where there was no training."""
    if before is None and after is None:
        return "–"
    return " → ".join(UNKNOWN if each is None else f"{getattr(each, which):.3f}" for each in (before, after))


def utc(at: float | None) -> str:
    """A time, to the minute; `–` where it has not been yet."""
    return "–" if at is None else datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M")


def _clean(value: Any) -> Any:
    """Texts belong to whoever wrote them: nothing of them moves, hides or turns around what stands beside it."""
    return printable(value, LONGEST) if isinstance(value, str) and not isinstance(value, Markup) else value


def _entries(before: int, after: int) -> str:
    return f"journal entry {before}" if before == after else f"the journal between its entries {before} and {after}"


def _config(history: ConfigHistory, now: float) -> Mapping[str, Any]:
    anchors = {name: known for name, known in history.players.items() if "@" not in name and known is not None}
    return {
        "view": history.config,
        "facts": list(_facts(history.config)),
        "trial": _trial(history.config.trial),
        "pictures": list(_pictures(history, now)),
        "models": list(reversed(history.models)),
        "anchors": sorted(anchors.items(), key=lambda anchor: anchor[1].elo),
    }


def _facts(view: ConfigView) -> Iterator[tuple[str, str, str]]:
    """Name, value and unit of what stands above the plots."""
    yield "model", UNKNOWN if view.generation is None else str(view.generation), "0 is the untrained one"
    yield "rating", rating(view.rating), "Elo, 95 % interval"
    yield "velocity", _velocity(view.velocity), "Elo/day, 95 % interval"
    yield "games", str(view.games), f"{view.fresh_games} since the last dataset"
    yield "self-play", _number(view.games_per_h), "games/h, over the last hour at most"
    yield "data age", _age(view.data_age_s), "since the newest dataset was made"
    yield "accepted", _share(view.accepted_share), "of the games of the last export"
    yield "duplicates", _share(view.duplicate_share), "of the games of the last export"
    yield "promotions", str(view.promotions), f"{view.rejections} rejections, {view.datasets} datasets"


def _velocity(velocity: VelocityView | None) -> str:
    return UNKNOWN if velocity is None else f"{velocity.per_day:+.0f} [{velocity.low:+.0f}, {velocity.high:+.0f}]"


def _number(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.0f}"


def _share(value: float | None) -> str:
    return UNKNOWN if value is None else f"{100 * value:.1f} %"


def _age(seconds: float | None) -> str:
    if seconds is None:
        return UNKNOWN
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min"


def _trial(trial: TrialView | None) -> str | None:
    if trial is None:
        return None
    score, llr = (UNKNOWN if each is None else f"{each:.3f}" for each in (trial.score, trial.llr))
    return (
        f"{trial.candidate[:12]} against {trial.against[:12]}: {trial.groups} groups of games, mean score {score}; "
        f"log-likelihood ratio {llr}, decided below {trial.lower:.3f} or above {trial.upper:.3f}"
    )


def _pictures(history: ConfigHistory, now: float) -> Iterator[Picture]:
    drawn: tuple[tuple[str, str, Callable[[], str | None], str], ...] = (
        (
            "Rating",
            "The current model's strength as it was known at each time (UTC), with its 95 % interval; anchors are "
            "dashed. The numbers are those of promoted models. Crosses are rejected models, as rated last.",
            lambda: plots.rating_plot(history, now),
            "No model has been rated yet.",
        ),
        (
            "Losses",
            "Cross-entropies over the optimiser steps: lines are training batches, dots games held out.",
            lambda: plots.losses_plot(history),
            "No losses have been reported yet.",
        ),
        (
            "Self-play",
            "Games whose segments came in within each hour (UTC).",
            lambda: plots.games_plot(history, now),
            "No games have come in yet.",
        ),
        (
            "Age of the data",
            "Hours since the newest dataset was made (UTC); each stroke on the axis is a dataset.",
            lambda: plots.age_plot(history, now),
            "There is no dataset yet.",
        ),
        (
            "Refused games",
            f"What the quality gate refused of each dataset's window, and why{_newest(len(history.datasets))}.",
            lambda: plots.rejections_plot(history),
            "No games have been judged for a dataset yet.",
        ),
    )
    for title, caption, draw, otherwise in drawn:
        svg = draw()
        # The element is matplotlib's, which escapes what it writes.
        yield Picture(title, caption, None if svg is None else Markup(svg), otherwise)  # noqa: S704


def _newest(datasets: int) -> str:
    return f"; the newest {plots.MOST_DATASETS} of {datasets}" if datasets > plots.MOST_DATASETS else ""
