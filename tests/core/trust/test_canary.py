"""Devices that must be proved: nothing is put on them before, whatever happens to their node, and everybody is told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from hostler.core.explain import explain_job
from hostler.core.explain_device import explain_device, find_device
from hostler.core.shown import bans
from hostler.core.trust import decide as trust
from hostler.core.views import node_views
from hostler.model import events, inputs
from hostler.model.commands import Prove
from hostler.model.errors import BrokenInvariant, IllegalTransition
from hostler.model.events import Entry
from hostler.model.fleet import NodeSpec
from hostler.model.work import DeviceKind, JobState, Resources
from hostler.policy.fit import Gate

from ..builders import Driver, ended, link_up, node, replayed, script, snapshot, sweep
from .test_trust import failed, running

GPU = Resources(device="gpu")
WRONG = "wrong answer: it found 3 where 7 was planted"


def gpus(name: str = "n", devices: int = 1, canary: tuple[str, ...] | None = (), **fields: Any) -> NodeSpec:
    """A node whose GPUs must be proved."""
    return replace(node(name, devices=devices, kind=DeviceKind.CUDA, vram_gb=24.0), canary=canary, **fields)


def world(devices: int = 1, **fields: Any) -> Driver:
    driver = Driver()
    found = inputs.NodeFound(node=gpus(devices=devices, **fields))
    driver.tell(inputs.Begin(version="test", epoch=1), found, link_up())
    return driver


def asked(driver: Driver) -> list[str]:
    """Devices whose canary was ordered in the last step."""
    return [each.order.device for each in driver.commands if isinstance(each, Prove)]


def right(*devices: str) -> Sequence[inputs.DeviceProved]:
    return [inputs.DeviceProved(device=device, ok=True, seconds=0.2) for device in devices or ("n/cuda0",)]


def wrong(device: str = "n/cuda0", why: str = WRONG) -> inputs.DeviceProved:
    return inputs.DeviceProved(device=device, ok=False, why=why, seconds=0.2)


def wait(driver: Driver, seconds: float) -> None:
    driver.tell(inputs.Tick(), after_s=seconds)


def another_boot(agent: str = "a", boot: str = "another") -> inputs.LinkUp:
    return inputs.LinkUp(node="n", agent=agent, incarnation=2, boot=boot, attempts=(), chunks=())


def test_a_node_without_a_canary_is_as_before() -> None:
    driver = world(canary=None)
    assert asked(driver) == []
    driver.submit(script(resources=GPU))
    assert running(driver) == {"j1.1": "n/cuda0"}
    assert driver.state.trust.proofs == {}


def test_work_waits_until_the_canary_has_given_the_right_answer() -> None:
    driver = world(devices=2)
    assert asked(driver) == ["n/cuda0", "n/cuda1"]
    driver.submit(script(resources=GPU), sweep())
    assert asked(driver) == [], "once is enough"
    assert running(driver) == {}
    assert driver.state.sweeps["j2"].leases == {}
    driver.tell(*right("n/cuda1"))
    assert [event.device for event in driver.of(events.DeviceProved)] == ["n/cuda1"]
    assert {lease.device for lease in driver.state.sweeps["j2"].leases.values()} | set(running(driver).values()) == {
        "n/cuda1"
    }


def test_the_order_is_complete() -> None:
    own = world(devices=2, canary=("{python}", "-m", "mine"), python="py", env={"A": "b"})
    orders = [each.order for each in own.commands if isinstance(each, Prove)]
    assert [(each.queue, each.kind, each.argv) for each in orders] == [
        ("cuda0", DeviceKind.CUDA, ("py", "-m", "mine")),
        ("cuda1", DeviceKind.CUDA, ("py", "-m", "mine")),
    ]
    assert [dict(each.env) for each in orders] == [
        {"A": "b", "CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": str(at)} for at in range(2)
    ]
    built_in = [each.order.argv for each in world().commands if isinstance(each, Prove)]
    assert built_in == [()]


def test_a_device_that_fails_is_tried_again_after_ever_longer_rests() -> None:
    driver = world()
    rests = []
    for _ in range(8):
        driver.tell(wrong())
        (event,) = driver.of(events.DeviceProved)
        assert event.again_at is not None
        rests.append(event.again_at - driver.now)
        wait(driver, rests[-1] - 1.0)
        assert asked(driver) == []
        due = driver.core.wake_at()
        assert due == event.again_at
        wait(driver, 1.0)
        assert asked(driver) == ["n/cuda0"]
    assert rests == [30, 60, 120, 240, 480, 960, 1800, 1800]
    driver.submit(script(resources=GPU))
    assert running(driver) == {}
    driver.tell(*right())
    assert running(driver) == {"j1.1": "n/cuda0"}


def test_a_new_link_asks_again_at_once() -> None:
    driver = world(devices=3)
    driver.tell(*right("n/cuda0"), wrong("n/cuda1"))
    driver.tell(inputs.LinkDown(node="n", why="cut"))
    wait(driver, 100.0)
    assert asked(driver) == []
    driver.tell(link_up())
    assert asked(driver) == ["n/cuda1", "n/cuda2"], "the one that failed, and the one of which nothing is known"


@pytest.mark.parametrize("again", [another_boot(), another_boot(agent="b", boot="b")], ids=["boot", "agent"])
def test_a_proof_holds_for_one_boot_and_one_agent(again: inputs.LinkUp) -> None:
    driver = world()
    driver.tell(*right())
    driver.tell(inputs.LinkDown(node="n", why="cut"))
    driver.tell(again)
    assert asked(driver) == ["n/cuda0"]
    driver.submit(script(resources=GPU))
    assert running(driver) == {}
    driver.tell(*right())
    assert running(driver) == {"j1.1": "n/cuda0"}


def test_a_restarted_controller_leaves_alone_what_works_on_a_proved_device() -> None:
    driver = world(devices=2)
    driver.tell(*right("n/cuda0"))
    driver.submit(script(resources=GPU), script(resources=GPU))
    assert running(driver) == {"j1.1": "n/cuda0"}
    again = Driver(replayed(driver.entries), driver.now)
    again.tell(
        inputs.Begin(version="test", epoch=2), inputs.NodeFound(node=gpus(devices=2)), link_up(attempts=["j1.1"])
    )
    assert asked(again) == ["n/cuda1"]
    again.tell(ended("j1.1"))
    assert running(again) == {"j2.1": "n/cuda0"}
    assert snapshot(again.state).trust == again.state.trust


def test_a_canary_never_runs_beside_work() -> None:
    driver = world(canary=None)
    driver.submit(script(resources=GPU), script(resources=GPU))
    driver.tell(inputs.NodeFound(node=gpus()))
    assert asked(driver) == []
    assert trust.gate(driver.state, "n/cuda0", driver.now) is not None
    driver.tell(ended("j1.1"))
    assert (asked(driver), running(driver)) == (["n/cuda0"], {}), (
        "once it is free it is proved, and only then given more"
    )
    driver.tell(*right())
    assert running(driver) == {"j2.1": "n/cuda0"}


def test_another_device_in_the_same_place_is_proved_anew() -> None:
    driver = world(devices=2)
    driver.tell(*right("n/cuda0", "n/cuda1"))
    first, second = gpus(devices=2).devices
    driver.tell(inputs.NodeFound(node=replace(gpus(), devices=(first, replace(second, model="another")))))
    assert asked(driver) == ["n/cuda1"]
    driver.tell(inputs.NodeFound(node=gpus(canary=None)))
    assert driver.state.trust.proofs == {}
    assert trust.gate(driver.state, "n/cuda0", driver.now) is None


def test_an_answer_that_nobody_waits_for_says_nothing() -> None:
    driver = world()
    driver.tell(*right())
    driver.tell(wrong())
    driver.tell(wrong("n/cuda7"), wrong("who/cuda0"))
    assert driver.events == []
    driver.tell(another_boot(), inputs.LinkDown(node="n", why="cut"))
    driver.tell(inputs.Drain(), another_boot(boot="third"))
    assert asked(driver) == [], "a controller that leaves begins nothing"
    driver.tell(*right())
    assert driver.events == []


def in_quarantine() -> Driver:
    """n/cuda0 has a canary, and has just been quarantined for what failed on it; m/cuda0 does well."""
    driver = world()
    driver.tell(inputs.NodeFound(node=gpus("m", canary=None)), link_up("m", agent="m"), *right())
    driver.submit(*(script(f"render {n}", resources=GPU) for n in range(8)))
    ruin(driver)
    assert driver.state.trust.doubts["n/cuda0"].until is not None
    return driver


def ruin(driver: Driver) -> None:
    """Whatever runs on n/cuda0 fails, what runs elsewhere succeeds, until nothing runs."""
    while held := running(driver):
        for attempt, device in held.items():
            driver.tell(failed(attempt) if device == "n/cuda0" else ended(attempt))


def test_after_a_quarantine_the_canary_is_the_probe() -> None:
    driver = in_quarantine()
    driver.submit(*(script(f"bake {n}", resources=GPU) for n in range(9)))
    assert asked(driver) == []
    refused = trust.gate(driver.state, "n/cuda0", driver.now)
    assert refused is not None
    assert refused.gate is Gate.QUARANTINE
    wait(driver, 600.0)
    assert asked(driver) == ["n/cuda0"]
    assert "n/cuda0" not in running(driver).values()
    refused = trust.gate(driver.state, "n/cuda0", driver.now)
    assert refused is not None
    assert refused.gate is Gate.CANARY
    driver.tell(*right())
    (trusted,) = driver.of(events.DeviceTrusted)
    assert (trusted.why, trusted.bans) == ("its canary succeeded on it", 1)
    assert "n/cuda0" in running(driver).values()


def test_a_canary_that_fails_after_a_quarantine_keeps_the_device_out() -> None:
    driver = in_quarantine()
    wait(driver, 600.0)
    driver.tell(wrong())
    driver.submit(*(script(f"bake {n}", resources=GPU) for n in range(3)))
    assert "n/cuda0" not in running(driver).values()
    wait(driver, 30.0)
    assert asked(driver) == ["n/cuda0"]


def test_what_a_canary_does_not_see_is_remembered_until_work_succeeds() -> None:
    driver = in_quarantine()
    wait(driver, 600.0)
    driver.tell(*right())
    driver.submit(*(script(f"render {n}", resources=GPU) for n in range(8, 16)))
    ruin(driver)
    doubt = driver.state.trust.doubts["n/cuda0"]
    assert doubt.until is not None
    assert doubt.since is not None
    assert (doubt.bans, doubt.until - doubt.since) == (2, 1200.0), "as long as if a job had failed as the probe"
    wait(driver, 1200.0)
    driver.tell(*right())
    driver.submit(script("render 99", resources=GPU), script("render 100", resources=GPU))
    for attempt in running(driver):
        driver.tell(ended(attempt))
    assert driver.state.trust.doubts == {}


def test_everybody_is_told_why() -> None:
    driver = world()
    driver.submit(script(resources=GPU))
    job, device = driver.state.jobs["j1"], find_device(driver.state, "n/cuda0")
    state, index = driver.state, driver.core.index

    def said() -> str:
        return explain_job(state, index, job).devices["n/cuda0"]

    assert "canary: n/cuda0 has not been proved yet" in said()
    (ban,) = bans(state, index)
    assert (ban.kind, ban.what, ban.owner, ban.until) == ("canary", "n/cuda0", "scheduler", None)
    driver.tell(wrong())
    assert f"n/cuda0 failed its canary: {WRONG}; mend it, it is tried again in 30 s" in said()
    assert "failed its canary" in explain_device(state, index, device).summary
    assert any("the canary of n/cuda0" in each.what for each in explain_job(state, index, job).changes)
    (ban,) = bans(state, index)
    assert (ban.until, WRONG in ban.why) == (driver.now + 30.0, True)
    assert node_views(state, index)[0].devices[0].canary == ban
    driver.tell(inputs.LinkDown(node="n", why="cut"))
    driver.tell(link_up())
    driver.tell(*right())
    assert bans(state, index) == []
    assert node_views(state, index)[0].devices[0].canary is None


def test_a_lease_of_a_device_that_is_not_proved_fits_no_state() -> None:
    driver = world()
    driver.submit(script(resources=GPU))
    lease = events.AttemptLeased(job="j1", attempt="j1.1", device="n/cuda0", why="a bug")
    with pytest.raises(IllegalTransition, match="has not given the right answer"):
        driver.core.replay([Entry(seq=driver.state.seq + 1, at=driver.now, event=lease)])


def test_the_invariants_see_it() -> None:
    driver = world()
    driver.tell(*right())
    driver.submit(script(resources=GPU))
    proof = driver.state.trust.proofs["n/cuda0"]
    proof.ok = False
    with pytest.raises(BrokenInvariant, match=r"j1\.1 was put on n/cuda0, which has not been proved"):
        driver.core.validate()
    proof.ok = True
    assert driver.job_state("j1") is JobState.LEASED
    driver.state.trust.proofs.clear()
    with pytest.raises(BrokenInvariant, match="to be proved are"):
        driver.core.validate()
