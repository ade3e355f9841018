"""From searches for seeds to one HTML page that needs nothing but itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import resources
from typing import Any, NamedTuple

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from hostler.model.units import printable
from hostler.report import sieve_plots
from hostler.report.drawing import style
from hostler.report.page import LONGEST, Picture, utc
from hostler.report.searches import SearchTold
from hostler.report.sieve_plots import SETTLED

TEMPLATE = "sieve.html.j2"
MOST_SURVIVORS = 100
LEDGER, SURVIVORS = "Ledger", "Survivors"


class Verdict(NamedTuple):
    """What the search says, in one sentence; `look` is `good`, `bad` or nothing."""

    text: str
    look: str = ""


def make_sieve_page(searches: Sequence[SearchTold], at: float) -> str:
    """A page of these searches, in their order; `at` in Unix seconds is when they stood like this."""
    with style():
        parts = [_part(search) for search in searches]
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.finalize = _clean
    environment.filters.update(utc=utc)
    template = environment.from_string(resources.files("hostler.report").joinpath(TEMPLATE).read_text("utf-8"))
    return template.render(searches=parts, at=at, most=MOST_SURVIVORS, wide=(LEDGER, SURVIVORS))


def verdict(search: SearchTold) -> Verdict:
    """Found, excluded, or not settled, and why."""
    best = min((each.e_value for each in search.survivors), default=None)
    if best is not None and best < SETTLED:
        clear = sum(each.e_value < SETTLED for each in search.survivors)
        return Verdict(f"Found: {clear} survived that chance does not explain (E-value {best:.2g}).", "good")
    if best is not None:
        return Verdict(f"Not settled: what survived may be chance (least E-value {best:.2g}).", "bad")
    if search.done_share < 1.0:
        return Verdict(f"Nothing so far: {100 * search.done_share:.1f} % of the range is searched.")
    return Verdict("Excluded: no item of the range makes these draws, as the question was asked.")


def _part(search: SearchTold) -> Mapping[str, Any]:
    return {
        "told": search,
        "verdict": verdict(search),
        "facts": list(_facts(search)),
        "pictures": list(_pictures(search)),
    }


def _facts(search: SearchTold) -> Iterator[tuple[str, str, str]]:
    """Name, value and unit of what stands above the pictures."""
    yield "searched", f"{100 * search.done_share:.1f} %", f"of {search.stop - search.start} items"
    yield "known draws", str(search.known), f"of {len(search.draws) or search.known}"
    yield "survivors", str(len(search.survivors)), "each replayed by the plain generator"
    yield "by chance", f"{search.expected_so_far:.2g}", "wrong survivors expected in what is searched"
    if search.control is None:
        yield "control", "none", "the same draws shuffled were not searched"
    else:
        yield "control", str(search.control[0]), f"survived of the same draws shuffled, {100 * search.control[1]:.1f} %"


def _pictures(search: SearchTold) -> Iterator[Picture]:
    drawn: tuple[tuple[str, str, Callable[[SearchTold], str | None], str], ...] = (
        (
            SURVIVORS,
            "Each survivor at its place in the range. Below the dashed line it is evidence; in the grey, chance.",
            sieve_plots.survivors_plot,
            "Nobody survived.",
        ),
        (LEDGER, "Green is searched, each item once.", sieve_plots.ledger_plot, ""),
        (
            "Against chance",
            "How many wrong survivors are to be expected in what is searched, and how many survived.",
            sieve_plots.chance_plot,
            "Nothing is searched yet.",
        ),
        (
            "What draws are worth",
            "How many wrong items survive in the whole range, by the number of known draws.",
            sieve_plots.evidence_plot,
            "Not worked out for several calls in turn, or for missing outputs.",
        ),
        ("The record", "Draws in their order.", sieve_plots.record_plot, "The draws are no plain numbers."),
        (
            "Values",
            "How often they came. Tests of randomness: the program sieve-correlation.",
            sieve_plots.frequencies_plot,
            "There are too few draws to count, or they are no plain numbers.",
        ),
    )
    for title, caption, draw, otherwise in drawn:
        svg = draw(search)
        # The element is matplotlib's, which escapes what it writes.
        yield Picture(title, caption, None if svg is None else Markup(svg), otherwise)  # noqa: S704


def _clean(value: Any) -> Any:
    return printable(value, LONGEST) if isinstance(value, str) and not isinstance(value, Markup) else value
