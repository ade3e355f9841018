"""The worker of function calls as a process, spoken to as the agent does."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

from hostler.client.call_batches import FOLDER, PickledCall, params_of, pickler, write_batch
from hostler.workloads.calls import worker as worker_module
from tests.patience import PATIENCE_S

Json = dict[str, Any]


class Worker:
    """A worker process, and what it has answered."""

    def __init__(self, folder: Path, params: Json, python: str = sys.executable) -> None:
        self.params = params
        text = json.dumps(params, sort_keys=True, separators=(",", ":"))
        self.digest = hashlib.sha256(text.encode()).hexdigest()
        with (folder / "err").open("wb") as log:
            self.process = subprocess.Popen(
                [python, f"{FOLDER}/worker.py"],
                cwd=folder,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )
        self.say({"type": "open", "digest": self.digest, "params": params})

    def say(self, request: Json) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(request).encode() + b"\n")
        self.process.stdin.flush()

    def answer(self) -> Json:
        """The next line that is no checkpoint."""
        while (found := self.line())["type"] == "checkpoint":
            pass
        return found

    def line(self) -> Json:
        assert self.process.stdout is not None
        return dict(json.loads(self.process.stdout.readline()))

    def results(self, start: int, stop: int) -> list[Json]:
        """The hits of a chunk that is not parted."""
        self.say({"type": "chunk", "id": f"c.{start}", "start": start, "stop": stop})
        done = self.answer()
        assert (done["type"], done["start"], done["stop"], done["digest"]) == ("done", start, stop, self.digest)
        assert [hit["at"] for hit in done["hits"]] == list(range(start, stop))
        return list(done["hits"])

    def end(self) -> int:
        """Its exit status at the end of its input."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(PATIENCE_S)

    def clean_up(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(PATIENCE_S)
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            if not pipe.closed:
                try:
                    pipe.close()
                except BrokenPipeError:
                    continue


Start = Callable[..., Worker]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a worker for calls: a function with its arguments each."""
    started: list[Worker] = []

    def begin(
        *calls: tuple[Any, ...], trust: bool = False, by: str = sys.executable, params: Json | None = None
    ) -> Worker:
        dumps = pickler()
        made = [PickledCall(dumps(function), dumps((arguments, {}))) for function, *arguments in calls]
        digest = write_batch(tmp_path / FOLDER, made)
        started.append(Worker(tmp_path, {**params_of(len(calls), trust, digest), **(params or {})}, by))
        return started[-1]

    here = sys.modules[__name__]
    cloudpickle.register_pickle_by_value(here)  # the worker cannot import the tests
    yield begin
    cloudpickle.unregister_pickle_by_value(here)
    for each in started:
        each.clean_up()


def opened(worker: Worker) -> Worker:
    assert worker.line() == {"type": "opened", "digest": worker.digest, "trims": True, "ahead": False}
    return worker


def values(hits: Sequence[Json]) -> list[Any]:
    return [json.loads(hit["value"]) for hit in hits]


def test_calls_are_run_in_order_and_their_values_come_back(start: Start) -> None:
    worker = opened(start(*((lambda a, b=2: a * b, at) for at in range(10))))
    assert values(worker.results(0, 4)) == [0, 2, 4, 6]
    assert values(worker.results(4, 10)) == [8, 10, 12, 14, 16, 18]
    assert worker.end() == 0


def test_calls_of_a_chunk_share_one_warm_process_that_is_not_the_one_that_speaks(start: Start) -> None:
    worker = opened(start(*((os.getpid,) for _ in range(5))))
    pids = set(values([*worker.results(0, 2), *worker.results(2, 5)]))
    assert len(pids) == 1
    assert worker.process.pid not in pids


def test_what_calls_print_is_no_answer(start: Start, tmp_path: Path) -> None:
    worker = opened(start((print, "printed"), (os.system, "echo shelled")))
    assert values(worker.results(0, 2)) == [None, 0]
    assert worker.end() == 0
    assert (tmp_path / "err").read_text().split() == ["printed", "shelled"]


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        ({"a": [1, 2.5, None, True, "ü\ud800"]}, {"a": [1, 2.5, None, True, "ü\ud800"]}),
        ((1, [2]), {"$": ["tuple", [1, [2]]]}),
        ({1: "a"}, {"$": ["dict", [[1, "a"]]]}),
        ({"$": 1}, {"$": ["dict", [["$", 1]]]}),
        (b"\x00\xff", {"$": ["bytes", "AP8="]}),
        (1 + 2j, {"$": ["complex", [1.0, 2.0]]}),
        (2**200, 2**200),
    ],
)
def test_values_are_encoded_without_loss(value: Any, encoded: Any) -> None:
    assert json.loads(json.dumps(worker_module.encode(value))) == encoded


def test_arrays_travel_as_dtype_shape_and_bytes(start: Start) -> None:
    numpy = pytest.importorskip("numpy")
    worker = opened(start((numpy.arange, 3), (lambda: numpy.float32(1.5),)))
    array, scalar = values(worker.results(0, 2))
    assert array["$"][:3] == ["array", "<i8", [3]]
    assert base64.b64decode(array["$"][3]) == numpy.arange(3).tobytes()
    assert scalar["$"][:3] == ["scalar", "<f4", []]


class Odd:
    """A type that JSON does not have."""


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (Odd, "Odd"),
        (lambda: [{1}], "set"),
        (lambda: __import__("numpy").array([None]), "dtype object"),
        (lambda: __import__("collections").OrderedDict(), "OrderedDict"),
        (lambda: "x" * (5 << 20), "at most 4194304"),
    ],
)
def test_a_result_that_cannot_be_sent_names_its_type_and_the_remedy(
    start: Start, made: Callable[[], Any], words: str
) -> None:
    (hit,) = opened(start((made,))).results(0, 1)
    assert words in hit["unfit"]
    assert "eturn" in hit["unfit"]


def test_a_result_that_is_nested_too_deeply_is_unfit(start: Start) -> None:
    def nested() -> Any:
        value: Any = []
        for _ in range(100_000):
            value = [value]
        return value

    (hit,) = opened(start((nested,))).results(0, 1)
    assert "flatter" in hit["unfit"]


def test_trusted_results_are_pickles_of_anything(start: Start) -> None:
    hits = opened(start((lambda: {1, 2},), (lambda: (at for at in "ab"),), trust=True)).results(0, 2)
    assert pickle.loads(base64.b64decode(hits[0]["pickle"])) == {1, 2}
    assert "cannot be pickled" in hits[1]["unfit"]


def fail(error: BaseException) -> None:
    raise error


class OwnError(Exception):
    """An exception of the caller's."""


def test_exceptions_come_with_type_text_arguments_and_traceback(start: Start) -> None:
    errors = [KeyError("k", 1), OwnError("own"), SystemExit(3), ValueError(Odd())]
    hits = opened(start(*((fail, error) for error in errors))).results(0, 4)
    assert [hit["error"]["type"].rpartition(".")[2] for hit in hits] == [type(each).__name__ for each in errors]
    assert json.loads(hits[0]["error"]["args"]) == ["k", 1]
    assert hits[3]["error"]["args"] is None
    assert hits[1]["error"]["text"] == "own"
    assert "raise error" in hits[1]["error"]["traceback"]
    assert f"{FOLDER}/worker.py" not in hits[1]["error"]["traceback"]
    assert "pickle" not in hits[1]["error"]


def test_trusted_exceptions_are_the_very_objects(start: Start) -> None:
    (hit,) = opened(start((fail, ValueError({1})), trust=True)).results(0, 1)
    assert pickle.loads(base64.b64decode(hit["error"]["pickle"])).args == ({1},)


def test_an_exception_whose_text_cannot_be_made_comes_back_all_the_same(start: Start) -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    (hit,) = opened(start((lambda: fail(Mute()),))).results(0, 1)
    assert "cannot be made" in hit["error"]["text"]


@pytest.mark.parametrize(
    ("deadly", "how"),
    [(lambda: os._exit(3), "exit status 3"), (lambda: os.kill(os.getpid(), signal.SIGSEGV), "SIGSEGV")],
)
def test_a_call_that_ends_its_process_costs_no_other(start: Start, deadly: Callable[[], None], how: str) -> None:
    worker = opened(start((abs, -1), (deadly,), (abs, -2)))
    first, died, last = worker.results(0, 3)
    assert values([first, last]) == [1, 2]
    assert how in died["died"]
    assert "2 times" in died["died"]


def test_a_call_that_ends_the_whole_worker_is_given_up_after_three_starts(start: Start, tmp_path: Path) -> None:
    def kill_all() -> None:
        os.killpg(0, signal.SIGKILL)

    worker = opened(start((kill_all,)))
    for _ in range(worker_module.STARTS):
        worker.say({"type": "chunk", "id": "c.0", "start": 0, "stop": 1})
        assert worker.process.wait(PATIENCE_S) == -signal.SIGKILL
        worker.clean_up()
        worker = opened(start((kill_all,)))
    assert "ended 3 times" in worker.results(0, 1)[0]["died"]


def test_a_function_that_needs_what_the_node_lacks_is_unloadable(start: Start, tmp_path: Path) -> None:
    class Missing:
        def __reduce__(self) -> tuple[Any, ...]:
            return __import__, ("no_such_module_here",)

    worker = opened(start((abs, Missing()), (abs, -2)))
    lost, good = worker.results(0, 2)
    assert "ModuleNotFoundError" in lost["unloadable"]
    assert values([good]) == [2]


def test_modules_of_the_folder_that_it_starts_in_can_be_imported(start: Start, tmp_path: Path) -> None:
    (tmp_path / "of_mine.py").write_text("VALUE = 7")
    assert values(opened(start((lambda: __import__("of_mine").VALUE,))).results(0, 1)) == [7]


class Trace:
    """Leaves a trace where it is unpickled."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return open, (self.path, "w")


@pytest.mark.parametrize("params", [{"python": [3, 8]}, {"implementation": "pypy"}, {"format": 2}, {"more": 1}])
def test_other_parameters_are_refused_before_anything_is_unpickled(start: Start, tmp_path: Path, params: Json) -> None:
    worker = start((abs, Trace(str(tmp_path / "trace"))), params=params)
    said = worker.line()
    assert (said["type"], worker.process.wait(PATIENCE_S)) == ("failed", 1)
    assert not (tmp_path / "trace").exists()
    if "python" in params:
        ours = "{}.{}".format(*sys.version_info[:2])
        assert all(words in said["error"] for words in ("cpython 3.8", f"cpython {ours}", "`python:`", sys.executable))


OTHERS = [path for minor in (8, 9, 10, 12, 13, 14) if (path := shutil.which(f"python3.{minor}"))]
OTHERS += [
    str(path) for path in sorted(Path.home().glob(".pyenv/versions/3.*/bin/python")) if path.parts[-3] != "3.6.15"
]


def test_another_python_refuses_before_anything_is_unpickled(start: Start, tmp_path: Path) -> None:
    tried = 0
    for python in OTHERS:
        asked = subprocess.run(
            [python, "-c", "import sys; print(sys.version_info[:2])"], capture_output=True, check=False
        )
        if asked.returncode != 0 or asked.stdout.decode().strip() in (str(sys.version_info[:2]), "(3, 6)", "(3, 7)"):
            continue
        said = start((abs, Trace(str(tmp_path / "trace"))), by=python).line()
        assert said["type"] == "failed"
        assert "do not pass between them" in said["error"]
        assert not (tmp_path / "trace").exists()
        tried += 1
    if not tried:
        pytest.skip("no other Python is installed")


def test_a_long_call_is_reported_every_second_and_its_chunk_can_be_trimmed(start: Start, tmp_path: Path) -> None:
    gate = tmp_path / "gate"

    def wait() -> None:
        while not gate.exists():
            time.sleep(0.01)

    worker = opened(start((abs, -1), (wait,), (abs, -3), (abs, -4)))
    worker.say({"type": "chunk", "id": "c.0", "start": 0, "stop": 4})
    for _ in range(2):
        told = worker.line()
        assert (told["type"], told["position"], len(told["hits"])) == ("checkpoint", 1, 1)
    worker.say({"type": "trim", "id": "c.0", "stop": 1})
    worker.line()
    gate.touch()
    done = worker.answer()
    assert (done["type"], done["stop"], len(done["hits"])) == ("done", 2, 2)
    assert values(worker.results(2, 4)) == [3, 4]


def test_a_call_that_keeps_the_interpreter_busy_does_not_silence_the_worker(start: Start) -> None:
    worker = opened(start((re.match, "(a+)+$", "a" * 60 + "b")))
    worker.say({"type": "chunk", "id": "c.0", "start": 0, "stop": 1})
    assert worker.line()["type"] == "checkpoint"


def test_results_that_wait_too_long_for_their_chunk_are_parted(start: Start) -> None:
    worker = opened(start(*((time.sleep, 0.5) for _ in range(20))))
    worker.say({"type": "chunk", "id": "c.0", "start": 0, "stop": 20})
    part = worker.answer()
    assert part["type"] == "part"
    assert 0 < part["position"] < 20
    assert [hit["at"] for hit in part["hits"]] == list(range(part["position"]))
    assert values(worker.results(19, 20)) == [None]


def test_results_that_are_too_large_for_one_line_are_parted(start: Start) -> None:
    worker = opened(start(*((lambda: "x" * (3 << 20),) for _ in range(6))))
    position = 0
    while position < 6:
        worker.say({"type": "chunk", "id": f"c.{position}", "start": position, "stop": 6})
        said = worker.answer()
        assert sum(len(hit["value"]) for hit in said["hits"]) < 12 << 20
        position = said["position"] if said["type"] == "part" else said["stop"]
    assert position == 6


def test_sigterm_ends_it_with_a_checkpoint_of_what_it_has(start: Start) -> None:
    worker = opened(start((abs, -1), (time.sleep, 3600)))
    worker.say({"type": "chunk", "id": "c.0", "start": 0, "stop": 2})
    assert worker.line()["position"] == 1
    os.killpg(worker.process.pid, signal.SIGTERM)
    assert worker.process.wait(PATIENCE_S) == 0
    assert worker.process.stdout is not None
    last = [json.loads(line) for line in worker.process.stdout][-1]
    assert (last["type"], last["position"]) == ("checkpoint", 1)


def test_the_end_of_input_ends_it_also_while_a_call_runs(start: Start) -> None:
    worker = opened(start((time.sleep, 3600)))
    worker.say({"type": "chunk", "id": "c.0", "start": 0, "stop": 1})
    worker.line()
    assert worker.end() == 0


def test_arguments_of_one_call_are_its_own(start: Start) -> None:
    shared: list[int] = []

    def grow(items: list[int]) -> int:
        items.append(1)
        return len(items)

    assert values(opened(start((grow, shared), (grow, shared))).results(0, 2)) == [1, 1]


def test_the_oldest_python_of_nodes_runs_calls(start: Start) -> None:
    found = [path for path in OTHERS if "3.8" in path]
    version = '{"python": [3, 8]}'
    code = "import sys, json; print(json.dumps({'python': sys.version_info[:2]}))"
    for path in found:
        asked = subprocess.run([path, "-c", code], capture_output=True, text=True, check=False)
        if asked.stdout.strip() == version:
            break
    else:
        pytest.skip("no Python 3.8 is installed")
    calls = [(abs, -1), (os._exit, 3), (int, "x"), (divmod, 7, 2)]
    hits = opened(start(*calls, by=path, params={"python": [3, 8]})).results(0, 4)
    assert values([hits[0], hits[3]]) == [1, {"$": ["tuple", [3, 1]]}]
    assert "exit status 3" in hits[1]["died"]
    assert hits[2]["error"]["type"] == "ValueError"
