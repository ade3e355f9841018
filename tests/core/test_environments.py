"""Python environments of jobs: ordered where they are needed, held where their build failed, and nowhere else."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from hostler.core.explain import explain_job
from hostler.core.notes import notes_of
from hostler.core.shown import bans
from hostler.core.slices import finished
from hostler.model import events, inputs
from hostler.model.commands import AttemptOrder, Launch, Setup
from hostler.model.errors import SpecError
from hostler.model.work import EnvironmentFile, FailureClass, JobSpec, JobState, ScriptPayload, SubmitterShell
from hostler.policy.retry import ENVIRONMENT_HELD_S
from tests.core.builders import Driver, ended, link_up, node, replayed, snapshot

SNAPSHOT, OTHER = "a" * 64, "b" * 64
FILE = EnvironmentFile(file="requirements.txt", sha256="c" * 64)
WHY = "python ended with status 1\nERROR: no such distribution"


def job(*argv: str, **payload: Any) -> JobSpec:
    values = {"snapshot": SNAPSHOT, **payload}
    return JobSpec(name="train", payload=ScriptPayload(schema=1, argv=argv or ("python", "train.py"), **values))


def world(*names: str, **fields: Any) -> Driver:
    """Nodes of one slot, by default on other machines."""
    driver = Driver()
    driver.tell(inputs.Begin(version="test", epoch=1))
    for name in names or ("rig",):
        spec = replace(node(name), **{"backend": "ssh", "apart": True, "python": "/opt/py", **fields})
        driver.tell(inputs.NodeFound(node=spec), link_up(name, agent=name))
    return driver


def orders(driver: Driver) -> list[AttemptOrder]:
    return [each.order for each in driver.commands if isinstance(each, Launch)]


def order(driver: Driver, spec: JobSpec) -> AttemptOrder:
    driver.submit(spec)
    (found,) = orders(driver)
    return found


def build_fails(driver: Driver, attempt: str) -> None:
    driver.tell(ended(attempt, exit_code=125, reason="environment", error=WHY))


def test_environment_that_was_found_is_ordered_on_another_machine() -> None:
    found = order(world(), job(environment=FILE))
    assert found.setup == Setup(python="/opt/py", file="requirements.txt")
    assert found.argv == ("python", "train.py"), "that of the environment"


def test_environment_that_was_found_is_not_ordered_on_the_controllers_machine() -> None:
    shell = SubmitterShell(program="/mine/python", env={"PATH": "/mine"})
    found = order(world(backend="local", apart=False), job(environment=FILE, submitter=shell))
    assert (found.setup, found.argv[0]) == (None, "/mine/python")


def test_environment_that_was_asked_for_is_ordered_everywhere() -> None:
    shell = SubmitterShell(program="/mine/python", env={"PATH": "/mine"})
    asked = job(python_env="requirements.txt", environment=FILE, submitter=shell)
    found = order(world(backend="local", apart=False), asked)
    assert found.setup == Setup(python="/opt/py", file="requirements.txt")
    assert (found.argv[0], found.env["PATH"]) == ("python", "/mine")


def test_imports_are_checked_where_no_environment_is_stated() -> None:
    found = order(world(), job())
    assert found.setup == Setup(python="/opt/py", checked_as=SNAPSHOT)
    assert found.argv == ("/opt/py", "train.py")


@pytest.mark.parametrize(
    "spec",
    [job("sh", "-c", "true"), job(python_env="none"), job(python_env="none", environment=FILE), job(snapshot=None)],
)
def test_nothing_is_set_up_for_other_commands_nor_for_who_wants_none(spec: JobSpec) -> None:
    assert order(world(), spec).setup is None


def test_python_of_a_job_with_a_path_of_its_own_is_left_to_that() -> None:
    assert order(world(), job(env={"PATH": "/opt/bin"})).argv[0] == "python"


def test_failed_build_fails_the_job_once_and_keeps_the_environment_off_its_node() -> None:
    driver = world("rig", "far")
    (first,) = driver.submit(job(environment=FILE))
    place = driver.state.jobs[first].attempt
    assert place is not None
    name = driver.state.devices[place.device].spec.node
    build_fails(driver, f"{first}.1")
    assert driver.state.jobs[first].failure is FailureClass.IMPORT
    assert driver.job_state(first) is JobState.FAILED
    (held,) = driver.of(events.EnvironmentHeld)
    assert (held.node, held.environment, held.until) == (name, FILE.sha256, driver.now + ENVIRONMENT_HELD_S)
    assert "no such distribution" in (driver.state.jobs[first].why or "")
    assert not driver.state.trust.doubts, "no device is worse for it"
    # The other node takes it, what has another environment, or none, goes on here.
    (second,) = driver.submit(job(environment=FILE, snapshot=OTHER))
    attempt = driver.state.jobs[second].attempt
    assert attempt is not None
    assert driver.state.devices[attempt.device].spec.node != name
    (third,) = driver.submit(job(environment=replace(FILE, sha256="d" * 64)))
    attempt = driver.state.jobs[third].attempt
    assert attempt is not None
    assert driver.state.devices[attempt.device].spec.node == name


def test_held_environment_waits_and_lets_others_pass() -> None:
    driver = world()
    (first,) = driver.submit(job(environment=FILE))
    build_fails(driver, f"{first}.1")
    held, other = driver.submit(job(environment=FILE), job(environment=replace(FILE, sha256="d" * 64)))
    assert (driver.job_state(held), driver.job_state(other)) == (JobState.PENDING, JobState.LEASED)
    driver.tell(ended(f"{other}.1"))
    driver.tell(inputs.Fetched(attempt=f"{other}.1"))
    assert driver.job_state(held) is JobState.PENDING
    says = explain_job(driver.state, driver.core.index, driver.state.jobs[held])
    assert says.gates is not None
    assert "environment" in str(says)
    (ban,) = [each for each in bans(driver.state, driver.core.index) if each.kind == "environment"]
    assert (ban.what, ban.of) == ("rig", first)
    assert f"hostler retry {first}" in ban.why
    # Time alone ends it.
    driver.tell(inputs.Tick(), after_s=ENVIRONMENT_HELD_S)
    assert driver.job_state(held) is JobState.LEASED
    assert not [each for each in bans(driver.state, driver.core.index) if each.kind == "environment"]


def test_retry_of_the_job_ends_the_hold() -> None:
    driver = world()
    (first,) = driver.submit(job(environment=FILE))
    build_fails(driver, f"{first}.1")
    (held,) = driver.submit(job(environment=FILE))
    driver.tell(inputs.Retry(job=first))
    assert driver.state.environments == {}
    assert {driver.job_state(first), driver.job_state(held)} == {JobState.LEASED, JobState.PENDING}


def test_hold_survives_journal_and_snapshot() -> None:
    driver = world()
    (first,) = driver.submit(job(environment=FILE))
    build_fails(driver, f"{first}.1")
    (held,) = driver.submit(job(environment=FILE))
    for core in (replayed(driver.entries), replayed((), snapshot(driver.state))):
        assert core.state.environments == driver.state.environments
        again = Driver(core, driver.now)
        again.tell(link_up("rig", agent="rig"))
        assert again.job_state(held) is JobState.PENDING
        again.tell(inputs.Tick(), after_s=ENVIRONMENT_HELD_S)
        assert again.job_state(held) is JobState.LEASED


def test_missing_modules_are_told_with_the_node_and_tried_on_another() -> None:
    driver = world("rig", "far")
    (name,) = driver.submit(job())
    missing = {"exit_code": 125, "reason": "imports", "error": "python3.11 lacks torch, numpy"}
    driver.tell(ended(f"{name}.1", **missing))
    assert driver.job_state(name) is JobState.PENDING
    driver.tell(inputs.Tick(), after_s=60.0)
    attempt = driver.state.jobs[name].attempt
    assert attempt is not None
    second = driver.state.devices[attempt.device].spec.node
    driver.tell(ended(f"{name}.2", **missing))
    assert driver.job_state(name) is JobState.FAILED
    assert (driver.state.jobs[name].why or "").startswith(f"{second}: python3.11 lacks torch, numpy. ")
    assert driver.state.environments == {}


def test_environment_told_of_by_a_node_for_a_job_without_one_holds_nothing() -> None:
    driver = world()
    (name,) = driver.submit(job())
    build_fails(driver, f"{name}.1")
    assert driver.job_state(name) is JobState.FAILED
    assert driver.state.environments == {}


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"snapshot": None, "python_env": "requirements.txt"}, "neither a snapshot"),
        ({"python_env": "a/../../b"}, "out"),
    ],
)
def test_environment_of_no_folder_is_refused(fields: dict[str, Any], reason: str) -> None:
    with pytest.raises(SpecError, match=reason):
        world().submit(job(**fields))


def test_key_submitted_with_another_environment_is_the_job_it_was() -> None:
    driver = world()
    first = driver.submit(replace(job(environment=FILE), key="k"))
    assert driver.submit(replace(job(environment=replace(FILE, sha256="d" * 64)), key="k")) == first


def test_note_on_a_failed_environment_is_a_sentence_that_names_the_node() -> None:
    driver = world("here")
    (first,) = driver.submit(job(environment=FILE))
    build_fails(driver, f"{first}.1")
    (second,) = driver.submit(job(environment=FILE))
    (found,) = finished(notes_of(driver.state, driver.core.index, [driver.state.jobs[second]]))
    assert re.fullmatch(
        r"the environment of requirements\.txt could not be built on node here for j1 \(.*\); it is built again in "
        r"29m 59s, or at once by `hostler retry j1` \(environment, \d devices?\)",
        found.why,
    )
    assert "mend node here" in (driver.state.jobs[first].why or "")
