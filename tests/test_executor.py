"""`Executor` and `AsyncExecutor` against a client whose controller is played here: no process, no wire."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import json
import os
import pickle
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent import futures
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from hostler.client import call_batches, executor as module
from hostler.client.call_batches import FOLDER, RECORD
from hostler.client.call_errors import CallFailed, ResultError
from hostler.client.calls import Answer, Ask, Submitted, Told
from hostler.client.executor import AsyncExecutor, Executor
from hostler.client.jobs import HostlerWarning
from hostler.client.plain import Client
from hostler.client.snapshots import LARGE_BYTES
from hostler.model.errors import (
    ControllerAbsent,
    FilesChanged,
    HostlerError,
    LinkLost,
    LinkRefused,
    StandsBy,
    UsageError,
)
from hostler.snapshots.folder import FolderSnapshot
from hostler.workloads.calls import worker
from tests.patience import PATIENCE_S

Json = dict[str, Any]


class Played(Client):
    """A controller that runs each batch where it is submitted, once `gate` is open."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.specs: list[Json] = []
        self.sent: list[FolderSnapshot] = []
        self.calls: dict[str, list[Callable[[], Any]]] = {}
        self.functions: set[tuple[int, int]] = set()
        self.given: dict[str, list[Json]] = {}
        self.states: dict[str, tuple[str, str | None]] = {}
        self.cancelled: list[str] = []
        self.troubles: Iterator[Exception | None] = iter(())
        self.pages: list[int] = []
        self.notes: Callable[[str], Sequence[Mapping[str, Any]]] = lambda job: ()
        self._home = None

    def _meet_trouble(self) -> None:
        error = next(self.troubles, None)
        if error is not None:
            raise error

    def send_snapshot(self, snapshot: FolderSnapshot, sent: Any = None) -> str:
        self._meet_trouble()
        self.sent.append(snapshot)
        folder = snapshot.folder / FOLDER
        data, index = (folder / "calls.pkl").read_bytes(), (folder / "index").read_bytes()
        made = list[Callable[[], Any]]()
        for at in range(0, len(index), RECORD.size):
            begin, size, begin_arguments, size_arguments = RECORD.unpack_from(index, at)
            self.functions.add((begin, size))
            function = pickle.loads(data[begin : begin + size])
            args, kwargs = pickle.loads(data[begin_arguments : begin_arguments + size_arguments])
            made.append(partial(function, *args, **kwargs))
        self.calls[snapshot.digest] = made
        return snapshot.digest

    def status(self) -> Any:
        self._meet_trouble()
        return {}

    def submit_jobs(self, specs: Sequence[Mapping[str, Any]], *_: Any, **__: Any) -> Submitted:
        self._meet_trouble()
        known = {spec["key"]: at for at, spec in enumerate(self.specs)}
        (spec,) = specs
        at = known.get(spec["key"])
        if at is None:
            at = len(self.specs)
            self.specs.append(dict(spec))
            self.states[f"j{at}"] = ("running", None)
        self._meet_trouble()
        return Submitted([f"j{at}"], self.notes(f"j{at}"))

    def _do(self, steps: Answer[Any]) -> Any:
        ask = next(steps)
        assert isinstance(ask, Ask)
        self._meet_trouble()
        target = urlsplit(ask.target)
        query = {name: int(value) for name, (value,) in parse_qs(target.query).items()}
        self.pages.append(query["limit"])
        job = target.path.split("/")[-2]
        found = self._found(job)[query["after"] :][: query["limit"]]
        rows = [{"job": job, "at": hit["at"], "data": hit} for hit in found]
        try:
            steps.send(Told(json.dumps(rows).encode(), {}))
        except StopIteration as end:
            return end.value
        raise AssertionError("one page was asked for")

    def _found(self, job: str) -> list[Json]:
        if job not in self.given and self.gate.is_set() and self.states[job][0] == "running":
            self.given[job] = [
                run(at, call) for at, call in enumerate(self.calls[self.specs[int(job[1:])]["payload"]["snapshot"]])
            ]
        return self.given.get(job, [])

    def job(self, name: str) -> Any:
        self._meet_trouble()
        state, why = self.states[name]
        return {"job": {"state": state, "why": why}, "sweep": {"hits": len(self.given.get(name, ()))}}

    def cancel(self, name: str, reason: str | None = None, **_: Any) -> Any:
        self.cancelled.append(name)


