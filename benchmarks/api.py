"""What many who look cost: 200 event streams and 500 GETs a second, beside a sweep, on the same two cores.

    python benchmarks/api.py [--quick] [--json FILE]

A real controller with its agent runs a real sweep (the sieve, on CPU slots); those who ask (api_load.py) are one
process more. All of them share the cores of this machine, so the sweep loses three times: to the controller's
answers, to those who ask, and to the system between them. To tell these apart, the same crowd also asks a server that
has one stored answer and nothing else (api_floor.py). The machine is noisy: alone, under load and beside the floor
take turns within one run, and each load is compared with the quiet times before and after it. A sweep's speed comes
from the journal: what its chunks, of a second each, had covered when a phase began and when it ended.

With one slot the sweep leaves a core to everybody else: the bar is for that. With two slots nothing is left over, and
whatever anybody does is taken from the sweep; that is shown without a bar. Each crowd has one client that asks for
events and reads none. A burst of new jobs, at the end, makes it lose some, while the other streams get them all.

No peer is measured: others' schedulers have HTTP of their own, but answer other questions beside other work, and the
numbers would not mean the same; the floor stands in for one.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice, pairwise
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import psutil
from tests.integration.conftest import Fleet, a_fleet, until

from api_load import PAGES, STREAMS
from common import Bar, Row, arguments, report
from hostler.runtime.up import READY_AFTER_S
from hostler.workloads.sieve import spec
from hostler.workloads.sieve.generators import generator, oracle

HERE = Path(__file__).resolve().parent
RANGE = 1 << 42
"""More than any run searches."""
SEED = 1 << 45
DRAWS = 12
TARGET_S = 1.0
JOBS = 2_000
"""Jobs that wait for the sweep to end, so that there is something to show."""
PART = 500
BURST_PARTS = 24
BURST_S = 15.0
PLANS: Mapping[int, Sequence[tuple[str, float]]] = {
    1: [("alone", 15), ("load", 60), ("alone", 15), ("floor", 15), ("alone", 15), ("load", 60), ("alone", 15)],
    2: [("alone", 10), ("load", 30), ("alone", 10)],
}
QUICK_SHARE = 0.2
SETTLE_S = 4.0
REST_S = 1.5
P99_MS, SLOWER_PERCENT, GROWTH_MB = 100.0, 5.0, 20.0


@dataclass(frozen=True)
class Phase:
    """Some seconds of a run, and what was read off at their end."""

    name: str
    begin: float
    end: float
    cpu_s: Mapping[str, float]
    controller_mb: float
    heard: Mapping[str, Any] | None = None


@dataclass
class Beside:
    """A controller with a sweep on so many slots, and what is asked of it."""

    fleet: Fleet
    slots: int
    sweep: str
    phases: list[Phase] = field(default_factory=list)
    speeds: list[float] = field(default_factory=list)
    """Items per second of each phase, once all are over."""

    def play(self, plan: Sequence[tuple[str, float]]) -> None:
        """All phases in turn."""
        for name, seconds in plan:
            self.phases.append({"alone": self.alone, "load": self.load, "floor": self.floor}[name](seconds))
            time.sleep(REST_S)

    def alone(self, seconds: float) -> Phase:
        """Nobody asks."""
        begin, before = time.time(), self._cpu()
        time.sleep(seconds)
        return self._phase("alone", begin, before, None, None)

    def load(self, seconds: float) -> Phase:
        """The crowd asks the controller."""
        url, token, *_ = self.fleet.client._locate()
        return self._asked("load", url, token, seconds)

    def floor(self, seconds: float) -> Phase:
        """The crowd asks the server that does nothing."""
        with subprocess.Popen([sys.executable, HERE / "api_floor.py"], stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            try:
                return self._asked("floor", f"http://127.0.0.1:{int(server.stdout.readline())}", "none", seconds)
            finally:
                server.terminate()

    def burst(self, seconds: float) -> Phase:
        """The crowd asks, and somebody submits thousands of jobs."""
        url, token, *_ = self.fleet.client._locate()
        return self._asked("burst", url, token, seconds, burst=True)

    def finish(self) -> None:
        """Read off the journal how fast the sweep was."""
        time.sleep(3 * TARGET_S)
        covered = list(_covered(self.fleet.client.story(self.sweep)))
        self.speeds = [(_at(covered, p.end) - _at(covered, p.begin)) / (p.end - p.begin) for p in self.phases]

    def slower(self) -> Iterator[tuple[Phase, float]]:
        """Of each phase in which somebody asked, by how many percent the sweep was slower than around it."""
        for at, phase in enumerate(self.phases):
            if phase.name == "alone":
                continue
            around = [
                next((self.speeds[n] for n in order if self.phases[n].name == "alone"), None)
                for order in (range(at, -1, -1), range(at, len(self.phases)))
            ]
            known = [speed for speed in around if speed is not None]
            yield phase, 100 * (1 - self.speeds[at] / mean(known))

    def _asked(self, name: str, url: str, token: str, seconds: float, *, burst: bool = False) -> Phase:
        command = [sys.executable, str(HERE / "api_load.py"), url, token, str(seconds), "j2"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as crowd:
            assert crowd.stdout is not None
            assert crowd.stdout.readline() == "begun\n", "the crowd did not come"
            begin, before = time.time(), self._cpu(crowd.pid)
            if burst:
                submit(self.fleet, self.sweep, BURST_PARTS)
            time.sleep(max(begin + seconds - time.time(), 0))
            phase = self._phase(name, begin, before, crowd.pid, None)
            heard = json.loads(crowd.stdout.read())
        return Phase(**{**vars(phase), "heard": heard})

    def _phase(self, name: str, begin: float, before: Mapping[str, float], crowd: int | None, heard: Any) -> Phase:
        end, after = time.time(), self._cpu(crowd)
        used = {who: after[who] - before[who] for who in after}
        assert self.fleet.controller is not None
        resident = psutil.Process(self.fleet.controller.pid).memory_info().rss / 1e6
        return Phase(name, begin, end, used, resident, heard)

    def _cpu(self, crowd: int | None = None) -> dict[str, float]:
        """CPU seconds of everybody so far."""
        assert self.fleet.controller is not None
        ours = self.fleet.processes()
        workers = [process for process in ours if "worker" in process.cmdline()]
        return {
            "sweep": sum(map(_cpu_s, workers)),
            "agent": sum(_cpu_s(process) for process in ours if process not in workers),
            "controller": _cpu_s(psutil.Process(self.fleet.controller.pid)),
            "crowd": 0.0 if crowd is None else _cpu_s(psutil.Process(crowd)),
        }


def main() -> None:
    """Measure, print, write."""
    options = arguments(__doc__)
    share = QUICK_SHARE if options.quick else 1.0
    with TemporaryDirectory(prefix="hostler-api-") as folder:
        both = [measured(Path(folder), slots, share) for slots in PLANS]
    one = both[0]
    rows = [row for each in both for row in phase_rows(each)]
    rows += [row for each in both for row in answer_rows(each)]
    rows += [*path_rows(one), *stream_rows(one)]
    report("api", rows, [] if options.quick else list(bars(one)), options.json)


def measured(folder: Path, slots: int, share: float) -> Beside:
    """All phases beside a sweep on so many slots."""
    with beside(folder, slots) as made:
        made.play([(name, seconds * share) for name, seconds in PLANS[slots]])
        if slots == 1:
            made.phases.append(made.burst(BURST_S))
        made.finish()
    return made


@contextmanager
def beside(folder: Path, slots: int) -> Iterator[Beside]:
    """A controller whose sweep has got up to speed, and that has made what visitors would wait for."""
    place = folder / f"{slots}-slots"
    place.mkdir()
    node = {"name": "here", "cpu_slots": slots, "gpus": "none", "env": {"NUMBA_CACHE_DIR": str(folder / "numba")}}
    sweep = {"name": "java", "program": "sieve", "range": [0, RANGE], "params": params(), "target_s": TARGET_S}
    with a_fleet(place, nodes=[node], sweeps=[sweep]) as fleet:
        fleet.start()
        ready_at = time.time() + READY_AFTER_S
        submit(fleet, "java", JOBS // PART)
        until(lambda: fleet.client.sweep("java")["chunks_done"] >= 10 * slots, "the sweep", patience_s=120)
        time.sleep(max(ready_at - time.time(), 0.0) + SETTLE_S)
        yield Beside(fleet, slots, "java")


def params() -> Mapping[str, Any]:
    """A search whose answer is not met while it is watched."""
    made_by = generator("java-random")
    output = {"kind": "int"}
    draws = oracle(made_by, spec.parse_output(made_by, output), SEED, skip=0)
    return {"schema": 1, "generator": "java-random", "output": output, "skip": 0, "draws": list(islice(draws, DRAWS))}


def submit(fleet: Fleet, sweep: str, parts: int) -> None:
    """Jobs that wait for the end of the sweep."""
    payload = {"kind": "script", "schema": 1, "argv": ["python", "train.py", "--config", "hex8_2p"]}
    for _ in range(parts):
        fleet.client.submit_jobs([{"name": f"train {n}", "payload": payload, "after": [sweep]} for n in range(PART)])


def phase_rows(made: Beside) -> Iterator[Row]:
    """What everybody had of the cores, and what the sweep did with its part."""
    slower = {id(phase): percent for phase, percent in made.slower()}
    for phase, speed in zip(made.phases, made.speeds, strict=True):
        seconds = phase.end - phase.begin
        yield {
            "slots": made.slots,
            "phase": phase.name,
            "s": round(seconds),
            "M seeds/s": speed / 1e6,
            "slower %": slower.get(id(phase)),
            "M seeds/CPU-s": speed * seconds / phase.cpu_s["sweep"] / 1e6,
            **{f"{who} CPU %": 100 * used / seconds for who, used in phase.cpu_s.items()},
            "controller MB": phase.controller_mb,
        }


def answer_rows(made: Beside) -> Iterator[Row]:
    """How long answers took."""
    for phase in made.phases:
        if phase.heard is not None:
            yield {"slots": made.slots, "phase": phase.name, "GETs": phase.heard["gets"], **_ms(phase.heard["gets ms"])}


def path_rows(made: Beside) -> Iterator[Row]:
    """The same by path, in the first load."""
    first = next(phase for phase in made.phases if phase.name == "load")
    assert first.heard is not None
    for path, times in [*sorted(first.heard["by path"].items()), ("/metrics", first.heard["metrics ms"])]:
        yield {"GET": path, **_ms(times)}


def stream_rows(made: Beside) -> Iterator[Row]:
    """What those got who listened."""
    for phase in made.phases:
        if phase.heard is not None and phase.name != "floor":
            yield {
                "streams": phase.name,
                "listen": STREAMS + len(PAGES),
                "frames": phase.heard["entries"],
                **{f"late {name}": value for name, value in _ms(phase.heard["late ms"]).items()},
                "cut off": phase.heard["streams ended"],
                "who did not read": phase.heard["stuck"],
            }


def bars(made: Beside) -> Iterator[Bar]:
    """What was asked for; the worst of the loads counts for answers, their mean for the sweep."""
    loads = [phase for phase in made.phases if phase.name == "load"]
    heard = [phase.heard for phase in loads if phase.heard is not None]
    slower = [percent for phase, percent in made.slower() if phase.name == "load"]
    burst = next(phase.heard for phase in made.phases if phase.name == "burst")
    assert burst is not None
    told = int(burst["stuck"].split()[1]) if burst["stuck"].startswith("lost ") else 0
    wrong = sum(count for each in heard for status, count in each["statuses"].items() if status != "200")
    growth = loads[-1].controller_mb - loads[0].controller_mb
    yield Bar("p99 of GETs under load, ms", max(each["gets ms"]["p99"] for each in heard), P99_MS, "<")
    yield Bar("GETs without a good answer", wrong, 0, "<=")
    yield Bar("sweep on one slot slower by, %", mean(slower), SLOWER_PERCENT, "<")
    yield Bar("controller, second load against the first, MB more", growth, GROWTH_MB, "<")
    yield Bar("streams that ended under load", sum(each["streams ended"] for each in heard), 0, "<=")
    yield Bar("entries of which the client that did not read was told that it lost them", told, 0, ">")


def _covered(story: Sequence[Mapping[str, Any]]) -> Iterator[tuple[float, int]]:
    """When how much of a sweep was searched."""
    sizes: dict[str, int] = {}
    done = 0
    for entry in story:
        event = entry["event"]
        if event["kind"] == "chunk.leased":
            sizes[event["chunk"]] = event["stop"] - event["start"]
        elif event["kind"] == "chunk.done":
            done += sizes[event["chunk"]]
            yield entry["at"], done


def _at(covered: Sequence[tuple[float, int]], when: float) -> float:
    """How much was searched then; between two chunks' ends, in proportion."""
    for (before, less), (after, more) in pairwise(covered):
        if before <= when < after:
            return less + (more - less) * (when - before) / (after - before)
    raise SystemExit(f"the journal does not tell what was searched at {when}")


def _ms(times: Mapping[str, float | None]) -> Row:
    return {f"{name} ms": value for name, value in times.items()}


def _cpu_s(process: psutil.Process) -> float:
    used = process.cpu_times()
    return float(used.user + used.system)


if __name__ == "__main__":
    main()
