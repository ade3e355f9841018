"""Structured fuzzing, a share of it: what once broke, and some changed documents, to a real controller."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from hostler.model.errors import SettingsError
from hostler.settings.jobsfile import load_jobs
from hostler.settings.loading import load, specs
from tests import postgres

from .extremes import JSON, NO_JSON, RAW, VALUES
from .structured import bodies, files
from .structured.campaign import BY_NAME, KEPT, READERS, Reader, kept, play
from .structured.changes import SHAPES, Case, changed, document, drawn, singles
from .structured.town import Town, new_directory, town

SHARE = {"messages": 40, "bodies": 100, "jobs": 40, "fleets": 20}
"""Inputs of each reader in `make test`."""
ABSENT = frozenset({
    "roll back", "pause", "resume config", "spawn", "verify", "acknowledge", "clean", "undo", "retry group", "probe",
})  # fmt: skip
"""Requests about what this world has not: a config, an alert, a group that failed, files to be deleted."""
named = pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)


def test_extreme_values_are_of_many_kinds() -> None:
    assert len(JSON) >= 80
    assert len({*map(repr, VALUES)}) + len(RAW) + len(NO_JSON) + len(SHAPES) > 90


def test_change_of_a_document_puts_the_text_where_it_belongs() -> None:
    made = document("a", {"x": [1, {"y": 2}]})
    assert made.places == ((), ("x",), ("x", 0), ("x", 1), ("x", 1, "y"))
    cases = {
        changed(made, ("x", 1, "y"), way, "NaN").text for way in ("value", "gone", "unknown beside", "twice", "renamed")
    }
    assert cases == {
        '{"x": [1, {"y": NaN}]}', '{"x": [1, {}]}', '{"x": [1, {"y": 2, "y_": NaN}]}', '{"x": [1, {"y": 2, "y": NaN}]}',
        '{"x": [1, {"y?": 2}]}',
    }  # fmt: skip
    assert changed(made, ("x", 0), "value", "1e999", (("x", 1), '"\\ud800"')).text == '{"x": [1e999, "\\ud800"]}'


@named
def test_cases_of_a_reader_are_many_and_drawn_alike_by_one_seed(reader: Reader) -> None:
    documents = reader.documents()
    assert sum(singles(made, reader.texts) for made in documents) > 5_000
    cases = drawn(documents, 200, random.Random(1), reader.texts)
    assert cases == drawn(documents, 200, random.Random(1), reader.texts)
    assert {case.document for case in cases} == {made.name for made in documents}


def test_each_change_of_a_document_is_drawn_once_before_changes_at_two_places() -> None:
    made = document("a", {"x": [1, {"y": 2}]})
    cases = drawn([made], singles(made) + 50, random.Random(2))
    assert len({case.what for case in cases[: singles(made)]}) >= singles(made) - 2 * len(SHAPES)
    assert sum(";" in case.what for case in cases[singles(made) :]) > 30


@pytest.mark.parametrize("name", files.JOBS)
def test_jobs_file_that_is_changed_is_good_as_it_is(tmp_path: Path, name: str) -> None:
    (tmp_path / "jobs.yaml").write_text(json.dumps(files.JOBS[name]))
    assert load_jobs(tmp_path / "jobs.yaml")


def test_fleet_files_that_are_changed_are_good_as_they_are(tmp_path: Path) -> None:
    for made in files.fleet_documents():
        (tmp_path / "fleet.yaml").write_text(json.dumps(made.value))
        try:
            specs(load(tmp_path / "fleet.yaml", {}))
        except SettingsError as error:  # of what lies beside an example
            assert "cannot be read" in str(error) or "No such file" in str(error), f"{made.name}: {error}"


async def _good_bodies(tmp_path: Path) -> dict[str, str]:
    refused = dict[str, str]()
    async with town(new_directory(tmp_path / "state")) as made:
        await made.busy()
        for name, (_, body) in bodies.GOOD.items():
            refused[name] = await _refusal(made, name, body)
    return {name: why for name, why in refused.items() if why}


async def _refusal(made: Town, name: str, body: object) -> str:
    path = bodies.PREFIX + bodies.GOOD[name][0]
    path = path.format(**await bodies.there(made)) if "{" in path else path
    status, answer = await made.ask("POST", path, json.dumps(body).encode())
    told = bodies.expect_answer(status, answer)
    return "" if status < 300 else str(told["message"])


def test_bodies_that_are_changed_are_good_as_they_are(tmp_path: Path) -> None:
    """What is refused is refused for what there is not in this world, and not for the body."""
    refused = asyncio.run(_good_bodies(tmp_path))
    assert set(refused) <= ABSENT
    assert not [why for why in refused.values() if "was refused" in why], refused


def _expect_nothing_broke(cases: Sequence[tuple[Reader, Case]], folder: Path, address: str | None = None) -> None:
    broke = asyncio.run(play(cases, folder, address))
    assert not broke, "\n".join(f"{case.what}: {why}" for case, why in broke)


def _cases(seed: int, times: int) -> list[tuple[Reader, Case]]:
    """What broke each reader once, and so many times its share of changed documents."""
    cases = list[tuple[Reader, Case]]()
    for reader in READERS:
        fresh = drawn(reader.documents(), times * SHARE[reader.name], random.Random(seed), reader.texts)
        cases += [(reader, case) for case in (*kept(reader), *fresh)]
    return cases


def test_changed_documents_are_refused_with_a_reason_or_can_be_read_again(tmp_path: Path) -> None:
    _expect_nothing_broke(_cases(29, 1), tmp_path)


@pytest.mark.services
def test_changed_documents_are_taken_alike_by_postgresql(tmp_path: Path) -> None:
    with postgres.running() as server:
        _expect_nothing_broke(_cases(30, 5), tmp_path, server.database())


def test_nothing_is_kept_for_another_reader() -> None:
    assert {path.name for path in KEPT.iterdir()} <= BY_NAME.keys()
