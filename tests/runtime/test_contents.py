"""Bytes are handed out whole and right or not at all; copies that are read again are found to be what they are."""

from __future__ import annotations

import asyncio
import hashlib
import threading
from pathlib import Path

import pytest

from hostler.model.artifact_views import ArtifactView
from hostler.model.artifacts import HUB
from hostler.model.errors import FilesError, LinkLost, NotFound
from hostler.model.inputs import CopiesTold
from hostler.runtime.pacing import Bandwidth
from hostler.runtime.places import Located
from hostler.stores.base import PIECE, Damaged, ObjectName, Pace
from hostler.stores.directory import DirectoryStore
from tests.patience import PATIENCE_S
from tests.web.core_desk import CoreDesk
from tests.web.kept import SHELF, Kept, made

CLOUD = "cloud"
SMALL, LARGE = b"games of a stage" * 100, bytes(range(256)) * (5 * PIECE // 512)
LATER = 1e12


class Cloud:
    """A store that is no folder of this machine, or so it says."""

    def __init__(self, root: Path) -> None:
        root.mkdir()
        self.inner = DirectoryStore(root)
        self.away = False
        self.got = 0

    def get(self, name: ObjectName, target: Path, pace: Pace) -> None:
        self._answer()
        self.got += 1
        self.inner.get(name, target, pace)

    def check(self, name: ObjectName, pace: Pace) -> int:
        self._answer()
        return self.inner.check(name, pace)

    def set_aside(self, name: ObjectName) -> None:
        self.inner.set_aside(name)

    def free_bytes(self) -> int | None:
        return None

    def _answer(self) -> None:
        if self.away:
            raise LinkLost("nobody answers")


@pytest.fixture
def desk() -> CoreDesk:
    return CoreDesk()


@pytest.fixture
def kept(desk: CoreDesk) -> Kept:
    """Two artifacts in the controller's store."""
    made(desk.driver, SMALL, LARGE)
    return desk.kept


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def told(desk: CoreDesk, place: str, content: bytes) -> None:
    """A copy was verified somewhere."""
    asyncio.run(desk.tell(CopiesTold(place=place, verified=(sha(content),))))


def cloud_of(desk: CoreDesk, content: bytes) -> Cloud:
    """A copy lies in a store that is not of this machine."""
    store = Cloud(desk.kept.path / CLOUD)
    desk.kept.located[CLOUD] = Located(store=store, domain="away", bandwidth=Bandwidth(None))  # type: ignore[arg-type]
    path = desk.kept.put(content)
    name = ObjectName.at(str(path.relative_to(desk.kept.stores[HUB].root)))
    assert name is not None
    store.inner.put(name, path, lambda _: None)
    path.unlink()
    told(desk, CLOUD, content)
    return store


async def gathered(kept: Kept, name: str) -> tuple[int, bytes]:
    """What is said of the size, and what came."""
    content = await kept.contents.content(name)
    return content.size, b"".join([piece async for piece in content.pieces])


@pytest.mark.parametrize("content", [SMALL, LARGE, b""], ids=["small", "large", "empty"])
def test_bytes_come_from_the_controllers_own_store(desk: CoreDesk, kept: Kept, content: bytes) -> None:
    made(desk.driver, b"")
    desk.kept.put(content)
    size, came = asyncio.run(gathered(desk.kept, sha(content)))
    assert (size, came) == (len(content), content)


def flipped(path: Path, at: int) -> None:
    wrong = bytearray(path.read_bytes())
    wrong[at] ^= 1
    path.write_bytes(wrong)


@pytest.mark.parametrize("at", [0, -1])
def test_of_small_ones_that_are_damaged_nothing_is_handed_out(kept: Kept, at: int) -> None:
    flipped(kept.put(SMALL), at)
    with pytest.raises(FilesError, match=r"is damaged.*hostler artifact verify"):
        asyncio.run(kept.contents.content(sha(SMALL)))


@pytest.mark.parametrize("at", [0, 2 * PIECE, -1])
def test_of_large_ones_that_are_damaged_the_last_bytes_never_come(kept: Kept, at: int) -> None:
    flipped(kept.put(LARGE), at)
    came = bytearray()

    async def take() -> None:
        content = await kept.contents.content(sha(LARGE))
        assert content.size == len(LARGE)
        async for piece in content.pieces:
            came.extend(piece)

    with pytest.raises(Damaged):
        asyncio.run(take())
    assert 0 < len(came) < len(LARGE)


def test_another_place_is_asked_where_a_copy_is_not_there(desk: CoreDesk, kept: Kept) -> None:
    kept.put(SMALL, SHELF)
    told(desk, SHELF, SMALL)
    assert asyncio.run(gathered(kept, sha(SMALL)))[1] == SMALL


def test_what_is_only_elsewhere_is_fetched_and_not_kept(desk: CoreDesk, kept: Kept) -> None:
    store = cloud_of(desk, LARGE)
    assert asyncio.run(gathered(kept, sha(LARGE)))[1] == LARGE
    assert store.got == 1
    assert list((kept.path / "fetched").iterdir()) == []
    entries = len(desk.driver.entries)
    asyncio.run(gathered(kept, sha(LARGE)))
    assert len(desk.driver.entries) == entries, "who reads changes nothing"


def test_where_nobody_answers_it_is_said_so(desk: CoreDesk, kept: Kept) -> None:
    cloud_of(desk, SMALL).away = True
    asyncio.run(desk.tell(CopiesTold(place=HUB, gone=(sha(SMALL),), why="test")))
    with pytest.raises(LinkLost, match="cloud: nobody answers"):
        asyncio.run(kept.contents.content(sha(SMALL)))
    asyncio.run(desk.tell(CopiesTold(place=CLOUD, gone=(sha(SMALL),), why="test")))
    with pytest.raises(FilesError, match="no place holds"):
        asyncio.run(kept.contents.content(sha(SMALL)))


def test_what_a_killed_controller_had_fetched_goes(kept: Kept) -> None:
    left = kept.path / "fetched" / "left"
    left.parent.mkdir()
    left.touch()
    kept.contents.begin()
    assert not left.exists()


def test_right_copies_are_found_right(desk: CoreDesk, kept: Kept) -> None:
    for place in (HUB, SHELF):
        kept.put(SMALL, place)
    told(desk, SHELF, SMALL)
    before = desk.driver.now
    read = asyncio.run(kept.contents.verify(sha(SMALL)[:9], None, LATER))
    assert [(each.place, each.found) for each in read.copies] == [(HUB, "right"), (SHELF, "right")]
    assert all((each.verified_at or 0) > before for each in read.artifact.copies), "it is on record"
    assert read.artifact.counted == 2


def test_damaged_copies_are_set_aside_and_told(desk: CoreDesk, kept: Kept) -> None:
    kept.put(SMALL)
    stored = kept.put(SMALL, SHELF)
    told(desk, SHELF, SMALL)
    flipped(stored, 3)
    read = asyncio.run(kept.contents.verify(sha(SMALL), SHELF, LATER))
    assert [(each.place, each.found) for each in read.copies] == [(SHELF, "damaged")]
    assert "SHA-256" in (read.copies[0].why or "")
    assert (stored.exists(), (kept.stores[SHELF].root / "quarantine" / stored.name).exists()) == (False, True)
    assert [(each.place, each.damaged) for each in read.artifact.copies] == [(HUB, False), (SHELF, True)]
    again = asyncio.run(kept.contents.verify(sha(SMALL), None, LATER))
    assert [(each.place, each.found) for each in again.copies] == [(HUB, "right"), (SHELF, "damaged")]


def test_copies_that_are_gone_are_noted_no_more(kept: Kept) -> None:
    read = asyncio.run(kept.contents.verify(sha(SMALL), None, LATER))
    assert [(each.place, each.found) for each in read.copies] == [(HUB, "gone")]
    assert read.artifact.copies == ()
    assert asyncio.run(kept.contents.verify(sha(SMALL), None, LATER)).copies == ()


def test_of_what_does_not_answer_nothing_follows(desk: CoreDesk, kept: Kept) -> None:
    cloud_of(desk, SMALL).away = True
    read = asyncio.run(kept.contents.verify(sha(SMALL), CLOUD, LATER))
    assert [(each.found, each.why) for each in read.copies] == [("unread", "nobody answers")]
    assert {each.place for each in read.artifact.copies} == {HUB, CLOUD}
    assert kept.located[CLOUD].trouble == "nobody answers"
    del kept.located[CLOUD]
    read = asyncio.run(kept.contents.verify(sha(SMALL), CLOUD, LATER))
    assert [(each.found, each.why) for each in read.copies] == [("unread", "the place is no part of this fleet now")]


def test_a_place_without_a_copy_is_refused(kept: Kept) -> None:
    with pytest.raises(NotFound, match=r"no copy of .* is noted for 'shelf'; there is one in: controller"):
        asyncio.run(kept.contents.verify(sha(SMALL), SHELF, LATER))


def test_what_was_read_since_is_not_read_again(desk: CoreDesk, kept: Kept) -> None:
    path = kept.put(SMALL)
    asked_at = desk.driver.now
    asyncio.run(kept.contents.verify(sha(SMALL), None, LATER))
    path.unlink()
    read = asyncio.run(kept.contents.verify(sha(SMALL), None, asked_at))
    assert [(each.place, each.found) for each in read.copies] == [(HUB, "right")]


def test_two_who_ask_at_once_share_what_is_found(desk: CoreDesk, kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    kept.put(SMALL, SHELF)
    stored = kept.put(SMALL)
    flipped(stored, 0)
    view, check, looked, asked = kept.artifacts.view, DirectoryStore.check, list[str](), threading.Event()

    async def viewed(name: str) -> ArtifactView:
        found = await view(name)
        looked.append(name)
        if len(looked) == 2:
            asyncio.get_running_loop().call_soon(asyncio.get_running_loop().call_soon, asked.set)
        return found

    def checked(store: DirectoryStore, name: ObjectName, pace: Pace) -> int:
        assert asked.wait(PATIENCE_S)
        return check(store, name, pace)

    monkeypatch.setattr(kept.artifacts, "view", viewed)
    monkeypatch.setattr(DirectoryStore, "check", checked)

    async def both() -> list[str]:
        reads = await asyncio.gather(*(kept.contents.verify(sha(SMALL), None, LATER) for _ in range(2)))
        return [each.found for read in reads for each in read.copies]

    assert asyncio.run(both()) == ["damaged", "damaged"]
    facts = [entry for entry in desk.driver.entries if entry.event.kind == "copies.damaged"]
    assert len(facts) == 1


def test_a_controller_that_ends_reads_no_more(kept: Kept) -> None:
    kept.put(SMALL)
    kept.contents.close()
    with pytest.raises(LinkLost, match="the controller ends"):
        asyncio.run(kept.contents.content(sha(SMALL)))