def run(at: int, call: Callable[[], Any]) -> Json:
    try:
        value = call()
    except Exception as error:  # noqa: BLE001 - as the worker does
        return dict(json.loads(worker.raised(at, error, False, pickle.dumps)))
    try:
        return dict(json.loads(worker.returned(at, value, False, pickle.dumps)))
    except worker.Unfit as error:
        return {"at": at, "unfit": str(error)}


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> Played:
    monkeypatch.setattr(module, "AWAY_RESTS_S", (0.001,))
    monkeypatch.setattr(module, "ASKED_EVERY_S", 0.0)
    return Played()


def a_set() -> set[int]:
    return {1}


def double(value: int) -> int:
    return 2 * value


def test_results_and_exceptions_are_those_of_the_calls(played: Played) -> None:
    with Executor(played) as executor:
        two, broken, unfit = executor.submit(double, 1), executor.submit(int, "x"), executor.submit(a_set)
    assert two.result() == 2
    assert isinstance(broken.exception(), ValueError)
    assert isinstance(unfit.exception(), ResultError)


def test_keyword_arguments_are_passed(played: Played) -> None:
    with Executor(played) as executor:
        assert executor.submit(int, "11", base=2).result(PATIENCE_S) == 3


def test_a_map_is_one_batch_whose_function_travels_once(played: Played) -> None:
    with Executor(played) as executor:
        assert list(executor.map(double, range(1000))) == list(range(0, 2000, 2))
    (spec,) = played.specs
    payload = spec["payload"]
    assert (payload["start"], payload["stop"], payload["max_hits"], payload["uneven"]) == (0, 1000, 1000, True)
    assert (payload["snapshot"], spec["name"]) == (played.sent[0].digest, "double")
    assert len(played.functions) == 1


def test_a_loop_of_submissions_is_gathered(played: Played) -> None:
    with Executor(played) as executor:
        made = [executor.submit(double, at) for at in range(200)]
        assert [future.result(PATIENCE_S) for future in made] == list(range(0, 400, 2))
    assert len(played.specs) < 100


def test_arguments_are_those_of_the_moment_of_submission(played: Played) -> None:
    played.gate.clear()
    with Executor(played) as executor:
        items = [1]
        future = executor.submit(len, items)
        items.append(2)
        played.gate.set()
        assert future.result(PATIENCE_S) == 1


def test_what_cannot_be_pickled_is_the_exception_of_its_future_alone(played: Played) -> None:
    with Executor(played) as executor:
        bad, good = executor.submit(repr, threading.Lock()), executor.submit(double, 2)
        assert isinstance(bad.exception(PATIENCE_S), TypeError)
        assert good.result(PATIENCE_S) == 4
        assert [type(each.exception()) for each in [executor.submit(threading.Lock().acquire)]] == [TypeError]


def test_a_call_that_is_too_large_is_refused_with_the_bound(played: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_batches, "CALL_BYTES", 1000)
    with Executor(played) as executor:
        error = executor.submit(len, b"x" * 2000).exception(PATIENCE_S)
    assert isinstance(error, UsageError)
    assert "at most 1000" in str(error)


@pytest.mark.parametrize(("bound", "value"), [("BATCH_BYTES", 500), ("CALLS_MAX", 10)])
def test_many_calls_are_several_batches(
    played: Played, monkeypatch: pytest.MonkeyPatch, bound: str, value: int
) -> None:
    monkeypatch.setattr(call_batches, bound, value)
    with Executor(played) as executor:
        assert list(executor.map(double, range(100))) == list(range(0, 200, 2))
    assert len(played.specs) > 3


def test_a_future_can_be_cancelled_until_it_is_sent(played: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "QUIET_S", 3600.0)
    monkeypatch.setattr(module, "GATHER_S", 3600.0)
    monkeypatch.setattr(module, "LONGEST_GATHER_S", 3600.0)
    executor = Executor(played)
    first, second = executor.submit(double, 1), executor.submit(double, 2)
    assert first.cancel()
    executor.shutdown()
    assert second.result(PATIENCE_S) == 4
    assert not second.cancel()
    assert first.cancelled()
    assert [len(calls) for calls in played.calls.values()] == [1]


def test_at_most_max_workers_calls_are_out(played: Played) -> None:
    with Executor(played, max_workers=3) as executor:
        assert list(executor.map(double, range(10))) == list(range(0, 20, 2))
    assert max(spec["payload"]["stop"] for spec in played.specs) == 3


