"""Ratings are fitted by a process of its own, really; whatever becomes of it is an answer."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from hostler.learning.ratings import fit
from hostler.model.codec import adapter
from hostler.model.commands import Fit
from hostler.model.events import ConfigRated, RatingFailed
from hostler.model.inputs import Fitted
from hostler.runtime import fitting
from hostler.runtime.fitting import FitFailed, Fitter, fit_in_background
from tests.core.loop.builders import ANCHORS, NAME, loop, played
from tests.runtime.conftest import until

pytestmark = pytest.mark.anyio

MATCHES = (played("one", "random", [True, True, False, True]), played("two", "one", [True, False, True, True]))
COMMAND = Fit(config=NAME, anchors=ANCHORS, frozen={}, matches=MATCHES, through=len(MATCHES))
HIDDEN = """
import importlib.abc, sys
class Hide(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "openskill":
            raise ModuleNotFoundError("No module named 'openskill'")
sys.meta_path.insert(0, Hide())
"""


def python(code: str) -> tuple[str, ...]:
    return (sys.executable, "-c", code)


@pytest.fixture
def without_openskill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes that are started see no openskill."""
    (tmp_path / "sitecustomize.py").write_text(HIDDEN)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]))


async def test_the_process_fits_what_the_library_fits() -> None:
    ratings = await fit_in_background(COMMAND)
    assert ratings == fit(MATCHES, ANCHORS, [])
    assert set(ratings) == {"one", "two", *ANCHORS}


@pytest.mark.long
async def test_nothing_played_is_no_failure() -> None:
    ratings = await fit_in_background(Fit(config=NAME, anchors={}, frozen={}, matches=(MATCHES[1],), through=1))
    assert ratings == {"one": None, "two": None}


@pytest.mark.long
async def test_without_openskill_it_says_what_to_install(without_openskill: None) -> None:
    with pytest.raises(FitFailed, match=r"ratings need openskill .*: pip install 'hostler\[eval\]'"):
        await fit_in_background(COMMAND)


async def test_without_openskill_the_loop_goes_on(without_openskill: None) -> None:
    """The whole way: a real process that fails, its answer, the fact, and a loop that comes to its next model."""
    world = loop()
    world.until(lambda: world.fits)
    answers: list[Fitted] = []
    fitter = Fitter(answers.append)
    fitter.give(world.fits.pop(NAME))
    await run_until(fitter, lambda: bool(answers))
    world.tell(answers[0])
    (failed,) = world.of(RatingFailed)
    assert "pip install 'hostler[eval]'" in failed.why
    world.answer_fits = lambda: None  # type: ignore[method-assign]
    world.until(lambda: world.config().candidates)
    assert world.config().ratings == {}


async def test_matches_that_cannot_be_fitted_are_an_error_with_its_cause() -> None:
    three = played("one", "three", [True])
    three = type(three)(a="one", b="three", groups=(((0, 1, 2), (1, 0, 2), (1, 2, 0)),))
    with pytest.raises(FitFailed, match="one fit is for one config"):
        await fit_in_background(Fit(config=NAME, anchors=ANCHORS, frozen={}, matches=(*MATCHES, three), through=3))


@pytest.mark.parametrize(
    "told",
    [
        b"{",
        *(pytest.param(each, marks=pytest.mark.long) for each in (b"", b'{"config": "x"}', b"\xff\x00", b"[" * 10_000)),
    ],
)
def test_the_process_refuses_garbage(told: bytes) -> None:
    command = [sys.executable, "-m", "hostler.runtime.fitting"]
    process = subprocess.run(command, input=told, capture_output=True, check=False)
    assert process.returncode == 1
    assert process.stdout == b""
    assert process.stderr.startswith(b"what is to be fitted cannot be read: ")


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("print('no JSON')", "answered b'no JSON"),
        ('print(\'{"one": {"elo": "strong"}}\')', "answered"),
        ('print(\'{"one": {"elo": NaN, "low": 0, "high": 0, "games": 1}}\')', "answered"),
        ("", "answered b''"),
        ("import sys; sys.exit(3)", "exit status 3"),
        ("import sys; sys.exit('no luck today')", "no luck today"),
        ("import os; os.kill(os.getpid(), 9)", "exit status -9"),
        ("import sys; sys.stderr.write('x' * 10_000 + 'the end'); sys.exit(1)", "^x{493}the end$"),
    ],
)
async def test_whatever_the_process_does_is_a_failure_that_is_told(code: str, why: str) -> None:
    with pytest.raises(FitFailed, match=why):
        await fit_in_background(COMMAND, python(code))


