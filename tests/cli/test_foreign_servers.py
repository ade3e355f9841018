"""Servers that are no controllers: every command ends with one message, and never with a traceback."""

from __future__ import annotations

import copy
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hostler.cli.commands import COMMANDS as TABLE, Command
from tests.cli.conftest import Hostler
from tests.cli.foreign import COMMANDS, answer, foreign

DOCUMENTS: list[Any] = [
    [], {}, None, 3, "text", [None], [[]], [{}], {"id": 7}, [{"id": "j1", "state": ["done"]}], {"detail": "Not Found"},
    [{"job": None}], {"jobs": "many", "seq": "9"}, {"job": {"id": "j1", "state": None, "attempts": "1"}},
]  # fmt: skip
OFFLINE = {"init", "check", "doctor", "plan", "sim", "up", "backup", "config", "slurm", "kuberay", "journal"}
"""Commands and groups that ask no controller."""


def test_every_command_that_asks_a_controller_is_tried() -> None:
    tried = {tuple(each.split()[:2]) for each in COMMANDS}
    alone = {words[0] for words in tried}
    for name, each in TABLE.items():
        if name in OFFLINE:
            continue
        if isinstance(each, Command):
            assert name in alone, name
            continue
        known = {function for other in TABLE.values() if isinstance(other, Command) for function in [other.function]}
        rest = {"import", "invite", "agent", "connect", "trust", "play", "export", "report", "generators"}
        for word, function in each.commands.items():
            assert function in known or word in rest or (name, word) in tried, (name, word)


@pytest.mark.parametrize("document", DOCUMENTS, ids=repr)
def test_documents_of_another_form_are_one_message(
    document: Any, hostler: Hostler, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOSTLER_TOKEN", "t")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("hostler.client.plain.RECONNECT_S", (0.0,))
    (tmp_path / "train.py").write_text("1\n")
    with foreign(lambda method, path: document) as url:
        monkeypatch.setenv("HOSTLER_URL", url)
        for command in COMMANDS:
            said = hostler(*command.split())
            errors = [line for line in said.err.splitlines() if line.startswith("hostler: error: ")]
            if document == [] and said.status in (0, 2):
                continue  # an empty list is the answer of a controller that has none, or none of that name
            assert (said.status, len(errors)) == (1, 1), (command, said)
            assert url in errors[0], (command, errors)
            assert "Check the address" in errors[0], (command, errors)


EXTREMES: dict[type, list[Any]] = {
    str: ["", "\x1b[2J\n\udc80", "x" * 3000, "j", "../..", "9" * 30, "é\u202e", "{0}%s"],
    int: [-1, 0, 10**30, -(10**30)],
    float: [-1.0, 0.0, 1e300, -1e300, 5e-324, 2.0**60],
    bool: [True, False],
    list: [[]],
    dict: [{}],
    type(None): [None],
}
"""Values that have the right form, and that no controller answers with."""
OTHERS: list[Any] = [None, [], {}, 3, "x", 1.5, True, [[1]], {"a": {"b": []}}]
ROUNDS = 2


def changed(value: Any, chance: random.Random) -> Any:
    """A document, in which a few values have become others, or have gone."""
    for _ in range(chance.choice([0, 1, 1, 2, 4])):
        path, old = chance.choice(list(parts_of({"": value})))
        place: Any = {"": value}
        for step in path[:-1]:
            place = place[step]
        if chance.random() < 0.15 and len(path) > 1 and isinstance(place, dict):
            del place[path[-1]]
        else:
            place[path[-1]] = copy.deepcopy(chance.choice(OTHERS if chance.random() < 0.2 else EXTREMES[type(old)]))
            value = place[""] if len(path) == 1 else value
    return value


def parts_of(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """The parts of a document and their places."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, item in items:
        yield (*path, step), item
        yield from parts_of(item, (*path, step))


def test_documents_with_a_few_wrong_or_extreme_values_end_no_command_with_a_traceback(
    hostler: Hostler, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """`run` raises what it does not know, which is the failure of this test; `-f` and `--wait` may wait for ever."""
    monkeypatch.setenv("HOSTLER_TOKEN", "t")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("hostler.client.plain.RECONNECT_S", (0.0,))
    monkeypatch.setattr("hostler.client.snapshots.RECONNECT_S", (0.0,))
    monkeypatch.setattr("hostler.client.downloads.RECONNECT_S", (0.0,))
    monkeypatch.setattr("hostler.cli.alerts.TOLD_WITHIN_S", 0.0)
    chance = random.Random(7)
    waiting = re.compile(r"wait|-f|--follow|--watch")
    with foreign(lambda method, path: changed(answer(method, path), chance)) as url:
        monkeypatch.setenv("HOSTLER_URL", url)
        for command in ROUNDS * [each for each in COMMANDS if not waiting.search(each)]:
            said = hostler(*command.split())
            assert said.status in (0, 1, 2), (command, said)
            assert "Traceback" not in said.err, (command, said)


REFUSALS = {
    "NotFound": (404, 2),
    "Conflict": (409, 2),
    "UsageError": (422, 2),
    "SpecError": (422, 2),
    "Unauthorized": (401, 1),
    "Forbidden": (403, 1),
    "NotOwner": (403, 1),
    "InternalError": (500, 1),
    "CorruptState": (500, 1),
    "StoreLost": (503, 1),
    "StandsBy": (503, 1),
}
"""Errors of a controller by their names: the status of the answer, and the exit status of the command."""


@pytest.mark.parametrize("error", REFUSALS)
def test_every_command_ends_with_the_exit_status_of_the_error(
    error: str, hostler: Hostler, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOSTLER_TOKEN", "t")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("1\n")
    answered, expected = REFUSALS[error]
    with foreign(lambda method, path: {"error": error, "message": "no, because"}, answered) as url:
        monkeypatch.setenv("HOSTLER_URL", url)
        for command in COMMANDS:
            said = hostler(*command.split())
            errors = [line for line in said.err.splitlines() if line.startswith("hostler: error: ")]
            assert (said.status, len(errors)) == (expected, 1), (command, said)


def test_every_command_ends_with_3_where_no_controller_answers(
    hostler: Hostler, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOSTLER_STATE_DIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("1\n")
    for command in COMMANDS:
        said = hostler(*command.split())
        assert (said.status, said.out, said.err.count("hostler: error: no controller is running")) == (3, "", 1), (
            command
        )
