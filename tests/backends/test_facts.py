"""From what a node says to what the core hears; a node may say anything."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from hostler.backends.bounds import NodeFault
from hostler.backends.facts import going_of, gpu_of, input_of, link_up_of, progress_of, telemetry_of, understood
from hostler.model.codec import record_fault
from hostler.model.inputs import Ended, Found, Progress, Returned, Searched, Started, Telemetry, Trouble, WorkerRefused
from hostler.model.telemetry import USERS_MOST, DeviceTelemetry, DeviceUser

ENDED = {
    "seq": 1,
    "fact": "ended",
    "attempt": "j1.1",
    "at": 5.0,
    "started_at": 4.0,
    "exit_code": 0,
    "signal": None,
    "reason": None,
    "error": None,
    "cpu_s": 0.1,
    "max_rss_bytes": 1024,
    "result": {"x": [1]},
    "result_error": None,
    "left": True,
}
DONE = {
    "seq": 2,
    "fact": "chunk_done",
    "chunk": "j1.2",
    "digest": "d",
    "start": 0,
    "stop": 2**70,
    "hits": [{"at": 2**69}],
    "at": 1.0,
    "elapsed_s": 0.5,
}


def test_every_kind_of_fact_is_understood() -> None:
    started = {"seq": 1, "fact": "started", "attempt": "j1.1", "pid": 7, "pid_start": 8, "at": 1.0}
    assert input_of("n", started) == Started(attempt="j1.1", pid=7, pid_start=8)
    ended = input_of("n", ENDED)
    assert isinstance(ended, Ended)
    assert (ended.attempt, ended.ended_at, ended.result, ended.left) == ("j1.1", 5.0, {"x": [1]}, True)
    searched = input_of("n", DONE)
    assert isinstance(searched, Searched)
    assert (searched.stop, searched.hits) == (2**70, ({"at": 2**69},))
    returned = {"seq": 3, "fact": "returned", "chunk": "j1.3", "position": 5, "digest": "d", "hits": [], "at": 1.0}
    assert input_of("n", {**returned, "reason": "worker_died", "error": None}) == Returned(
        chunk="j1.3", position=5, digest="d", reason="worker_died"
    )
    refused = {"seq": 4, "fact": "worker_refused", "worker": "w-j1-cpu0", "error": "no", "at": 1.0}
    assert input_of("n", refused) == WorkerRefused(worker="w-j1-cpu0", error="no")


@pytest.mark.parametrize(
    "broken",
    [
        {**DONE, "hits": "none"},
        {**DONE, "start": "zero"},
        {**DONE, "elapsed_s": None},
        {key: value for key, value in DONE.items() if key != "digest"},
        {**DONE, "surprise": 1},
    ],
)
def test_a_chunk_whose_report_cannot_be_read_goes_back(broken: dict[str, Any]) -> None:
    heard = input_of("n", broken)
    assert isinstance(heard, Returned)
    assert (heard.chunk, heard.position, heard.reason) == ("j1.2", None, "unreadable")


def test_an_attempt_whose_end_cannot_be_read_is_lost() -> None:
    heard = input_of("n", {**ENDED, "exit_code": "none"})
    assert isinstance(heard, Ended)
    assert (heard.attempt, heard.reason, heard.result) == ("j1.1", "lost", None)


def test_anything_else_that_cannot_be_read_is_recorded() -> None:
    assert isinstance(input_of("n", {"fact": "new kind", "seq": 1}), Trouble)
    assert isinstance(input_of("n", {**ENDED, "attempt": 7}), Trouble)
    assert isinstance(input_of("n", {"fact": "started", "seq": 1}), Trouble)


@given(st.dictionaries(st.sampled_from([*DONE, *ENDED]), st.none() | st.integers() | st.text() | st.lists(st.none())))
def test_no_fact_breaks_the_controller(fact: dict[str, Any]) -> None:
    assert input_of("n", fact) is not None


def test_progress_is_positions_and_numbers_of_hits() -> None:
    assert [*progress_of({"type": "progress", "chunks": {"j1.1": [5, 2]}})] == [Progress(chunks={"j1.1": (5, 2)})]
    told = {"type": "progress", "chunks": {"j1.1": [5, 1, "d", [{"at": 3}]]}}
    found = {"j1.1": Found(digest="d", hits=({"at": 3},))}
    assert [*progress_of(told)] == [Progress(chunks={"j1.1": (5, 1)}, found=found)]


class TestTelemetry:
    MESSAGE: Any = {
        "type": "telemetry",
        "at": 5.0,
        "load": 6.0,
        "cores": 4,
        "memory_bytes": 64 << 30,
        "memory_free_bytes": 16 << 30,
        "disk_bytes": 1 << 40,
        "disk_free_bytes": 0,
        "backlog_s": 0.0,
        "devices": [
            {"index": 1, "kind": "cuda", "at": 4.0, "utilization": 0.0, "vram_used_bytes": 1 << 30, "temperature_c": 40}
        ],
    }

    def test_everything_is_taken_in_the_units_of_the_core(self) -> None:
        assert telemetry_of("n", self.MESSAGE) == Telemetry(
            node="n",
            at=5.0,
            load=1.5,
            memory_total_gb=64.0,
            memory_free_gb=16.0,
            disk_total_gb=1024.0,
            disk_free_gb=0.0,
            backlog_s=0.0,
            devices={"n/cuda1": DeviceTelemetry(utilization=0.0, vram_used_gb=1.0, temperature_c=40.0)},
        )

    @pytest.mark.parametrize(
        ("processes", "users"),
        [
            (
                [
                    {
                        "pid": 1, "ours": True, "name": "python3", "user": "ann", "vram_bytes": 1 << 30,
                        "attempt": "j1.1",
                    },
                    {"pid": 2, "ours": False},
                    {"pid": 3, "ours": None},
                ],
                (
                    DeviceUser(pid=1, ours=True, name="python3", user="ann", vram_gb=1.0, attempt="j1.1"),
                    DeviceUser(pid=2, ours=False),
                    DeviceUser(pid=3),
                ),
            ),
            ([], ()),
            (None, None),
            ({"pid": 1}, None),
            ([None, 3, {"ours": 0, "pid": -1, "name": 5, "user": "", "vram_bytes": "x"}], (DeviceUser(pid=0),)),
            ([{"pid": 1 << 40, "name": "a\x1b[2Jb\ud800", "user": "u" * 1000}],
             (DeviceUser(pid=0, name="a?[2Jb?", user="u" * 64),)),
        ],
    )  # fmt: skip
    def test_processes_of_a_device_are_read_as_far_as_they_make_sense(
        self, processes: Any, users: tuple[DeviceUser, ...] | None
    ) -> None:
        told = {**self.MESSAGE, "devices": [{"index": 0, "kind": "mps", "processes": processes, "age_s": 3.5}]}
        assert telemetry_of("n", told).devices == {"n/mps0": DeviceTelemetry(users=users, age_s=3.5)}

    def test_processes_of_a_device_are_bounded(self) -> None:
        listed = [{"pid": number} for number in range(10_000)]
        told = {**self.MESSAGE, "devices": [{"index": 0, "kind": "mps", "processes": listed}]}
        users = telemetry_of("n", told).devices["n/mps0"].users
        assert users is not None
        assert len(users) == USERS_MOST

    def test_an_older_agent_tells_less(self) -> None:
        old = {"type": "telemetry", "at": 5.0, "load": 1.2, "memory_free_bytes": 1 << 30, "disk_free_bytes": None}
        assert telemetry_of("n", old) == Telemetry(node="n", at=5.0, memory_free_gb=1.0)

    @pytest.mark.parametrize("nonsense", [None, "12", -1, float("nan"), float("inf"), True, [], {}, 10**400])
    def test_what_is_no_sensible_number_is_unknown(self, nonsense: Any) -> None:
        device = {"index": 0, "kind": "cuda", **dict.fromkeys(["utilization", "vram_used_bytes"], nonsense)}
        told = {**dict.fromkeys(self.MESSAGE, nonsense), "devices": [device, nonsense]}
        heard = telemetry_of("n", told)
        assert heard == Telemetry(node="n", at=0.0, devices={"n/cuda0": DeviceTelemetry()})
        assert record_fault(heard) is None
        assert telemetry_of("n", {**self.MESSAGE, "devices": nonsense}).devices == {}

    def test_more_than_all_is_unknown(self) -> None:
        device = {"index": 0, "kind": "cuda", "utilization": 93}
        assert telemetry_of("n", {**self.MESSAGE, "devices": [device]}).devices["n/cuda0"].utilization is None


def test_last_words_are_taken_as_far_as_they_are_text() -> None:
    def heard(evidence: Any) -> str | None:
        ended = input_of("n", {**ENDED, "exit_code": 1, "evidence": evidence})
        assert isinstance(ended, Ended)
        assert (ended.exit_code, ended.reason) == (1, None)
        return ended.evidence

    assert heard("MemoryError") == "MemoryError"
    assert heard("x" * 5000 + "\0y") == "x" * 2046 + "y"
    assert [heard(each) for each in ("", None, 7, ["x"], {})] == [None] * 5
    without = input_of("n", ENDED)
    assert isinstance(without, Ended)
    assert without.evidence is None


@pytest.mark.parametrize("told", ["cgroup", "watched", None, "", "else", 7, ["cgroup"], {}])
def test_how_memory_limits_are_kept_is_taken_as_far_as_it_is_known(told: Any) -> None:
    hello = {"agent": "a", "incarnation": 1, "boot": "b", "attempts": [], "chunks": [], "memory_limits": told}
    assert link_up_of("n", hello).memory_limits == (told if told in ("cgroup", "watched") else None)


def test_texts_of_a_node_are_cut_at_their_lengths() -> None:
    long = "x" * 10_000
    assert gpu_of({"kind": "cuda", "index": 0, "model": long}).model == "x" * 128
    assert going_of("n", long).why == "x" * 500
    with pytest.raises(NodeFault) as caught, understood("n", "its state"):
        raise ValueError(long)
    assert str(caught.value).endswith(f": ValueError: {'x' * (300 - len('ValueError: '))}")


@pytest.mark.parametrize(("told", "reads"), [(True, True), (False, False), (None, False), (1, False), ("yes", False)])
def test_agent_reads_devices_only_where_it_tells_so(told: Any, reads: bool) -> None:
    hello = {"agent": "a", "incarnation": 1, "boot": "b", "attempts": [], "chunks": [], "samples": told}
    assert link_up_of("n", hello).reads_devices is reads


@pytest.mark.parametrize("pid", [0, 1, 2**31 - 1])
def test_number_of_a_process_is_kept_up_to_what_a_system_gives(pid: int) -> None:
    devices = [{"index": 0, "kind": "cuda", "processes": [{"pid": pid}, {"pid": 2**31}]}]
    users = telemetry_of("n", {"type": "telemetry", "at": 5.0, "devices": devices}).devices["n/cuda0"].users
    assert users == (DeviceUser(pid=pid), DeviceUser(pid=0))


@pytest.mark.parametrize("utilization", [0.0, 0.5, 1.0])
def test_utilization_is_a_share(utilization: float) -> None:
    device = {"index": 0, "kind": "cuda", "utilization": utilization}
    heard = telemetry_of("n", {"type": "telemetry", "at": 5.0, "devices": [device]})
    assert heard.devices["n/cuda0"].utilization == utilization


def test_start_that_cannot_be_read_ends_no_attempt() -> None:
    heard = input_of("n", {"seq": 1, "fact": "started", "attempt": "j1.1", "pid": -1, "pid_start": 8, "at": 1.0})
    assert isinstance(heard, Trouble)