async def test_a_program_that_cannot_be_started_is_a_failure() -> None:
    with pytest.raises(FitFailed, match="could not be started"):
        await fit_in_background(COMMAND, ("/nowhere/python",))


async def test_a_fit_that_hangs_is_ended(tmp_path: Path) -> None:
    code = f"import os, time; open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid())); time.sleep(1000)"
    with pytest.raises(FitFailed, match=r"2 matches took longer than 0\.3 s"):
        await fit_in_background(COMMAND, python(code), limit_s=0.3)
    pid = tmp_path / "pid"
    if pid.exists() and pid.read_text():
        with pytest.raises(ProcessLookupError):
            os.kill(int(pid.read_text()), 0)


async def test_a_fit_that_is_not_wanted_any_more_leaves_no_process(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    code = f"import os, time; open({str(pid)!r}, 'w').write(str(os.getpid())); time.sleep(1000)"
    task = asyncio.create_task(fit_in_background(COMMAND, python(code)))
    await until(lambda: pid.exists() and bool(pid.read_text()))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


class TestFitter:
    async def test_of_several_for_one_config_only_the_newest_counts(self, monkeypatch: pytest.MonkeyPatch) -> None:
        fits, answers = Fits(), list[Fitted]()
        monkeypatch.setattr(fitting, "fit_in_background", fits)
        fitter = Fitter(answers.append)
        for matches in (1, 2):
            fitter.give(Fit(config="a", anchors={}, frozen={}, matches=MATCHES[:matches], through=matches))
        fitter.give(Fit(config="b", anchors={}, frozen={}, matches=MATCHES[:1], through=1))
        await run_until(fitter, lambda: len(answers) == 2)
        assert fits.done == [("a", 2), ("b", 1)]
        assert [(answer.config, answer.matches) for answer in answers] == [("a", 2), ("b", 1)]

    async def test_what_comes_during_a_fit_is_done_next(self, monkeypatch: pytest.MonkeyPatch) -> None:
        fits, answers = Fits(), list[Fitted]()
        monkeypatch.setattr(fitting, "fit_in_background", fits)
        fitter = Fitter(answers.append)
        fits.meanwhile = lambda: fitter.give(
            Fit(config="a", anchors={}, frozen={}, matches=MATCHES, through=len(MATCHES))
        )
        fitter.give(Fit(config="a", anchors={}, frozen={}, matches=MATCHES[:1], through=1))
        await run_until(fitter, lambda: len(answers) == 2)
        assert fits.done == [("a", 1), ("a", 2)]

    async def test_a_failure_is_an_answer_and_the_next_is_fitted(self, monkeypatch: pytest.MonkeyPatch) -> None:
        fits, answers = Fits(), list[Fitted]()
        monkeypatch.setattr(fitting, "fit_in_background", fits)
        fits.fails = {"a"}
        fitter = Fitter(answers.append)
        fitter.give(Fit(config="a", anchors={}, frozen={}, matches=MATCHES, through=len(MATCHES)))
        fitter.give(Fit(config="b", anchors={}, frozen={}, matches=MATCHES, through=len(MATCHES)))
        await run_until(fitter, lambda: len(answers) == 2)
        assert [answer.error for answer in answers] == ["no luck", None]

    async def test_the_answer_is_one_the_core_takes(self) -> None:
        world = loop()
        world.until(lambda: world.fits)
        answers: list[Fitted] = []
        fitter = Fitter(answers.append)
        fitter.give(world.fits.pop(NAME))
        await run_until(fitter, lambda: bool(answers))
        world.tell(answers[0])
        (rated,) = world.of(ConfigRated)
        assert rated.ratings[f"gumbel-64@{world.config().current}"] is not None
        assert adapter(Fitted).validate_json(adapter(Fitted).dump_json(answers[0])) == answers[0]


class Fits:
    """Stands in for the process: what was fitted, in order."""

    def __init__(self) -> None:
        self.done: list[tuple[str, int]] = []
        self.fails: set[str] = set()
        self.meanwhile = lambda: None

    async def __call__(self, command: Fit) -> fitting.Ratings:
        self.done.append((command.config, command.through))
        meanwhile, self.meanwhile = self.meanwhile, lambda: None
        meanwhile()
        if command.config in self.fails:
            raise FitFailed("no luck")
        return {}


async def run_until(fitter: Fitter, condition) -> None:  # type: ignore[no-untyped-def]
    task = asyncio.create_task(fitter.run())
    await until(condition)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
