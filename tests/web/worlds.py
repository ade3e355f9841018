"""A world in which every list of the API has rows: what tests of the whole interface look at."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from functools import cache

from hostler.model import inputs
from hostler.model.access import Scope
from hostler.model.alert_views import TargetView
from hostler.model.alerts import USUAL_ALERTS, Severity
from hostler.model.inputs import Input, Submit
from hostler.model.rules import USUAL
from hostler.model.work import DeviceKind, FailureClass, Retry
from tests.core.builders import ended, link_up, node, script, sweep
from tests.core.loop.builders import Loop, loop, small
from tests.web.core_desk import CoreDesk

HOSTILE = "\"><script>alert('x')</script>\x1b[2J\u202e ünï/../%2e"
SCRIPT, SWEEP, WAITING = "script/1 ü", "the sweep", "waits"
"""Keys of jobs: one that failed, a sweep at work, and one that waits for it."""


def whole_world() -> CoreDesk:
    """The world, for whoever asks to change as they like."""
    return deepcopy(_world())


@cache
def _world() -> CoreDesk:
    """A loop that has learnt, nodes with GPUs, one of them lost, jobs of all sorts, and what people did about it."""
    driver = loop(small(), small("other_2p"), devices=3)
    driver.until(lambda: len(driver.config().models) > 1 and len(driver.config().datasets) > 1)
    tell(driver, inputs.Configure(rules=replace(USUAL, alerts=USUAL_ALERTS)))
    for name, provider, price in (("gpu", "vast", 2.0), ("other gpu", None, None), ("lost", "vast", 1.0)):
        spec = replace(node(name, 2, DeviceKind.CUDA, 80.0), provider=provider, price_per_h=price)
        tell(driver, inputs.NodeFound(node=spec), link_up(name))
    once = Retry(max_attempts={FailureClass.EXIT: 1})
    jobs = (script(HOSTILE, key=SCRIPT, retry=once), sweep("sweep", key=SWEEP, stop=2**70, chance=2.0**-60))
    (answer,) = tell(driver, Submit(specs=(*jobs, script("waits", key=WAITING, after=(SWEEP,)))))
    first, searching, _ = answer
    driver.until(lambda: driver.state.jobs[first].attempt and driver.state.sweeps[searching].leases)
    for _ in range(2):
        chunk, start, _ = driver.chunk(searching)
        tell(driver, driver.searched(chunk, hits=[{"at": start + n, "note": HOSTILE} for n in range(3)]))
    attempt = driver.state.jobs[first].attempt
    assert attempt is not None
    tell(driver, ended(attempt.id, exit_code=3))
    _by_people(driver)
    desk = CoreDesk(driver)
    desk.logs[attempt.id, "out"] = b"\xff\x00" + HOSTILE.encode() * 20
    desk.told = [_target("phone"), _target("team")]
    return desk


def tell(driver: Loop, *given: Input) -> list[object]:
    """Let something happen that is not refused."""
    driver.tell(*given)
    assert not [each for each in driver.answers if isinstance(each, Exception)], driver.answers
    return driver.answers


def _by_people(driver: Loop) -> None:
    tell(driver, inputs.LinkDown(node="lost", why=HOSTILE))
    for _ in range(20):
        driver.tell(inputs.Tick(), after_s=30.0)
    assert driver.state.alerts.firing
    tell(driver, inputs.SilenceAlerts(rule="*", subject="nothing", for_s=86_000.0, why=HOSTILE, who="ann"))
    tell(driver, inputs.SilenceAlerts(rule="gpu_idle", subject=None, for_s=86_000.0, why="a fan", who="ann"))
    tell(driver, inputs.PauseConfig(config="other_2p", why=HOSTILE, who="ann", for_s=None))
    tell(driver, inputs.CordonNode(node="other gpu", why="a new fan", who=None))
    for name in ("one", "two"):
        tell(driver, inputs.CreateToken(name=name, sha256=name.encode().hex().ljust(64, "0"), scope=Scope.READ))
    for what in ("submit_jobs", "cordon_node other gpu"):
        tell(
            driver, inputs.Asked(who="ann", what=what, key=None, fingerprint=None, given=inputs.ResumeNode(node="gpu"))
        )


def _target(name: str) -> TargetView:
    return TargetView(
        name=name, kind="ntfy", least=Severity.WARNING, through=0, waiting=0, sent=0, given_up=0,
        sent_at=None, failing_since=None, trouble=None,
    )  # fmt: skip
