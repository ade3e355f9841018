"""Matches that fits ask for; of others a number stays, for a fit must not take ever longer.

Whoever has left the fits keeps the rating it had. A model of long ago that is current again is rated anew.
"""

from __future__ import annotations

from hostler.core.loop.state import Config
from hostler.model.commands import Fit
from hostler.model.learning import Match

FITTED_MODELS = 50
"""So many of the newest models, and of those that were current last, are rated still."""
LOOKED_AT = 200
"""From so many matches on it is looked, at each that comes, which ones can leave."""


def fit(config: Config) -> Fit:
    """Of the models that take part still; others keep the rating they had, or a fit would take ever longer."""
    kept = rated(config) | config.spec.game.anchors.keys()
    return Fit(
        config=config.spec.name,
        anchors=config.spec.game.anchors,
        frozen={name: known.elo for name, known in config.ratings.items() if known is not None and name not in kept},
        matches=tuple(match for match in config.matches if match.a in kept or match.b in kept),
        through=config.played,
    )


def rated(config: Config) -> set[str]:
    """Players whose ratings are fitted still; others keep the rating they had."""
    newest = {config.evaluated_as(name) for name in list(config.models)[-FITTED_MODELS:]}
    return newest | {config.evaluated_as(switch.model) for switch in config.switches[-FITTED_MODELS:]}


def leave_out(config: Config) -> None:
    """Take out of the config what no fit asks for any more: matches of two players whose ratings are fixed."""
    if len(config.matches) < LOOKED_AT:
        return
    models = {_model(player) for player in rated(config)}  # by however many simulations they played
    gone = [match for match in config.matches if models.isdisjoint((_model(match.a), _model(match.b)))]
    if not gone:
        return
    config.matches = [match for match in config.matches if not models.isdisjoint((_model(match.a), _model(match.b)))]
    config.past_matches += len(gone)
    config.past_match_games += sum(map(games, gone))


def games(match: Match) -> int:
    """Games of a match."""
    return sum(map(len, match.groups))


def _model(player: str) -> str:
    return player.rpartition("@")[2]
