"""`hostler sieve`: what came of searches for seeds, and what can be searched for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from hostler.cli.common import JobNames, Json, StateDir, client
from hostler.cli.declarations import Option
from hostler.cli.pages import report_extra, write_page
from hostler.cli.show import clean, say, say_json

if TYPE_CHECKING:
    from hostler.cli.survivors import Outcome


def survivors(names: JobNames, as_json: Json = False, state_dir: StateDir = None) -> None:
    """Show who survived searches, with E-values and the next draws; --json prints one object a line.

    Searches that are named together count together: an E-value is how many wrong seeds of all of them would fit.

    Example:
      hostler sieve survivors j3
      hostler sieve survivors j3 j5 --json | jq .next
    """
    from hostler.cli import survivors as surviving

    found = surviving.outcomes(client(state_dir), names)
    if not as_json:
        say(surviving.told(found))
        return
    for line in surviving.json_lines(found):
        print(line)


def report(
    names: JobNames,
    output: Annotated[Path, Option("--output", "-o", metavar="FILE", help="The page to write.")] = Path(
        "hostler-sieve.html"
    ),
    as_json: Json = False,
    state_dir: StateDir = None,
) -> None:
    """Write an HTML page of searches: survivors against chance, the record, the ledger; it needs no network.

    It needs the extra `report`: pip install 'hostler[report]'.

    Example:
      hostler sieve report j3 -o seeds.html
    """
    controller = client(state_dir)
    from hostler.cli import survivors as surviving

    page = _page(surviving.outcomes(controller, names), controller.status()["at"])
    write_page(output, page)
    if as_json:
        say_json({"file": str(output), "bytes": len(page.encode())})
    else:
        print(f"{clean(output)} written")


def generators(as_json: Json = False) -> None:
    """List the generators that can be searched for, their seeds and their outputs.

    Example:
      hostler sieve generators
    """
    from hostler.workloads.sieve.listing import listing, rows

    say_json(list(rows())) if as_json else print(listing())


def _page(found: list[Outcome], at: float) -> str:
    """The page of these searches."""
    with report_extra():
        from hostler.report.sieve_page import make_sieve_page
    from hostler.cli.reported import reported

    return make_sieve_page([reported(each) for each in found], at)