def test_a_controller_that_is_away_is_waited_for_and_the_batch_is_one_job(played: Played) -> None:
    away = [None, LinkLost("cut"), ControllerAbsent("gone"), None, LinkLost("cut"), None, LinkLost("cut"), None, None]
    played.troubles = iter([*away, LinkLost("cut"), ControllerAbsent("gone")])
    with Executor(played) as executor:
        assert executor.submit(double, 4).result(PATIENCE_S) == 8
    assert len(played.specs) == 1


def test_a_controller_that_stays_away_is_the_exception(played: Played) -> None:
    with Executor(played, away_s=0.01) as executor:
        assert executor.submit(double, 4).result(PATIENCE_S) == 8
        played.troubles = itertools.repeat(ControllerAbsent("gone"))
        assert isinstance(executor.submit(double, 4).exception(PATIENCE_S), ControllerAbsent)


@pytest.mark.parametrize("error", [ControllerAbsent("gone"), LinkLost("cut"), LinkRefused("no controller")])
def test_a_controller_that_never_answered_is_not_waited_for(played: Played, error: HostlerError) -> None:
    played.troubles = iter([error, error])
    with Executor(played) as executor:
        assert executor.submit(double, 1).exception(PATIENCE_S) is error
        played.troubles = iter(())
        assert executor.submit(double, 4).result(PATIENCE_S) == 8


