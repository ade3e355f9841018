"""The page of a virtual run: complete, self-contained, and safe whatever names it shows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hostler.model.simulated import Measures
from tests.sim.test_measures import Journal, gpu, job

pytest.importorskip("matplotlib")

from hostler.report import make_fleet_page
from hostler.report.fleet_page import _facts
from hostler.report.fleet_plots import config_colours, gantt_by_kind


def measured(config: str = "hex8_2p") -> Measures:
    journal = Journal(gpu("n", 2), gpu("m"))
    journal.submit(0.0, "j1", job(config=config))
    journal.run("j1", 100.0, 600.0)
    journal.submit(0.0, "j2", job(config=None))
    journal.run("j2", 0.0, 900.0, device="n/cuda1")
    return journal.measured()


def test_a_page_has_everything_and_needs_nothing() -> None:
    page = make_fleet_page([("as it is", measured())], [], "1.2.3")
    assert page.count("<svg") == 3
    assert "There are no quotas." in page
    assert "n/cuda1" in page
    assert "1.2.3" in page
    assert "://" not in page.replace("http://www.w3.org", "").replace("http://purl.org", "").replace(
        "http://creativecommons.org", ""
    )
    assert "<script" not in page


def test_two_runs_stand_side_by_side() -> None:
    rows = [("", "A", "B", "D"), ("cost", "1", "2", "+1")]
    page = make_fleet_page([("before", measured()), ("after", measured())], rows, "1")
    assert page.count("<svg") == 6
    assert ">+1<" in page


def test_names_are_only_text() -> None:
    page = make_fleet_page([("as it is", measured("<script>$x_1$\x1b"))], [], "1")
    assert "<script" not in page
    assert "\x1b" not in page


def test_a_run_in_which_nothing_ran_has_no_picture() -> None:
    nothing = replace(measured(), spans=())
    assert gantt_by_kind(nothing) is None
    assert "Nothing ran." in make_fleet_page([("as it is", nothing)], [], "1")


def test_a_config_keeps_its_colour() -> None:
    assert config_colours(measured()) == config_colours(measured())


def test_unknown_prices_and_the_formula_of_the_quota_error_are_told() -> None:
    found = measured()
    unpriced = replace(found, nodes=tuple(replace(node, price_per_h=None) for node in found.nodes))
    facts = {name: (value, unit) for name, value, unit in _facts(unpriced)}
    assert facts["cost"] == ("?", "0 of 2 nodes priced")
    assert facts["cost per unit"][0] == "?"
    assert "half the sum of |had - meant|" in facts["quota error"][1]
    assert {name: unit for name, _, unit in _facts(found)}["cost"] == "2 of 2 nodes priced"


def test_a_unit_is_of_the_nodes_whose_price_is_known() -> None:
    found = measured()
    one, *others = found.nodes
    partly = replace(found, nodes=(one, *(replace(node, price_per_h=None) for node in others)))
    units = {name: unit for name, _, unit in _facts(partly)}
    assert units["cost"] == "1 of 2 nodes priced"
    assert units["cost per unit"] == "per 100 power hours of useful work on the 1 of 2 nodes priced"
    assert {name: unit for name, _, unit in _facts(found)}["cost per unit"] == "per 100 power hours of useful work"
