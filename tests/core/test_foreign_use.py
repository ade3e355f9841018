"""Devices that others use: nothing is placed there, and old readings are taken again before work is placed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hostler.core.explain import explain_job
from hostler.core.explain_device import explain_device
from hostler.core.shown import bans
from hostler.core.views import device_view
from hostler.model import events
from hostler.model.commands import ReadDevices, Stop
from hostler.model.fleet import NodeSpec
from hostler.model.inputs import Begin, LinkDown, LinkUp, NodeFound, Started, Telemetry
from hostler.model.telemetry import DeviceTelemetry, DeviceUser
from hostler.model.work import DeviceKind, JobState, Resources
from hostler.policy.foreign_use import CLEAR_S, FRESH_S, SURE_S
from tests.core.builders import Driver, ended, node, replayed, script, sweep

FREE = DeviceTelemetry(vram_used_gb=0.1, users=())
ANN = DeviceTelemetry(
    vram_used_gb=21.6, users=(DeviceUser(pid=4711, name="python", user="ann", vram_gb=21.5, ours=False),)
)
HIDDEN = DeviceTelemetry(vram_used_gb=22.0, users=())


class World(Driver):
    """One node with GPUs that are read when that is asked for, as `uses` has them."""

    def __init__(self, devices: int = 1, **fields: object) -> None:
        super().__init__()
        spec = node(devices=devices, kind=DeviceKind.CUDA, vram_gb=24.0)
        self.spec: NodeSpec = replace(spec, **fields)  # type: ignore[arg-type]
        self.uses = {device.id: FREE for device in spec.devices}
        self.reads = 0
        self.tell(Begin(version="test", epoch=1), NodeFound(node=self.spec), self.up())

    def up(self) -> LinkUp:
        return LinkUp(node="n", agent="a", incarnation=1, boot="b", attempts=(), chunks=(), reads_devices=True)

    def read(self, after_s: float = 0.1, age_s: float = 0.0) -> None:
        told = {name: replace(use, age_s=age_s) for name, use in self.uses.items()}
        self.tell(Telemetry(node="n", at=self.now + after_s, devices=told), after_s=after_s)

    def answer(self) -> bool:
        """Answer the question for a reading, if the last step asked for one."""
        asked = ReadDevices(node="n") in self.commands
        if asked:
            self.reads += 1
            self.read()
        return asked

    def submit(self, *specs: object) -> tuple[str, ...]:  # type: ignore[override]
        ids = super().submit(*specs)  # type: ignore[arg-type]
        self.answer()
        return ids

    def later(self, seconds: float) -> None:
        """Read once a second."""
        for _ in range(round(seconds)):
            self.read(after_s=1.0)

    def places(self) -> dict[str, str]:
        return {job.id: job.attempt.device for job in self.state.jobs.values() if job.attempt is not None}

    def changes(self) -> list[str]:
        """Changes between free and in use, in order."""
        kinds = (events.DeviceInUse, events.DeviceFreed)
        return [entry.event.kind for entry in self.entries if isinstance(entry.event, kinds)]


def test_job_goes_to_the_gpu_that_nobody_else_uses() -> None:
    world = World(devices=2)
    world.uses["n/cuda0"] = ANN
    world.submit(script("a"), script("b"))
    assert world.places() == {"j1": "n/cuda1"}
    said = explain_job(world.state, world.core.index, world.state.jobs["j2"])
    assert said.devices["n/cuda0"] == (
        "in use by others: n/cuda0 has been used by others for 1.0 s: python of ann (pid 4711), 21.5 GB"
    )
    assert replayed(world.entries).state == world.state


def test_explanation_of_a_card_in_use_by_others_names_what_would_change_it() -> None:
    world = World()
    world.uses["n/cuda0"] = ANN
    world.submit(script("a"), script("b"))
    said = explain_job(world.state, world.core.index, world.state.jobs["j2"])
    assert said.summary.startswith("j2 waits: the device it fits on is in use by others; ")
    assert [change.what for change in said.changes] == ["others stop using n/cuda0"]
    device = explain_device(world.state, world.core.index, world.state.devices["n/cuda0"])
    assert device.summary == "n/cuda0 has been used by others for 1.0 s: python of ann (pid 4711), 21.5 GB"


def test_job_waits_until_others_have_left_for_a_while() -> None:
    world = World()
    world.uses["n/cuda0"] = ANN
    world.submit(script())
    world.later(30)
    assert world.places() == {}
    world.uses["n/cuda0"] = FREE
    world.later(CLEAR_S - 2)
    assert world.places() == {}
    said = explain_job(world.state, world.core.index, world.state.jobs["j1"]).devices["n/cuda0"]
    assert said.endswith("python of ann (pid 4711), not seen for 57 s")
    world.later(4)
    assert world.places() == {"j1": "n/cuda0"}
    assert world.changes() == ["device.in_use", "device.freed"]


def test_first_job_waits_for_a_reading() -> None:
    world = World()
    Driver.submit(world, script())
    assert world.places() == {}
    assert world.commands == [ReadDevices(node="n")]
    said = explain_job(world.state, world.core.index, world.state.jobs["j1"]).devices["n/cuda0"]
    assert said == (
        "reading of its use: the use of n/cuda0 by others has not been read yet; `foreign_use: ignore` does without"
    )
    world.read()
    assert world.places() == {"j1": "n/cuda0"}


def test_old_reading_is_taken_again_before_work_is_placed() -> None:
    world = World()
    world.read()
    world.now += FRESH_S - 1
    world.submit(script("a"))
    assert (world.places(), world.reads) == ({"j1": "n/cuda0"}, 0), "it was fresh"
    world.tell(Started(attempt="j1.1", pid=1, pid_start=1), ended("j1.1"))
    world.now += FRESH_S + 5
    world.uses["n/cuda0"] = ANN
    world.submit(script("b"))
    assert (world.places(), world.reads) == ({}, 1), "others had come meanwhile"


def test_age_of_a_reading_counts_from_its_measurement() -> None:
    world = World()
    world.read(age_s=FRESH_S)
    Driver.submit(world, script())
    assert world.places() == {}
    assert ReadDevices(node="n") in world.commands


def test_reading_without_an_answer_is_asked_for_again() -> None:
    world = World()
    Driver.submit(world, script())
    asked = 0
    for _ in range(30):
        world.tell()
        asked += ReadDevices(node="n") in world.commands
    assert 3 <= asked <= 7
    world.read()
    assert world.places() == {"j1": "n/cuda0"}


def test_reading_of_an_earlier_link_does_not_count() -> None:
    world = World()
    world.read()
    world.tell(LinkDown(node="n", why="no route"), world.up())
    Driver.submit(world, script())
    assert world.places() == {}
    assert ReadDevices(node="n") in world.commands


def test_memory_without_a_process_holds_work_at_once_and_counts_once_it_lasts() -> None:
    world = World()
    world.uses["n/cuda0"] = HIDDEN
    world.submit(script())
    assert (world.places(), world.changes()) == ({}, [])
    said = explain_job(world.state, world.core.index, world.state.jobs["j1"]).devices["n/cuda0"]
    assert "seems to be used by others: processes that cannot be seen there; it is read again" in said
    world.later(SURE_S + 2)
    assert world.changes() == ["device.in_use"]
    assert world.places() == {}


def test_memory_that_goes_at_once_was_no_use() -> None:
    world = World()
    world.uses["n/cuda0"] = HIDDEN
    world.submit(script())
    world.uses["n/cuda0"] = FREE
    world.read()
    assert (world.places(), world.changes()) == ({"j1": "n/cuda0"}, [])


def test_use_that_toggles_changes_the_state_twice_at_most() -> None:
    for period in (3, 5, 7):
        world = World()
        world.submit(script())
        world.tell(Started(attempt="j1.1", pid=1, pid_start=1), ended("j1.1"))
        world.later(10)
        for second in range(120):
            world.uses["n/cuda0"] = ANN if second // 3 % 2 == 0 else FREE
            if second % period == 0:
                world.read(after_s=float(period))
        assert len(world.changes()) <= 2


def test_use_after_placement_keeps_further_work_off_and_leaves_the_attempt() -> None:
    world = World()
    world.submit(script("a"))
    world.tell(Started(attempt="j1.1", pid=1, pid_start=1), after_s=2.0)
    world.uses["n/cuda0"] = ANN
    world.read()
    assert world.changes() == ["device.in_use"]
    assert world.job_state("j1") is JobState.RUNNING
    world.submit(script("b"))
    world.tell(ended("j1.1"))
    world.later(10)
    assert world.places() == {}


def test_own_memory_is_not_foreign_while_work_runs_nor_just_after_it() -> None:
    world = World()
    world.submit(script())
    world.uses["n/cuda0"] = HIDDEN
    world.later(20)
    world.tell(Started(attempt="j1.1", pid=1, pid_start=1), ended("j1.1"))
    world.read()
    assert world.changes() == []
    world.submit(script("b"))
    assert world.places() == {"j2": "n/cuda0"}


def test_leftover_of_an_attempt_holds_its_device_and_is_named() -> None:
    world = World()
    world.submit(script())
    world.tell(Started(attempt="j1.1", pid=1, pid_start=1), ended("j1.1"))
    left = DeviceUser(pid=50, name="python3", user="me", vram_gb=10.0, ours=True, attempt="j1.1")
    world.uses["n/cuda0"] = DeviceTelemetry(vram_used_gb=10.1, users=(left,))
    world.later(30)
    world.submit(script("b"))
    assert world.places() == {}
    (held,) = [each for each in bans(world.state, world.core.index) if each.kind == "foreign use"]
    assert (held.what, held.owner) == ("n/cuda0", "leftover")
    assert held.why == "python3 of me (pid 50), left by j1.1, 10.0 GB; end the process"


@pytest.mark.parametrize(
    ("need", "placed", "why"),
    [
        (Resources(vram_gb=10), True, None),
        (
            Resources(vram_gb=20),
            False,
            "n/cuda0 has 14.7 GB beside others and what is placed there, the job needs 20 GB",
        ),
        (Resources(), False, "n/cuda0 is shared with others, and the job states no vram_gb"),
    ],
)
def test_sharing_places_what_fits_beside_others(need: Resources, placed: bool, why: str | None) -> None:
    world = World(foreign_use="share")
    ann = DeviceUser(pid=4711, name="python", user="ann", vram_gb=8.0, ours=False)
    world.uses["n/cuda0"] = DeviceTelemetry(vram_used_gb=8.1, users=(ann,))
    world.submit(script(resources=need))
    assert world.places() == ({"j1": "n/cuda0"} if placed else {})
    if why is not None:
        assert why in explain_job(world.state, world.core.index, world.state.jobs["j1"]).devices["n/cuda0"]


def test_sharing_counts_memory_that_no_process_explains() -> None:
    world = World(foreign_use="share")
    ann = DeviceUser(pid=4711, name="python", user="ann", vram_gb=2.0, ours=False)
    world.uses["n/cuda0"] = DeviceTelemetry(vram_used_gb=21.0, users=(ann,))
    world.submit(script(resources=Resources(vram_gb=18)))
    assert world.places() == {}


def test_job_on_two_gpus_waits_for_both_to_be_read_and_free() -> None:
    world = World(devices=2)
    world.uses["n/cuda1"] = HIDDEN
    world.submit(script(resources=Resources(gpus=2)))
    assert world.places() == {}
    world.later(SURE_S + 2)
    assert world.changes() == ["device.in_use"]
    world.uses["n/cuda1"] = FREE
    world.later(CLEAR_S + 2)
    assert world.places() == {"j1": "n/cuda0"}


def test_job_on_two_gpus_starts_once_its_second_one_is_read() -> None:
    world = World(devices=2)
    world.submit(script(resources=Resources(gpus=2)))
    assert (world.places(), world.reads) == ({"j1": "n/cuda0"}, 1)


def test_device_whose_driver_does_not_tell_its_use_gets_work() -> None:
    world = World()
    world.uses["n/cuda0"] = DeviceTelemetry()
    world.submit(script())
    assert world.places() == {"j1": "n/cuda0"}


def test_running_attempt_on_a_second_card_is_named_and_no_leftover() -> None:
    world = World(devices=2)
    world.submit(script("two"))
    world.tell(Started(attempt="j1.1", pid=50, pid_start=1))
    other = "n/cuda1" if world.places()["j1"] == "n/cuda0" else "n/cuda0"
    both = DeviceUser(pid=50, name="python3", user="me", vram_gb=10.0, ours=True, attempt="j1.1")
    world.uses = dict.fromkeys(world.uses, DeviceTelemetry(vram_used_gb=10.1, users=(both,)))
    world.later(30)
    shown = device_view(world.state, world.core.index, world.state.devices[other]).foreign_use
    assert shown is not None
    assert (shown.kind, shown.who) == ("others", "python3 of me (pid 50), of j1.1, which is placed on another device")


def test_device_is_freed_though_its_node_is_linked_again_and_again() -> None:
    world = World()
    world.uses["n/cuda0"] = ANN
    world.submit(script())
    world.uses["n/cuda0"] = FREE
    for _ in range(4):
        world.later(20)
        world.tell(LinkDown(node="n", why="a moment"), world.up())
    world.later(3)
    assert world.places() == {"j1": "n/cuda0"}


def test_readings_of_any_age_change_the_state_no_faster() -> None:
    world = World()
    for number in range(300):
        world.uses["n/cuda0"] = ANN if number % 3 == 0 else FREE
        world.read(after_s=0.01, age_s=1000.0 if number % 3 == 1 else 0.0)
    assert world.changes() == ["device.in_use"]


def test_leftover_beside_others_that_toggle_changes_the_state_twice_at_most() -> None:
    world = World()
    left = DeviceUser(pid=50, name="python3", user="me", vram_gb=1.0, ours=True, attempt="j9.1")
    alone = DeviceTelemetry(vram_used_gb=1.1, users=(left,))
    for second in range(120):
        users = (left, *(ANN.users or ())) if second // 3 % 2 else (left,)
        world.uses["n/cuda0"] = replace(ANN, users=users) if len(users) > 1 else alone
        world.read(after_s=1.0)
    assert 1 <= len(world.changes()) <= 2


def test_job_whose_own_processes_are_taken_for_others_yields_three_times_at_most() -> None:
    world = World(devices=2, yield_to_others=True)
    world.submit(script("docker", checkpoints=True))
    for _ in range(12):
        job = world.state.jobs["j1"]
        if job.attempt is not None and job.state is JobState.LEASED:
            world.tell(Started(attempt=job.attempt.id, pid=1, pid_start=1))
        place = world.places().get("j1")
        world.uses = {name: ANN if name == place else FREE for name in world.uses}
        world.read()
        for stop in [each for each in world.commands if isinstance(each, Stop)]:
            world.tell(ended(stop.attempt, reason="stopped", exit_code=None, error="preempted"))
        world.uses = dict.fromkeys(world.uses, FREE)
        world.later(CLEAR_S + 10)
    assert world.state.jobs["j1"].preempted == 3
    assert world.job_state("j1") is JobState.RUNNING


def test_card_that_its_node_has_no_more_is_not_shown_as_used() -> None:
    world = World(devices=2)
    world.uses["n/cuda1"] = ANN
    world.read()
    world.tell(NodeFound(node=replace(world.spec, devices=world.spec.devices[:1])))
    assert device_view(world.state, world.core.index, world.state.devices["n/cuda1"]).foreign_use is None
    assert [each for each in bans(world.state, world.core.index) if each.kind == "foreign use"] == []


def test_ignored_use_is_neither_read_nor_noted() -> None:
    world = World(foreign_use="ignore")
    world.uses["n/cuda0"] = ANN
    world.read()
    world.submit(script())
    assert (world.places(), world.reads, world.changes()) == ({"j1": "n/cuda0"}, 0, [])


def test_yielding_stops_work_that_saves_checkpoints() -> None:
    world = World(devices=2, yield_to_others=True)
    world.submit(script("saves", checkpoints=True), script("does not"))
    attempts = [Started(attempt=f"j{number}.1", pid=number, pid_start=1) for number in (1, 2)]
    world.tell(*attempts)
    world.uses = dict.fromkeys(world.uses, ANN)
    world.read()
    assert [each for each in world.commands if isinstance(each, Stop)] == [
        Stop(node="n", attempt="j1.1", reason="preempted")
    ]
    (asked,) = world.of(events.PreemptRequested)
    assert asked.why == f"others use {world.places()['j1']}: python of ann (pid 4711)"


def test_sweep_is_kept_off_a_used_gpu_and_continues_on_its_own() -> None:
    world = World(devices=2)
    world.uses["n/cuda0"] = ANN
    world.submit(sweep())
    leased = {entry.event.device for entry in world.entries if isinstance(entry.event, events.ChunkLeased)}
    assert leased == {"n/cuda1"}


def test_views_name_the_use_as_it_was_read_last() -> None:
    world = World()
    world.uses["n/cuda0"] = ANN
    world.read()
    since = world.now
    bob = DeviceUser(pid=5, name="train", user="bob", vram_gb=4.0, ours=False)
    world.uses["n/cuda0"] = DeviceTelemetry(vram_used_gb=4.1, users=(bob,))
    world.later(10)
    shown = device_view(world.state, world.core.index, world.state.devices["n/cuda0"]).foreign_use
    assert shown is not None
    assert (shown.kind, shown.since, shown.who, shown.vram_gb) == ("others", since, "train of bob (pid 5)", 4.0)
    summary = explain_device(world.state, world.core.index, world.state.devices["n/cuda0"]).summary
    assert "used by others" in summary


def test_nodes_that_read_nothing_get_work_without_a_reading() -> None:
    driver = Driver()
    link = LinkUp(node="n", agent="a", incarnation=1, boot="b", attempts=(), chunks=())
    driver.tell(Begin(version="test", epoch=1), NodeFound(node=node(kind=DeviceKind.CUDA, vram_gb=24.0)), link)
    driver.submit(script())
    assert driver.job_state("j1") is not JobState.PENDING
