"""Function calls on real fleets: results, exceptions, arrays, refusals, and each result exactly once over kills."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent import futures
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

from hostler.client.call_errors import CallFailed, RemoteError, ResultError, WorkerDied
from hostler.client.calls import RECONNECT_S
from hostler.client.executor import AsyncExecutor, Executor
from hostler.client.jobs import HostlerWarning
from hostler.client.plain import Client
from hostler.model.errors import ControllerAbsent
from tests.integration.conftest import START_S, Fleet, a_fleet, until
from tests.integration.test_snapshots import by_dial_in, over_ssh
from tests.patience import PATIENCE_S


@pytest.fixture(scope="module", autouse=True)
def by_value() -> Iterator[None]:
    """Functions of this module travel whole: nodes cannot import the tests."""
    here = sys.modules[__name__]
    cloudpickle.register_pickle_by_value(here)
    yield
    cloudpickle.unregister_pickle_by_value(here)


@pytest.fixture(scope="module")
def two_slots(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with a_fleet(tmp_path_factory.mktemp("fleet"), nodes=[node()]) as made:
        made.start()
        yield made


@pytest.fixture
def executor(two_slots: Fleet) -> Iterator[Executor]:
    with Executor(two_slots.client) as made:
        yield made


def node(name: str = "here", slots: int = 2, python: str = sys.executable) -> dict[str, Any]:
    return {"name": name, "cpu_slots": slots, "gpus": "none", "python": python}


def double(value: Any) -> Any:
    return value * 2


def fail(text: str) -> None:
    raise ValueError(text)


def mark(path: str, gate: str | None = None) -> str:
    """Leave a line for each run; wait for a gate."""
    with open(path, "a") as file:
        file.write(f"{os.getpid()}\n")
    while gate is not None and not os.path.exists(gate):
        time.sleep(0.02)
    return path


def lines(path: Path) -> int:
    return len(path.read_text().splitlines()) if path.exists() else 0


def test_calls_return_their_values_in_order(executor: Executor) -> None:
    assert executor.submit(double, 21).result(PATIENCE_S) == 42
    assert list(executor.map(double, range(300), timeout=PATIENCE_S)) == list(range(0, 600, 2))
    assert executor.submit(double, ("a", {1: b"x"})).result(PATIENCE_S) == ("a", {1: b"x"}, "a", {1: b"x"})


def test_exceptions_come_back_with_the_traceback_of_the_node(executor: Executor) -> None:
    error = executor.submit(fail, "too bad").exception(PATIENCE_S)
    assert (type(error), str(error)) == (ValueError, "too bad")
    assert error is not None
    assert "raise ValueError(text)" in str(error.__cause__)


def test_arrays_come_back_without_trust(executor: Executor) -> None:
    numpy = pytest.importorskip("numpy")
    back = executor.submit(double, numpy.arange(5, dtype="f4")).result(PATIENCE_S)
    assert (back.dtype, back.tolist()) == (numpy.float32, [0, 2, 4, 6, 8])


def test_other_results_need_trust(executor: Executor, two_slots: Fleet) -> None:
    error = executor.submit(set, [1]).exception(PATIENCE_S)
    assert isinstance(error, ResultError)
    assert "builtins.set" in str(error)
    assert "trust=True" in str(error)
    with Executor(two_slots.client, trust=True) as trusting:
        assert trusting.submit(set, [1]).result(PATIENCE_S) == {1}
        lock = trusting.submit(lambda: threading.Lock()).exception(PATIENCE_S)
        assert isinstance(lock, ResultError)


def test_a_call_that_ends_its_process_fails_alone(executor: Executor) -> None:
    calls: list[Callable[[], Any]] = [lambda: 1, lambda: os._exit(5), lambda: os.kill(os.getpid(), 11), lambda: 4]
    found = [executor.submit(call) for call in calls]
    assert [found[at].result(PATIENCE_S) for at in (0, 3)] == [1, 4]
    assert "exit status 5" in str(found[1].exception(PATIENCE_S))
    error = found[2].exception(PATIENCE_S)
    assert isinstance(error, WorkerDied)
    assert "SIGSEGV" in str(error)


def test_a_call_that_ends_the_whole_worker_fails_alone(executor: Executor) -> None:
    calls: list[Callable[[], Any]] = [lambda: 1, lambda: os.killpg(0, signal.SIGKILL), lambda: 3]
    found = [executor.submit(call) for call in calls]
    assert [found[at].result(PATIENCE_S) for at in (0, 2)] == [1, 3]
    assert isinstance(found[1].exception(PATIENCE_S), WorkerDied)


def test_a_worker_that_is_killed_costs_no_result(executor: Executor, tmp_path: Path) -> None:
    marks, gate = tmp_path / "marks", tmp_path / "gate"
    future = executor.submit(mark, str(marks), str(gate))
    until(lambda: lines(marks) == 1, "the call")
    os.kill(int(marks.read_text()), signal.SIGKILL)
    until(lambda: lines(marks) == 2, "its second try")
    gate.touch()
    assert future.result(PATIENCE_S) == str(marks)


def test_the_files_of_a_folder_can_be_imported_and_read(two_slots: Fleet, tmp_path: Path) -> None:
    (tmp_path / "of_mine.py").write_text("def answer(): return 42")
    (tmp_path / "data.txt").write_text("data")
    with Executor(two_slots.client, cwd=tmp_path) as executor:
        found = executor.submit(lambda: (__import__("of_mine").answer(), Path("data.txt").read_text()))
        assert found.result(PATIENCE_S) == (42, "data")
    with Executor(two_slots.client) as executor:
        error = executor.submit(lambda: __import__("of_mine")).exception(PATIENCE_S)
    assert isinstance(error, ModuleNotFoundError)


def test_the_state_directory_is_not_sent_with_the_folder_that_has_it(two_slots: Fleet) -> None:
    folder = two_slots.state.parent
    (folder / "of_mine.txt").touch()
    with Executor(two_slots.client, cwd=folder) as executor:
        found = executor.submit(os.listdir).result(PATIENCE_S)
    assert "of_mine.txt" in found
    assert two_slots.state.name not in found


class TwoArguments(Exception):
    """An exception whose pickle cannot be read."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(first)
        self.second = second