def test_no_files_are_sent_to_a_controller_that_never_answered(played: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sending tries for half a minute; it must not even begin."""
    monkeypatch.setattr(played, "status", partial(_raise, ControllerAbsent("gone")))
    monkeypatch.setattr(played, "send_snapshot", lambda _: pytest.fail("sent"))
    with Executor(played) as executor:
        assert isinstance(executor.submit(double, 4).exception(PATIENCE_S), ControllerAbsent)


def test_an_executor_without_a_client_does_not_wait_for_a_controller(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("HOSTLER_URL", raising=False)
    monkeypatch.setenv("HOSTLER_STATE_DIR", str(tmp_path))
    with Executor() as executor:
        assert isinstance(executor.submit(double, 4).exception(PATIENCE_S), ControllerAbsent)


def test_a_controller_that_stands_by_is_waited_for(played: Played) -> None:
    played.troubles = iter([StandsBy("another one leads"), ControllerAbsent("gone"), StandsBy("another one leads")])
    with Executor(played) as executor:
        assert executor.submit(double, 4).result(PATIENCE_S) == 8


def _raise(error: BaseException) -> None:
    raise error


def a_note(why: str, job: str, *, fits: bool = False) -> Json:
    return {"job": job, "count": 1, "fits": fits, "why": why}


def test_a_batch_that_no_device_can_take_is_a_warning_once_for_each_reason(
    played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    warned: list[str] = []
    kinds: set[object] = set()

    def warn(message: str, category: type[Warning], filename: str, lineno: int) -> None:
        warned.append(message)
        kinds.add(category)

    monkeypatch.setattr("warnings.warn_explicit", warn)
    whys = ["no node has a GPU", "no node has a GPU", "node1 is drained"]
    played.notes = lambda job: [a_note(whys[int(job[1:])], job)]
    with Executor(played) as executor:
        for _ in whys:
            executor.submit(double, 1).result(PATIENCE_S)
    assert warned == ["j0 fits on no device: no node has a GPU", "j2 fits on no device: node1 is drained"]
    assert kinds == {HostlerWarning}


def test_warning_points_to_the_line_that_submitted(played: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    found = list[tuple[str, int]]()
    monkeypatch.setattr("warnings.warn_explicit", lambda text, category, *line: found.append(line))
    played.notes = lambda job: [a_note("no node has a GPU", job)]
    with Executor(played) as executor:
        executor.submit(double, 1).result(PATIENCE_S)
    (at,) = found
    assert at[0] == __file__
    assert "executor.submit(double, 1)" in Path(__file__).read_text().splitlines()[at[1] - 1]


def test_a_warning_that_is_made_an_error_ends_its_batch(played: Played) -> None:
    played.gate.clear()
    played.notes = lambda job: [a_note("no node has a GPU", job)]
    with Executor(played) as executor:  # pytest makes errors of warnings
        assert isinstance(executor.submit(double, 1).exception(PATIENCE_S), HostlerWarning)
        assert played.cancelled == ["j0"]
        played.gate.set()
        assert executor.submit(double, 4).result(PATIENCE_S) == 8


@pytest.mark.parametrize("ends", ["value", "exception", "refused", "cancelled"])
def test_a_callback_that_ends_an_interpreter_ends_no_executor(
    played: Played, ends: str, caplog: pytest.LogCaptureFixture
) -> None:
    executor = Executor(played)
    played.gate.clear()
    if ends == "refused":
        played.troubles = iter([None, UsageError("no such resource")])
    with executor._changed:  # nothing is sent before the callback is there
        future = executor.submit(*((int, "x") if ends == "exception" else (double, 1)))
        future.add_done_callback(lambda _: _raise(SystemExit(3)))
    if ends == "cancelled":
        executor.shutdown(cancel_futures=True)
        assert future.done()
    else:
        played.gate.set()
        futures.wait([future], PATIENCE_S)
        assert executor.submit(double, 4).result(PATIENCE_S) == 8
        executor.shutdown()
    assert "SystemExit: 3" in caplog.text


def test_a_refused_batch_is_the_exception_of_all_its_calls(played: Played) -> None:
    played.troubles = iter([None, UsageError("no such resource")])
    with Executor(played) as executor:
        found = [each.exception(PATIENCE_S) for each in [executor.submit(double, at) for at in range(3)]]
        assert executor.submit(double, 4).result(PATIENCE_S) == 8
    assert any("no such resource" in str(error) for error in found)


@pytest.mark.parametrize(("state", "words"), [("failed", "j0 failed: no device"), ("cancelled", "j0 was cancelled")])
def test_a_batch_that_ends_without_all_results_fails_the_rest(
    played: Played, state: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "QUIET_S", 3600.0)
    monkeypatch.setattr(module, "GATHER_S", 3600.0)
    monkeypatch.setattr(module, "LONGEST_GATHER_S", 3600.0)
    played.gate.clear()
    executor = Executor(played)
    made = [executor.submit(double, at) for at in range(3)]
    executor.shutdown(wait=False)  # sends what is gathered
    while not played.states:
        made[0].cancelled()
    played.given["j0"] = [run(0, lambda: 7)]
    played.states["j0"] = (state, "no device" if state == "failed" else None)
    assert made[0].result(PATIENCE_S) == 7
    for future in made[1:]:
        error = future.exception(PATIENCE_S)
        assert isinstance(error, CallFailed)
        assert words in str(error)
    executor.shutdown()


def test_hits_that_make_no_sense_harm_nothing(played: Played) -> None:
    played.gate.clear()
    with Executor(played) as executor:
        future = executor.submit(double, 1)
        while not played.states:
            future.cancelled()
        played.given["j0"] = [{"at": 7, "value": "1"}, {"at": 0, "value": "2"}, {"at": 0, "value": "3"}]
        assert future.result(PATIENCE_S) == 2


def test_large_results_are_read_in_short_pages(played: Played) -> None:
    with Executor(played) as executor:
        assert sum(map(len, executor.map(lambda at: "x" * (3 << 20), range(20)))) == 60 << 20
    assert max(played.pages) <= module.FIRST_PAGE


def test_shutdown_cancels_what_is_out_if_asked_to(played: Played) -> None:
    played.gate.clear()
    executor = Executor(played)
    out = executor.submit(double, 1)
    while not played.states:
        out.cancelled()
    executor.shutdown(cancel_futures=True)
    with pytest.raises(futures.CancelledError):
        out.result(PATIENCE_S)
    assert played.cancelled == ["j0"]


def test_shutdown_cancels_what_is_not_sent(played: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "QUIET_S", 3600.0)
    monkeypatch.setattr(module, "GATHER_S", 3600.0)
    monkeypatch.setattr(module, "LONGEST_GATHER_S", 3600.0)
    executor = Executor(played)
    future = executor.submit(double, 1)
    executor.shutdown(cancel_futures=True)
    assert future.cancelled()
    assert played.specs == []


def test_nothing_is_accepted_after_shutdown(played: Played) -> None:
    executor = Executor(played)
    executor.shutdown()
    with pytest.raises(RuntimeError, match="after shutdown"):
        executor.submit(double, 1)


def test_an_idle_executor_keeps_no_thread(played: Played) -> None:
    executor = Executor(played)
    for _ in range(2):
        executor.submit(double, 1).result(PATIENCE_S)
        thread = executor._thread
        if thread is not None:
            thread.join(PATIENCE_S)
        assert executor._thread is None


def test_calls_of_several_threads_come_back_to_each(played: Played) -> None:
    found: dict[int, list[int]] = {}
    with Executor(played) as executor:

        def use(base: int) -> None:
            found[base] = [executor.submit(double, base + at).result(PATIENCE_S) for at in range(5)]

        threads = [threading.Thread(target=use, args=(base,)) for base in range(0, 800, 100)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found == {base: [2 * (base + at) for at in range(5)] for base in range(0, 800, 100)}


def test_a_map_with_a_buffer_reads_its_arguments_as_its_values_are_read(played: Played) -> None:
    taken: list[int] = []

    def counted() -> Iterator[int]:
        for at in itertools.count():
            taken.append(at)
            yield at

    with Executor(played) as executor:
        values = executor.map(double, counted(), buffersize=3)
        assert [next(values) for _ in range(5)] == [0, 2, 4, 6, 8]
        assert len(taken) == 3 + 5
        values.close()  # type: ignore[attr-defined]


def test_a_map_stops_at_its_shortest_arguments_and_raises_in_order(played: Played) -> None:
    with Executor(played) as executor:
        assert list(executor.map(pow, [2, 3], itertools.count(2))) == [4, 27]
        values = executor.map(int, ["1", "x", "2"])
        assert next(values) == 1
        with pytest.raises(ValueError, match="invalid literal"):
            next(values)


def test_a_map_has_a_timeout(played: Played) -> None:
    played.gate.clear()
    executor = Executor(played)
    with pytest.raises(TimeoutError):
        next(executor.map(double, [1], timeout=0.05))
    executor.shutdown(cancel_futures=True)


@pytest.mark.parametrize(
    ("options", "resources"),
    [
        ({}, {}),
        ({"gpus": 1}, {"device": "gpu"}),
        ({"gpus": 0}, {"device": "cpu"}),
        ({"device": "any", "resources": {"vram_gb": 8}}, {"device": "any", "vram_gb": 8}),
    ],
)
def test_options_become_resources(played: Played, options: Json, resources: Json) -> None:
    with Executor(played, **options, name="mine", priority=3, python="/env/bin/python") as executor:
        executor.submit(double, 1)
    (spec,) = played.specs
    assert (spec["resources"], spec["name"], spec["priority"]) == (resources, "mine", 3)
    assert spec["payload"]["worker"] == ["/env/bin/python", "hostler-calls/worker.py"]


@pytest.mark.parametrize("options", [{"gpus": 2}, {"gpus": 1, "device": "cpu"}, {"device": "tpu"}, {"max_workers": 0}])
def test_options_that_contradict_each_other_are_refused(played: Played, options: Json) -> None:
    with pytest.raises(UsageError):
        Executor(played, **options)


@pytest.mark.parametrize("count", [0, -1, True, "3", 2.0, 1.5])
def test_max_workers_is_a_whole_number(played: Played, count: Any) -> None:
    with pytest.raises(UsageError, match="max_workers"):
        Executor(played, max_workers=count)


def paths_of(snapshot: FolderSnapshot) -> list[str]:
    return [file.path for file in snapshot.manifest.files if not file.path.startswith(f"{FOLDER}/")]


@pytest.mark.parametrize("by", ["itself", "link"])
def test_the_state_directory_of_the_controller_is_not_sent(played: Played, tmp_path: Path, by: str) -> None:
    project = tmp_path / "project"
    state = project / "state"
    state.mkdir(parents=True)
    for path in (state / "token", state / "journal.db", project / "mine.py"):
        path.write_text("x")
    (tmp_path / "link").symlink_to(project)
    played._home = state if by == "itself" else tmp_path / "link" / "state"
    with Executor(played, cwd=project) as executor:
        executor.submit(double, 1).result(PATIENCE_S)
    assert paths_of(played.sent[0]) == ["mine.py"]


def test_the_state_directory_itself_cannot_be_the_folder(played: Played, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("x")
    played._home = tmp_path
    with Executor(played, cwd=tmp_path) as executor:
        error = executor.submit(double, 1).exception(PATIENCE_S)
    assert isinstance(error, UsageError)
    assert played.sent == []


async def test_an_async_executor_knows_the_state_directory_of_its_client(tmp_path: Path) -> None:
    from hostler.client.awaited import AsyncClient

    async with AsyncClient.from_state_dir(tmp_path) as client:
        plain = AsyncExecutor(client)._executor._client
    assert plain is not None
    assert plain._home == tmp_path


class Changing(Played):
    """A controller that lacks the project's file, which changes while it is sent, so many times."""

    def __init__(self, path: Path, changes: int, error: Exception) -> None:
        super().__init__()
        self.path, self.changes, self.error = path, changes, error

    def send_snapshot(self, snapshot: FolderSnapshot, sent: Any = None) -> str:
        if self.changes:
            self.changes -= 1
            self.path.write_text(f"VALUE = {self.changes}")
            raise self.error
        return super().send_snapshot(snapshot, sent)


@pytest.mark.parametrize("error", [FilesChanged("mine.py changed"), FileNotFoundError(2, "gone", "other.py")])
def test_a_folder_that_changes_while_it_is_sent_is_read_again(tmp_path: Path, error: Exception) -> None:
    path = tmp_path / "mine.py"
    path.write_text("VALUE = 9")
    changing = Changing(path, 3, error)
    with Executor(changing, cwd=tmp_path) as executor:
        assert executor.submit(double, 1).result(PATIENCE_S) == 2
        (found,) = [file for file in changing.sent[0].manifest.files if file.path == "mine.py"]
        assert found.sha256 == hashlib.sha256(b"VALUE = 0").hexdigest()
        changing.changes = 1  # of a folder that was sent before, and that the controller has no more
        assert executor.submit(double, 2).result(PATIENCE_S) == 4


def test_a_folder_that_changes_without_end_fails_its_batch_alone(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text("VALUE = 9")
    changing = Changing(path, 4, FilesChanged("mine.py changed"))
    with Executor(changing, cwd=tmp_path) as executor:
        assert isinstance(executor.submit(double, 1).exception(PATIENCE_S), FilesChanged)
        assert executor.submit(double, 1).result(PATIENCE_S) == 2
    assert len(changing.sent) == 1


def test_the_files_of_a_folder_travel_with_the_calls(played: Played, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("VALUE = 1")
    with Executor(played, cwd=tmp_path) as executor:
        executor.submit(double, 1).result(PATIENCE_S)
    (snapshot,) = played.sent
    paths = [file.path for file in snapshot.manifest.files]
    assert "mine.py" in paths
    assert {f"{FOLDER}/worker.py", f"{FOLDER}/calls.pkl", f"{FOLDER}/cloudpickle/cloudpickle.py"} <= set(paths)
    missing = {file.sha256: 0 for file in snapshot.manifest.files if file.path == "mine.py"}
    assert [source.path for source in snapshot.sources(missing)] == [tmp_path / "mine.py"]


def test_a_large_folder_is_refused_before_it_is_read(
    played: Played, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (tmp_path / "weights.bin").open("wb") as file:
        file.truncate(LARGE_BYTES + 1)
    read: list[object] = []
    digest = hashlib.file_digest
    monkeypatch.setattr(
        hashlib, "file_digest", lambda file, *more: (read.append(Path(file.name).name), digest(file, *more))[1]
    )
    with Executor(played, cwd=tmp_path) as executor:
        error = executor.submit(double, 1).exception(PATIENCE_S)
    assert isinstance(error, UsageError)
    assert "1.0 GB" in str(error)
    assert "allow_large=True" in str(error)
    assert (played.sent, "weights.bin" in read) == ([], False)
    (tmp_path / "weights.bin").unlink()
    with Executor(played, cwd=tmp_path, allow_large=True) as executor:
        assert executor.submit(double, 1).result(PATIENCE_S) == 2


def test_a_folder_with_the_name_of_the_calls_is_refused(played: Played, tmp_path: Path) -> None:
    (tmp_path / FOLDER).mkdir()
    (tmp_path / FOLDER / "mine.py").touch()
    with Executor(played, cwd=tmp_path) as executor:
        error = executor.submit(double, 1).exception(PATIENCE_S)
    assert "Rename it" in str(error)


def test_nothing_is_left_in_the_temporary_folder(
    played: Played, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with Executor(played) as executor:
        executor.submit(double, 1).result(PATIENCE_S)
    assert os.listdir(tmp_path) == []


async def test_an_async_executor_awaits_calls_and_iterates_over_maps(played: Played) -> None:
    async with AsyncExecutor(played) as executor:
        assert await executor.submit(double, 1) == 2
        with pytest.raises(ValueError, match="invalid literal"):
            await executor.submit(int, "x")
        assert [value async for value in executor.map(double, range(5))] == [0, 2, 4, 6, 8]


async def test_an_async_executor_cancels_at_shutdown(played: Played) -> None:
    played.gate.clear()
    executor = AsyncExecutor(played)
    future = executor.submit(double, 1)
    while not played.states:
        future.cancelled()
    await executor.shutdown(cancel_futures=True)
    with pytest.raises(asyncio.CancelledError):
        await future
