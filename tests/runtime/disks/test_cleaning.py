"""What may go is told, buried and deleted in this order, and comes back as long as it is buried."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from hostler.backends.base import Removed
from hostler.model.artifacts import HUB
from hostler.model.disk_events import FilesDeleted, FilesDropped, FilesRestored, FilesRetired
from hostler.model.errors import Conflict, FilesError, LinkLost
from hostler.model.inputs import CopiesTold, FilesTold, Input
from hostler.model.rules import Targets
from hostler.model.work import JobState
from hostler.policy import retention
from hostler.runtime.disks.cleaning import ITSELF
from hostler.runtime.disks.tombs import LIST
from hostler.stores.base import LABEL, ObjectName, Pace
from tests.integration.conftest import small_disk
from tests.integration.test_disk import fill
from tests.patience import PATIENCE_S
from tests.runtime.disks.yard import DAY_S, RULES, Ended, Yard

STEPS = ["listed", "opened", "moved"]
FULL = Targets(disk_store=0.0001, disk_critical=0.0002, disk_roomy_gb=1e6, disk_free_gb=0.0)
"""Any disk is too full."""
ORDER = "d" * 64
WORKED = "/".join(("artifacts", "work"))


@pytest.fixture
def yard(tmp_path: Path) -> Iterator[Yard]:
    made = Yard(tmp_path)
    yield made
    made.journal.close()


def below(folder: Path) -> set[str]:
    return {str(each.relative_to(folder)) for each in folder.rglob("*") if each.is_file() or each.is_symlink()}


async def test_what_lies_there_is_known_by_where_it_lies(yard: Yard) -> None:
    games = yard.segment(b"games")
    await yard.copy(games, "shelf", "attic")
    objects = yard.roots["artifacts"] / "objects"
    yard.aged(objects / "ab" / f".{'ab' * 32}.segment.npz.host.12.tmp", DAY_S)
    yard.aged(objects / "ab" / f"{'ab' * 32}.segment.npz", DAY_S)
    yard.aged(yard.roots["artifacts"] / "notes.txt", 99 * DAY_S)
    yard.aged(yard.roots["artifacts"] / LABEL, 99 * DAY_S)
    for number in range(5):
        yard.aged(
            yard.roots["artifacts"] / f"work/{ORDER}/checkpoint-00000000{number}-{number:016x}.safetensors",
            (9 - number) * DAY_S,
        )
    yard.aged(yard.roots["artifacts"] / f"work/{'e' * 64}/memory.json", 99 * DAY_S)
    yard.orders = {ORDER: JobState.FAILED}
    yard.log("j7.1/out")
    yard.log("j7.2/out", age_s=60.0)
    yard.log("j8.1/err")
    yard.log("strange/out")
    yard.log("j100.1/out")
    yard.live = {"j8.1"}
    assert sorted(await yard.plan()) == [
        f"artifacts/objects/ab/.{'ab' * 32}.segment.npz.host.12.tmp",
        f"artifacts/objects/{games[:2]}/{games}.segment.npz",
        f"{WORKED}/{ORDER}/checkpoint-000000000-{0:016x}.safetensors",
        f"{WORKED}/{ORDER}/checkpoint-000000001-{1:016x}.safetensors",
        "logs/j7.1/out",
    ]
    stays = {each.why: each.files for each in yard.cleaner.retention().stays}
    assert stays == {
        "nobody knows what it is": 5,
        "one of the newest checkpoints of its training": 3,
        "no rule names it": 1,
        "it is too young": 1,
        "a job that is not over uses it": 1,
    }


async def test_old_checkpoints_of_a_training_are_buried_and_come_back(yard: Yard) -> None:
    work = yard.roots["artifacts"] / "work" / ORDER
    names = [f"checkpoint-00000000{number}-{number:016x}.safetensors" for number in range(5)]
    for number, name in enumerate(names):
        yard.aged(work / name, (9 - number) * DAY_S)
    yard.orders = {ORDER: JobState.FAILED}
    done = await yard.clean()
    assert sorted(done.files) == [f"{WORKED}/{ORDER}/{name}" for name in names[:2]]
    assert sorted(each.name for each in work.iterdir()) == names[2:]
    await yard.undo()
    assert sorted(each.name for each in work.iterdir()) == names


async def test_it_is_told_before_it_is_moved_and_deleted_when_its_grace_is_over(yard: Yard) -> None:
    games = yard.segment(b"games")
    await yard.copy(games, "shelf", "attic")
    own = yard.file(HUB, games)
    there: list[bool] = []
    yard.on_told = lambda given: there.append(own.exists()) if isinstance(given, FilesTold) else None
    done = await yard.clean()
    assert (there, own.exists(), yard.is_here(games)) == ([True], False, True)
    assert done.files == (f"artifacts/objects/{games[:2]}/{games}.segment.npz",)
    (retired,) = yard.told(FilesRetired)
    assert (retired.who, retired.files[0].rule, retired.until) == ("ann", "exported", done.until)
    assert {copy.place for copy in retired.files[0].proof} == {"shelf", "attic"}
    assert yard.known_copies(games) == {"shelf", "attic"}
    await yard.later(DAY_S - 1)
    assert yard.is_here(games)
    await yard.later(2)
    assert not yard.is_here(games)
    (deleted,) = yard.told(FilesDeleted)
    assert deleted.files == done.files
    assert not list((yard.roots["artifacts"] / ".tombstones").iterdir())
    assert yard.troubles == []


async def test_what_was_brought_back_is_where_it_was_and_counts_again(yard: Yard) -> None:
    games = yard.segment(b"games")
    await yard.copy(games, "shelf", "attic")
    log = yard.log("j7.1/out")
    await yard.clean()
    assert not log.parent.exists(), "an empty folder would say that nothing was said"
    done = await yard.undo()
    assert (len(done.files), done.left) == (2, ())
    assert log.read_text() == "something was said"
    assert yard.known_copies(games) == {HUB, "shelf", "attic"}
    assert {each.who for each in yard.told(FilesRestored)} == {"ann"}
    assert yard.cleaner.tombs(99) == []
    assert "logs/j7.1/out" not in await yard.plan(), "it counts as just used"


async def test_only_what_is_named_goes_and_comes_back(yard: Yard) -> None:
    one, other = yard.log("j7.1/out"), yard.log("j7.2/out")
    done = await yard.clean("logs/j7.1/out", "logs/nobody/out")
    assert (done.files, [each.path for each in done.left]) == (("logs/j7.1/out",), ["logs/nobody/out"])
    assert (one.exists(), other.exists()) == (False, True)
    again = await yard.undo("logs/j7.1/out", "logs/j7.2/out")
    assert (again.files, [each.path for each in again.left]) == (("logs/j7.1/out",), ["logs/j7.2/out"])


async def test_cleaning_deletes_at_most_so_many_files_a_round(yard: Yard) -> None:
    for number in range(5):
        yard.log(f"j{number}.1/out", age_s=(30 - number) * DAY_S)
    done = await yard.clean(most=2)
    assert (done.files, done.more) == (("logs/j0.1/out", "logs/j1.1/out"), 3)
    assert (await yard.clean(most=9)).more == 0
    assert not list(yard.roots["logs"].glob("j*"))


async def test_who_asks_again_is_told_the_same(yard: Yard) -> None:
    yard.log("j7.1/out")
    done = await yard.clean()
    assert yard.cleaner.answer("ask") == done
    with pytest.raises(Conflict, match="disk plan"):
        yard.cleaner.answer("another")


@pytest.mark.parametrize("what", ["gone", "damaged", "told gone", "told damaged", "unreachable", "needed"])
async def test_a_proof_that_fails_between_plan_and_act_saves_the_file(yard: Yard, what: str) -> None:
    games = yard.segment(b"games")
    await yard.copy(games, "shelf", "attic")
    assert await yard.plan()
    spoil(yard, games, what)
    if what.startswith("told"):
        told = {"told gone": "gone", "told damaged": "damaged"}[what]
        await yard.tell(CopiesTold(place="attic", why="it was read", **{told: (games,)}))  # type: ignore[arg-type]
    done = await yard.clean()
    assert (done.files, len(done.left)) == ((), 1)
    assert yard.file(HUB, games).exists()
    assert yard.told(FilesRetired) == []


def spoil(yard: Yard, games: str, what: str) -> None:
    if what == "gone":
        yard.file("attic", games).unlink()
    if what == "damaged":
        yard.file("attic", games).write_bytes(b"gamez")
    if what == "unreachable":
        yard.located["attic"].away_until = yard.clock.at + 600.0
    if what == "needed":
        yard.needed.add(games)
    yard.clock.at += 10.0


async def test_what_is_not_proved_any_more_at_the_end_of_its_grace_comes_back(yard: Yard) -> None:
    games = yard.segment(b"games")
    await yard.copy(games, "shelf", "attic")
    await yard.clean()
    yard.file("attic", games).write_bytes(b"gamez")
    await yard.later(2 * DAY_S)
    assert yard.file(HUB, games).read_bytes() == b"games"
    assert yard.told(FilesDeleted) == []
    assert yard.known_copies(games) == {HUB, "shelf"}
    (back,) = yard.told(FilesRestored)
    assert back.who == ITSELF


async def test_a_copy_that_was_made_again_meanwhile_takes_the_place_of_the_buried_one(yard: Yard) -> None:
    games = yard.segment(b"games")
    await yard.copy(games, "shelf", "attic")
    await yard.clean()
    yard.file("attic", games).unlink()
    yard.put(HUB, games, b"games")
    await yard.later(2 * DAY_S)
    assert yard.file(HUB, games).read_bytes() == b"games"
    assert not list((yard.roots["artifacts"] / ".tombstones").iterdir())


async def test_games_that_are_in_no_dataset_stay_however_many_copies_there_are(yard: Yard) -> None:
    games = yard.segment(b"games", exported=False)
    await yard.copy(games, "shelf", "attic")
    assert await yard.plan() == []
    assert [each.why for each in yard.cleaner.retention().stays] == ["its games are in no dataset yet"]


async def test_a_store_that_hangs_keeps_nobody_else_from_threads(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a file system whose server is gone does, for ever."""
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(1))
    games = yard.segment(b"games")
    await yard.copy(games, "shelf", "attic")
    hangs, goes_on = asyncio.Event(), threading.Event()

    def check(name: ObjectName, pace: Pace) -> int:
        loop.call_soon_threadsafe(hangs.set)
        goes_on.wait(PATIENCE_S)
        raise LinkLost("it hung up at last")

    monkeypatch.setattr(yard.stores["shelf"], "check", check)
    cleaning = asyncio.create_task(yard.clean())
    try:
        async with asyncio.timeout(PATIENCE_S):
            await hangs.wait()
            assert await asyncio.to_thread(lambda: "somebody else") == "somebody else"
    finally:
        goes_on.set()
    assert (await cleaning).files == ()