def fail_with_two(text: str) -> None:
    raise TwoArguments(text, "more")


def test_a_trusted_exception_that_cannot_be_unpickled_says_what_happened(two_slots: Fleet) -> None:
    with Executor(two_slots.client, trust=True) as trusting:
        error = trusting.submit(fail_with_two, "the reason").exception(PATIENCE_S)
    assert type(error) is RemoteError
    assert str(error).endswith("TwoArguments: the reason")
    assert "raise TwoArguments(text" in str(error.__cause__)


def test_a_batch_that_no_device_can_take_is_a_warning(two_slots: Fleet) -> None:
    executor = Executor(two_slots.client, resources={"nodes": ["nowhere"]})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        future = executor.submit(double, 1)
        until(lambda: caught or future.done(), "the warning")
        executor.shutdown(cancel_futures=True)
    assert [each.category for each in caught] == [HostlerWarning]
    assert "fits on no device" in str(caught[0].message)
    assert future.done()


def test_nobody_is_waited_for_where_no_controller_ever_was(tmp_path: Path) -> None:
    with Executor(Client.from_state_dir(tmp_path)) as executor:
        begun = time.monotonic()
        assert isinstance(executor.submit(double, 1).exception(PATIENCE_S), ControllerAbsent)
        assert time.monotonic() - begun < sum(RECONNECT_S)


def test_a_map_with_a_buffer_reads_on_as_its_values_are_read(executor: Executor) -> None:
    values = executor.map(double, itertools.count(), buffersize=4)
    assert [next(values) for _ in range(6)] == [0, 2, 4, 6, 8, 10]
    values.close()  # type: ignore[attr-defined]


def test_calls_of_several_threads_come_back_to_each(executor: Executor) -> None:
    with futures.ThreadPoolExecutor(4) as threads:
        found = threads.map(lambda base: [*executor.map(double, range(base, base + 20))], range(0, 80, 20))
    assert list(itertools.chain(*found)) == list(range(0, 160, 2))


async def test_an_async_executor_awaits_its_calls(two_slots: Fleet) -> None:
    async with AsyncExecutor(two_slots.client) as executor:
        assert await executor.submit(double, 3) == 6
        assert [value async for value in executor.map(double, "abc")] == ["aa", "bb", "cc"]


