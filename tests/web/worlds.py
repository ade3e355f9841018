"""A world in which every list of the API has rows: what tests of the whole interface look at."""

from __future__ import annotations

import hashlib
from copy import deepcopy
from dataclasses import replace
from functools import cache

from hostler.model import inputs
from hostler.model.access import Scope
from hostler.model.alert_views import TargetView
from hostler.model.alerts import USUAL_ALERTS, Severity
from hostler.model.artifacts import Copy
from hostler.model.disks import DoomedFile, TombView
from hostler.model.groups import GroupSpec, SubmitGroup
from hostler.model.inputs import Input, Submit
from hostler.model.rules import USUAL
from hostler.model.work import DeviceKind, FailureClass, Retry, WorkKind
from tests.core.builders import ended, link_up, node, script, sweep
from tests.core.loop.builders import Loop, loop, small
from tests.web.core_desk import CoreDesk
from tests.web.kept import made
from tests.web.rl.builders import line, output

HOSTILE = "\"><script>alert('x')</script>\x1b[2J\u202e ünï/../%2e"
SCRIPT, SWEEP, WAITING, RL = "script/1 ü", "the sweep", "waits", "rooms/1"
"""Keys of jobs: one that failed, a sweep at work, one that waits for it, and one that learns by reinforcement."""

FILES = (HOSTILE.encode() * 50,)
"""What the controller's store holds of all that the catalogue knows."""
ARTIFACT = hashlib.sha256(FILES[0]).hexdigest()


def whole_world() -> CoreDesk:
    """The world, for whoever asks to change as they like."""
    desk = deepcopy(_world())
    for name in ("hf", "other"):
        desk.secrets().set(name, f"the value of {name}")
    return desk


def grouped_world() -> CoreDesk:
    """The same with two job groups, `g1` and `g2`; one job of each was cancelled."""
    desk = whole_world()
    for _ in range(2):
        jobs = tuple(script(HOSTILE, after=(SWEEP,), parameters={"line": HOSTILE}) for _ in range(3))
        tell(desk.driver, SubmitGroup(spec=GroupSpec(name=HOSTILE, max_running=1), jobs=jobs))
        newest = list(desk.driver.state.groups.values())[-1]
        tell(desk.driver, inputs.Cancel(job=next(newest.jobs)))
    return desk


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
    learner = _learner(driver)
    _by_people(driver)
    player = f"gumbel-16@{driver.config().current}"
    assert made(driver, *FILES, player=player, job=next(iter(driver.config().jobs))) == [ARTIFACT]
    desk = CoreDesk(driver)
    desk.files = list(FILES)
    desk.logs[attempt.id, "out"] = b"\xff\x00" + HOSTILE.encode() * 20
    desk.logs[learner, "out"] = output(5) + line({"trouble": HOSTILE}) + b"\xff{"
    desk.told = [_target("phone"), _target("team")]
    desk.may_go = [doomed(f"logs/j{number}.1/out", number) for number in range(3)]
    desk.buried = [buried("logs/j7.1/out"), buried("logs/j8.1/out")]
    return desk


def _learner(driver: Loop) -> str:
    """The attempt of a job that learns by reinforcement."""
    (learning,) = tell(driver, Submit(specs=(script("rooms", key=RL, work_as=WorkKind.RL, priority=100),)))[0]  # type: ignore[misc]
    driver.until(lambda: driver.state.jobs[learning].attempt)
    attempt = driver.state.jobs[learning].attempt
    assert attempt is not None
    return attempt.id


def doomed(path: str, size: int) -> DoomedFile:
    """A file that may go."""
    proof = (Copy(place="bucket", verified_at=1000.0), Copy(place="a place with a long name", verified_at=None))
    return DoomedFile(path=path, bytes=size, rule="log", why="a log", used_at=0.0, proof=proof)


def buried(path: str) -> TombView:
    """One that went."""
    return TombView(
        path=path, bytes=7, rule="log", why="a log", who=HOSTILE, buried_at=1.0, until=2e9, sha256=None, proof=()
    )


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
