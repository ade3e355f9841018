"""A plan of very many files: pages and sums are there, and nobody who is waited for goes through all of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hostler.model.artifacts import HUB
from hostler.model.disks import DoomedFile
from hostler.model.errors import UsageError
from hostler.policy.retention import Deletion, FileKind, Found, Obstacle, Plan, RetentionRules, Row, Rule, plan
from hostler.runtime.disks.planned import Graves, Planned, row_name
from hostler.runtime.disks.tombs import Buried, Tomb
from tests.runtime.disks.yard import DAY_S, Yard


def deletion(number: int) -> Deletion:
    found = Found(path=f"logs/j{number}.1/out", kind=FileKind.LOG, bytes=number, used_at=0.0, place=HUB)
    return Deletion(found=found, rule=Rule.LOG, proof=())


def planned(count: int = 10) -> Planned:
    kinds = [FileKind.CACHE] * 4 + [FileKind.LOG] * (count - 4)
    files = [replace(deletion(number).found, kind=kind) for number, kind in enumerate(kinds)]
    made = plan(files, {}, RetentionRules(), 99 * DAY_S)
    kept = {Obstacle.YOUNG: (2, 10), Obstacle.IN_USE: (1, 30)}
    return Planned(5.0, replace(made, kept=kept), {each.path: (1, 2, 3, 4) for each in files})


def numbers(some: list[Deletion]) -> list[int]:
    return [each.found.bytes for each in some]


def tomb(name: str, until: float, *paths: str) -> Tomb:
    files = tuple(
        Buried(
            name=f"{number}",
            file=DoomedFile(path=path, bytes=1, rule="log", why="old", used_at=0.0),
            identity=(1, 2, 3, 4),
        )
        for number, path in enumerate(paths)
    )
    return Tomb(id=name, who="ann", made_at=until - 10.0, until=until, files=files)


@pytest.fixture
def yard(tmp_path: Path) -> Iterator[Yard]:
    made = Yard(tmp_path)
    yield made
    made.journal.close()


class TestPlanned:
    def test_pages_go_on_behind_the_last_that_is_known(self) -> None:
        made = planned()
        assert numbers(made.page(3, [])) == [0, 1, 2]
        assert numbers(made.page(3, ["logs/j1.1/out", "logs/j2.1/out"])) == [3, 4, 5]
        assert numbers(made.page(3, ["logs/j1.1/out", "nobody's"])) == [2, 3, 4]
        assert numbers(made.page(3, ["logs/j8.1/out"])) == [9]
        assert made.page(3, ["logs/j9.1/out"]) == []
        with pytest.raises(UsageError, match="leads nowhere"):
            made.page(3, ["nobody's"])

    def test_what_was_looked_at_is_planned_no_more_but_still_leads_on(self) -> None:
        made = planned()
        made.look_at([deletion(5), deletion(0)])
        made.look_at([deletion(1)])
        assert (len(made), numbers(list(made.left()))) == (7, [2, 3, 4, 6, 7, 8, 9])
        assert numbers(made.page(3, ["logs/j5.1/out"])) == [6, 7, 8]
        assert numbers(made.named(["logs/j5.1/out", "logs/j7.1/out", "logs/j2.1/out", "nobody's"])) == [2, 7]

    def test_it_can_be_gone_through_while_it_is_looked_at(self) -> None:
        made = planned()
        seen = []
        for each in made.left():
            seen.append(each.found.bytes)
            made.look_at([each])
        assert (seen, len(made), list(made.left())) == (list(range(10)), 0, [])

    def test_the_sums_are_those_of_when_it_was_made(self) -> None:
        made = planned()
        assert [(each.rule, each.files, each.bytes) for each in made.may_go] == [("cache", 4, 6), ("log", 6, 39)]
        assert [(each.why, each.files) for each in made.stays] == [(str(Obstacle.IN_USE), 1), (str(Obstacle.YOUNG), 2)]

    def test_what_is_forgotten_has_no_files(self) -> None:
        made = planned()
        made.forget()
        assert (made.page(3, []), made.named(["logs/j5.1/out"]), len(made)) == ([], [], 0)


class TestGraves:
    made = Graves([tomb("b", 20.0, "x", "y"), tomb("a", 15.0, "x", "z"), tomb("c", 30.0, "w")])

    def paths(self, limit: int, *after: tuple[str, float]) -> list[str]:
        return [each.file.path for _, each in self.made.page(limit, [row_name(*each) for each in after])]

    def test_the_oldest_come_first_page_by_page(self) -> None:
        assert self.paths(9) == ["x", "z", "x", "y", "w"]
        assert self.paths(2, ("x", 15.0)) == ["z", "x"]
        assert self.paths(2, ("z", 15.0), ("x", 20.0)) == ["y", "w"]
        assert self.paths(2, ("y", 20.0), ("gone", 1.0)) == ["w"]
        with pytest.raises(UsageError, match="leads nowhere"):
            self.paths(2, ("w", 20.0))

    def test_sums_and_what_is_due(self) -> None:
        assert (self.made.files, self.made.bytes, self.made.next_at) == (5, 5, 15.0)
        assert [each.id for each in self.made.due(20.0)] == ["a", "b"]
        assert self.made.due(14.9) == [] == Graves().due(99.0)

    def test_files_are_chosen_with_their_tombstones(self) -> None:
        rows, strangers = self.made.chosen(["x", "w", "nobody's"])
        assert [(each.id, [file.file.path for file in files]) for each, files in rows] == [
            ("a", ["x"]),
            ("b", ["x"]),
            ("c", ["w"]),
        ]
        assert strangers == ["nobody's"]
        assert [len(files) for _, files in self.made.chosen(None)[0]] == [2, 2, 1]


class Watched(list[Row]):
    """Notes how often it is gone through."""

    walks = 0

    def __iter__(self) -> Iterator[Row]:
        self.walks += 1
        return super().__iter__()


async def test_nobody_goes_through_a_plan_once_it_is_made(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Watched] = []
    init = Planned.__init__

    def watched(self: Planned, at: float, plan: Plan, identities: dict[str, tuple[int, ...]]) -> None:
        init(self, at, plan, identities)
        self._deletions.rows = Watched(plan.deletions.rows)
        made.append(self._deletions.rows)

    monkeypatch.setattr(Planned, "__init__", watched)
    for number in range(200):
        yard.log(f"j{number % 100}.{number}/out", age_s=30 * DAY_S + number)
    first = await yard.cleaner.plan(50, fresh=True)
    second = await yard.cleaner.plan(50, [first[-1].path], fresh=False)
    done = await yard.clean(most=100)
    yard.cleaner.retention()
    assert set(done.files) == {each.path for each in (*first, *second)}
    assert (len(second), done.more) == (50, 100)
    assert [each.walks for each in made] == [0]