def test_shutdown_with_cancel_ends_what_runs(two_slots: Fleet, tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    executor = Executor(two_slots.client)
    found = [executor.submit(mark, str(marks), str(tmp_path / "never")) for _ in range(4)]
    until(lambda: lines(marks) == 2, "two calls")
    executor.shutdown(cancel_futures=True)
    assert all(isinstance(each.exception(PATIENCE_S), futures.CancelledError) for each in found if not each.cancelled())
    until(lambda: not alive(marks), "the end of the calls")
    jobs = two_slots.client.jobs(limit=1000, called="mark")
    until(lambda: two_slots.job(jobs[-1]["id"])["state"] == "cancelled", "the sweep's end")


def alive(marks: Path) -> list[int]:
    return [int(pid) for pid in marks.read_text().split() if os.path.exists(f"/proc/{pid}/root")]


def test_a_batch_that_is_cancelled_elsewhere_says_so(two_slots: Fleet, executor: Executor, tmp_path: Path) -> None:
    future = executor.submit(mark, str(tmp_path / "marks"), str(tmp_path / "never"))
    until(lambda: lines(tmp_path / "marks"), "the call")
    job = two_slots.client.jobs(limit=1000, called="mark")[-1]["id"]
    two_slots.client.cancel(job, "not needed any more")
    error = future.exception(PATIENCE_S)
    assert isinstance(error, CallFailed)
    assert "not needed any more" in str(error)


def test_a_killed_controller_loses_no_call_and_accepts_each_once(tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()
    with a_fleet(tmp_path, nodes=[node()]) as fleet, Executor(fleet.client) as executor:
        fleet.start()
        gate = tmp_path / "gate"
        found = [executor.submit(mark, str(marks / str(at)), str(gate) if at % 8 == 0 else None) for at in range(40)]
        until(lambda: any(marks.iterdir()), "the first call")
        fleet.kill()
        found += [executor.submit(mark, str(marks / str(at))) for at in range(40, 50)]
        gate.touch()
        fleet.start()
        assert [each.result(START_S) for each in found] == [str(marks / str(at)) for at in range(50)]
        executor.shutdown()
        for job in fleet.client.all_jobs():
            fleet.state_of(job["id"], "done")
            hits = [hit["at"] for hit in fleet.client.hits(job["id"])]
            assert sorted(hits) == list(range(len(hits)))
            assert fleet.client.proof(job["id"])["hits"] == len(hits)
    assert {lines(path) for path in marks.iterdir()} == {1}, "the agent outlives the controller: no call ran twice"


class Trace:
    """Leaves a trace where it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def __reduce__(self) -> tuple[Any, ...]:
        return open, (self.path, "w")


def other_python() -> str:
    """A Python of another minor version that workers can run with."""
    names = [f"python3.{minor}" for minor in range(8, 16)]
    found = [path for path in map(shutil.which, names) if path]
    found += map(str, sorted(Path.home().glob(".pyenv/versions/3.*/bin/python")))
    for path in found:
        code = "import sys, json; print(json.dumps(sys.version_info[:2]))"
        asked = subprocess.run([path, "-c", code], capture_output=True, check=False)
        if asked.returncode == 0 and [3, 8] <= json.loads(asked.stdout) != list(sys.version_info[:2]):
            return path
    pytest.skip("no Python of another minor version is installed")


def test_another_python_refuses_before_anything_is_unpickled(tmp_path: Path) -> None:
    """Where no node fits, the futures have the refusal; where one does, it runs all calls."""
    python, trace = other_python(), tmp_path / "trace"
    with a_fleet(tmp_path, nodes=[node("old", python=python)]) as fleet:
        fleet.start()
        with Executor(fleet.client) as executor:
            errors = [executor.submit(double, Trace(trace)).exception(START_S), executor.submit(double, 1).exception()]
        for error in errors:
            assert isinstance(error, CallFailed)
            assert f"cpython {sys.version_info[0]}.{sys.version_info[1]}" in str(error)
            assert python in str(error)
            assert "Set `python:` of the node" in str(error)
        assert not trace.exists()
        fleet.kill()
        fleet.settle(nodes=[node("old", python=python), node("right", slots=1)])
        fleet.start()
        with Executor(fleet.client) as executor:
            assert list(executor.map(double, range(50), timeout=START_S)) == list(range(0, 100, 2))
            assert executor.submit(os.getpid).result(START_S) > 1


@pytest.fixture(params=[over_ssh, pytest.param(by_dial_in, marks=pytest.mark.services)], ids=["ssh", "dial-in"])
def far(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Fleet]:
    with ExitStack() as stack:
        yield request.param(stack, tmp_path)


def test_calls_run_on_nodes_elsewhere_with_their_files(far: Fleet, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "of_mine.py").write_text("class OwnError(Exception): pass\ndef go(): raise OwnError('own')")
    with Executor(far.client, cwd=project, python=sys.executable) as executor:
        assert list(executor.map(double, range(100), timeout=START_S)) == list(range(0, 200, 2))
        error = executor.submit(lambda: __import__("of_mine").go()).exception(START_S)
        died = executor.submit(os._exit, 1).exception(START_S)
    assert isinstance(error, RemoteError)
    assert str(error) == "of_mine.OwnError: own"
    assert isinstance(died, WorkerDied)