async def test_games_whose_dataset_has_too_few_copies_stay(yard: Yard) -> None:
    games = yard.segment(b"games", exported=False)
    dataset = yard.dataset(b"dataset", games)
    await yard.copy(games, "shelf", "attic")
    await yard.tell(CopiesTold(place=HUB, damaged=(dataset,), why="read"))
    assert await yard.plan() == []


@pytest.mark.parametrize("how", ["link", "folder link", "written", "another file"])
async def test_what_is_not_the_file_any_more_stays(yard: Yard, how: str, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "out").write_text("precious")
    log = yard.log("j7.1/out")
    assert await yard.plan()
    swap(log, outside, how)
    before = below(yard.roots["logs"])
    done = await yard.clean()
    assert (done.files, len(done.left)) == ((), 1)
    assert below(yard.roots["logs"]) - {each for each in below(yard.roots["logs"]) if "tombstones" in each} == before
    assert (outside / "out").read_text() == "precious"


def swap(log: Path, outside: Path, how: str) -> None:
    if how == "written":
        log.write_text("somebody has said more")
        return
    stat = log.stat()
    log.rename(log.with_name("was"))
    if how == "link":
        log.symlink_to(outside / "out")
    elif how == "another file":
        log.write_text("something was said")
        os.utime(log, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    else:
        log.parent.rename(log.parent.with_name("moved"))
        log.parent.symlink_to(outside)


async def test_a_file_that_is_swapped_as_it_is_told_is_not_moved(yard: Yard, tmp_path: Path) -> None:
    log = yard.log("j7.1/out")

    def replace(given: Input) -> None:
        if isinstance(given, FilesTold) and given.retired:
            log.unlink()
            log.write_text("another attempt's")

    yard.on_told = replace
    done = await yard.clean()
    assert (done.files, log.read_text()) == ((), "another attempt's")
    assert yard.told(FilesRestored)[0].files == ("logs/j7.1/out",)
    assert below(yard.roots["logs"]) == {"j7.1/out"}


async def test_nothing_is_overwritten_by_what_is_brought_back(yard: Yard) -> None:
    log = yard.log("j7.1/out")
    await yard.clean()
    log.parent.mkdir()
    log.write_text("new")
    done = await yard.undo()
    assert (done.files, len(done.left), log.read_text()) == ((), 1, "new")
    log.unlink()
    assert (await yard.undo()).files == ("logs/j7.1/out",)
    assert log.read_text() == "something was said"


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("nth", [1, 2])
async def test_killed_at_any_step_of_burying(yard: Yard, step: str, nth: int) -> None:
    """Each file is where it was or in its tombstone, and the next controller knows which."""
    names = [yard.segment(b"games %d" % number) for number in range(3)]
    for name in names:
        await yard.copy(name, "shelf", "attic")
    kill_at(yard, step, nth)
    with suppress(Ended):
        await yard.clean()
    yard.on_step = lambda _: None
    assert all(yard.is_here(name) for name in names)
    yard.cleaner = yard.begun()
    await yard.cleaner.settle()
    for name in names:
        buried = not yard.file(HUB, name).exists()
        assert buried is (HUB not in yard.known_copies(name)), "the catalogue says what is so"
        assert buried is any(tomb.sha256 == name for tomb in yard.cleaner.tombs(99))
    await yard.undo()
    assert all(yard.file(HUB, name).exists() for name in names)


@pytest.mark.parametrize("step", ["brought back", "listed", "closed"])
async def test_killed_at_any_step_of_bringing_back(yard: Yard, step: str) -> None:
    names = [yard.segment(b"games %d" % number) for number in range(3)]
    for name in names:
        await yard.copy(name, "shelf", "attic")
    await yard.clean()
    kill_at(yard, step, 1)
    with suppress(Ended):
        await yard.undo(f"artifacts/objects/{names[0][:2]}/{names[0]}.segment.npz")
        await yard.undo()
    yard.on_step = lambda _: None
    assert all(yard.is_here(name) for name in names)
    yard.cleaner = yard.begun()
    await yard.cleaner.settle()
    await yard.undo()
    assert all(yard.file(HUB, name).exists() for name in names)
    assert all(HUB in yard.known_copies(name) for name in names)


@pytest.mark.parametrize("step", ["deleted", "listed", "closed"])
async def test_killed_at_any_step_of_deleting(yard: Yard, step: str) -> None:
    names = [yard.segment(b"games %d" % number) for number in range(3)]
    for name in names:
        await yard.copy(name, "shelf", "attic")
    await yard.clean()
    kill_at(yard, step, 1)
    with suppress(Ended):
        await yard.later(2 * DAY_S)
    yard.on_step = lambda _: None
    yard.cleaner = yard.begun()
    await yard.cleaner.settle()
    await yard.later(1.0)
    assert not any(yard.is_here(name) for name in names)
    assert {path for each in yard.told(FilesDeleted) for path in each.files} == {
        f"artifacts/objects/{name[:2]}/{name}.segment.npz" for name in names
    }
    assert yard.cleaner.tombs(99) == []


async def test_a_link_that_was_made_before_the_kill_is_no_other_file(yard: Yard) -> None:
    """Bringing back links first and takes away then: killed between the two, both are there."""
    log = yard.log("j7.1/out")
    await yard.clean()
    (tomb,) = (yard.roots["logs"] / ".tombstones").iterdir()
    log.parent.mkdir()
    os.link(tomb / "0", log)
    assert (await yard.undo()).files == ("logs/j7.1/out",)
    assert log.read_text() == "something was said"
    assert not tomb.exists()


def kill_at(yard: Yard, step: str, nth: int) -> None:
    count = 0

    def passing(reached: str) -> None:
        nonlocal count
        count += reached == step
        if reached == step and count == nth:
            raise Ended

    yard.on_step = passing


async def test_what_is_no_tombstone_of_ours_is_left_alone(yard: Yard, tmp_path: Path) -> None:
    tombs = yard.roots["logs"] / ".tombstones"
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / LIST).write_text("{}")
    for name, content in (("strange", "not JSON"), ("half", "{}")):
        (tombs / name).mkdir(parents=True)
        (tombs / name / LIST).write_text(content)
        (tombs / name / "0").write_text("whose is this?")
    (tombs / "link").symlink_to(outside)
    (tombs / "empty").mkdir()
    await yard.cleaner.settle()
    await yard.later(99 * DAY_S)
    assert below(tombs) == {"strange/list.json", "strange/0", "half/list.json", "half/0", "link"}
    assert not (tombs / "empty").exists()
    assert (outside / LIST).exists()
    said = " has no list that can be read: what lies in it is not shown, and stays; look into it"
    assert sorted(yard.troubles) == [f"{tombs / name}{said}" for name in ("half", "strange")]


async def test_at_first_nothing_is_deleted_that_nobody_asked_for(yard: Yard) -> None:
    yard.targets = FULL
    log = yard.log("j7.1/out")
    await yard.later(99 * DAY_S)
    assert log.exists()
    trouble = yard.cleaner.trouble()
    assert trouble is not None
    assert "hostler disk plan" in trouble


async def test_a_disk_that_is_too_full_is_cleaned_where_that_is_wanted(tmp_path: Path) -> None:
    yard = Yard(tmp_path, mode="clean", targets=FULL)
    log = yard.log("j7.1/out")
    games = yard.segment(b"games")
    await yard.copy(games, "shelf")
    await yard.later(1.0)
    assert not log.exists()
    (retired,) = yard.told(FilesRetired)
    assert retired.who == ITSELF
    assert yard.holders(games) == {"shelf", "attic"}, "one more copy lets the one here go"
    await yard.later(1.0)
    assert not yard.file(HUB, games).exists()
    await yard.later(2 * DAY_S)
    assert not yard.is_here(games)
    yard.journal.close()


class Builder:
    """A node of this machine: an environment of a megabyte each."""

    def __init__(self, number: int) -> None:
        self.environments = [f"key{at}" for at in range(number)]
        self.asked_for: list[tuple[int, float]] = []

    async def drop_environments(self, wanted_bytes: int, unused_s: float) -> Removed:
        self.asked_for.append((wanted_bytes, unused_s))
        gone, self.environments = dict.fromkeys(self.environments, 1 << 20), []
        return Removed(gone=gone, left={}, free_bytes=0)


async def test_unused_environments_here_go_where_artifacts_are_not_enough(tmp_path: Path) -> None:
    builder, idle = Builder(2), Builder(0)
    yard = Yard(tmp_path, mode="clean", targets=FULL, builders={"here": builder, "idle": idle})
    log = yard.log("j7.1/out")
    games = yard.segment(b"games")
    await yard.copy(games, "shelf")
    await yard.later(1.0)
    assert not log.exists()
    assert builder.asked_for == [], "what can be copied elsewhere goes first"
    await yard.later(1.0)
    await yard.later(1.0)
    ((wanted, unused_s),) = builder.asked_for
    assert (wanted > 1 << 20, unused_s) == (True, retention.unused_s(RULES))
    assert [each[0] for each in idle.asked_for] == [wanted - (2 << 20)], "the next node for what is left"
    (dropped,) = yard.told(FilesDropped)
    assert (dropped.node, dropped.files, dropped.bytes) == ("here", ("environments/key0", "environments/key1"), 2 << 20)
    yard.journal.close()


async def test_no_more_is_cleaned_than_is_needed(tmp_path: Path) -> None:
    yard = Yard(tmp_path, mode="clean", targets=Targets(disk_store=1.0, disk_critical=1.0, disk_free_gb=0.0))
    log = yard.log("j7.1/out")
    await yard.later(1.0)
    assert log.exists()
    yard.journal.close()


async def test_on_a_full_disk_nothing_is_moved_and_it_is_said(tmp_path: Path) -> None:
    path = tmp_path / "small"
    with small_disk(path, "1m") as disk:
        yard = Yard(tmp_path)
        yard.roots["logs"].rmdir()
        (disk / "logs").mkdir()
        yard.roots["logs"].symlink_to(disk / "logs")
        log = yard.log("j7.1/out")
        fill(disk)
        with pytest.raises(FilesError, match="disk is full"):
            await yard.clean()
        assert log.exists()
        assert yard.told(FilesRetired) == []
        (disk / "ballast").unlink()
        assert (await yard.clean()).files == ("logs/j7.1/out",)
        fill(disk)
        await yard.later(2 * DAY_S)
        assert len(yard.told(FilesDeleted)) == 1, "what is due makes room also where there is none"
        yard.journal.close()


async def test_what_becomes_needed_at_the_last_moment_stays(yard: Yard) -> None:
    """What was in use is known for a moment; what is about to be moved is looked at once more."""
    games = yard.segment(b"games")
    await yard.copy(games, "shelf", "attic")
    await yard.plan()
    yard.on_told = lambda given: yard.needed.add(games) if isinstance(given, CopiesTold) else None
    done = await yard.clean()
    assert (done.files, [each.why for each in done.left]) == ((), ["a job that is not over uses it"])
    assert yard.file(HUB, games).exists()


async def test_what_somebody_else_took_is_not_said_to_be_deleted(yard: Yard) -> None:
    """The controller was killed before it told of anything, and the file had gone to another name."""
    log = yard.log("j1.1/out")
    await yard.plan()
    log.rename(log.with_name("mine"))

    def ends(step: str) -> None:
        if step == "opened":
            raise Ended

    yard.on_step = ends
    with suppress(Ended):
        await yard.clean()
    yard.on_step = lambda _: None
    yard.cleaner = yard.begun()
    await yard.cleaner.settle()
    assert (yard.told(FilesRetired), yard.told(FilesDeleted)) == ([], [])
    assert ["logs/j1.1/out" in each for each in yard.troubles] == [True]
    assert not yard.cleaner.tombs(99)
