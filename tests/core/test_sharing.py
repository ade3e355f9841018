"""Owners of jobs: what is submitted has one, and only they and admins change it where jobs are not shared."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, get_args

import pytest

from hostler.core.access import sharing
from hostler.core.snapshot import dump_state, load_state
from hostler.model import inputs
from hostler.model.access import Scope
from hostler.model.errors import Conflict, HostlerError, NotOwner
from hostler.model.groups import GroupSpec
from tests.core.builders import Driver, fleet, link_up, replayed, script, sweep
from tests.core.test_past import ONCE, Keeper

WISHES = get_args(inputs.Wish)


def lab(shared_jobs: bool | None = None, owners: tuple[str | None, ...] = ("anna", "ben")) -> Driver:
    """A fleet of the user `ops`, with a token of each owner."""
    world = fleet(devices=0)
    begin = inputs.Begin(version="test", epoch=1, user="ops", shared_jobs=shared_jobs)
    tokens = (
        inputs.CreateToken(name=f"t{i}", sha256=str(i) * 64, scope=Scope.OPERATE, owner=owner)
        for i, owner in enumerate(owners)
    )
    world.tell(begin, *tokens)
    return world


def ask(world: Driver, owner: str | None, wish: Any, scope: Scope = Scope.OPERATE) -> Any:
    world.tell(inputs.Asked(who=f"{owner}-token", what="something", owner=owner, scope=scope, given=wish))
    return world.answers[0]


def submitted(world: Driver, owner: str | None = "anna") -> None:
    """Jobs j1 (failed), j2 (a sweep), and the group g1 of j3, j4 (cancelled) and j5."""
    ask(world, owner, inputs.Submit(specs=(script("a"), sweep("b", stop=10))))
    ask(world, owner, inputs.SubmitGroup(spec=GroupSpec(name="g"), jobs=tuple(map(script, "cde"))))
    ask(world, owner, inputs.Cancel(job="j4"))
    ask(world, owner, inputs.Cancel(job="j1"))


CHANGES = (
    inputs.Cancel(job="j2"),
    inputs.Cancel(job="b"),
    inputs.Retry(job="j1"),
    inputs.SetPriority(job="j2", priority=5),
    inputs.CancelGroup(group="g1"),
    inputs.RetryGroup(group="g1"),
)


def test_every_request_is_known_to_change_jobs_of_an_owner_or_not() -> None:
    assert set(sharing.ACTS) | sharing.OTHERS == set(WISHES)
    assert not sharing.ACTS.keys() & sharing.OTHERS
    named = {wish for wish in WISHES if {"job", "group"} & {field.name for field in fields(wish)}}
    assert named == set(sharing.ACTS), "a request that names a job or a group changes it"
    assert {type(each) for each in CHANGES} == set(sharing.ACTS), "each is tested below"


@pytest.mark.parametrize("wish", CHANGES, ids=repr)
def test_job_of_another_owner_is_not_changed(wish: Any) -> None:
    world = lab()
    submitted(world)
    seq = world.state.seq
    answer = ask(world, "ben", wish)
    assert type(answer) is NotOwner
    assert "belongs to anna" in str(answer)
    assert "scope admin" in str(answer)
    assert "shared_jobs" in str(answer)
    assert world.state.seq == seq


@pytest.mark.parametrize("wish", CHANGES, ids=repr)
@pytest.mark.parametrize(
    ("owner", "scope", "shared"),
    [("anna", Scope.OPERATE, None), ("ben", Scope.ADMIN, False), ("ben", Scope.OPERATE, True)],
)
def test_job_is_changed_by_its_owner_by_admins_and_where_jobs_are_shared(
    owner: str, scope: Scope, shared: bool | None, wish: Any
) -> None:
    world = lab(shared_jobs=shared)
    submitted(world)
    assert not isinstance(ask(world, owner, wish, scope), HostlerError)


def test_owner_is_in_the_journal_with_jobs_and_groups() -> None:
    world = lab()
    submitted(world)
    ask(world, None, inputs.Submit(specs=(script("own"),)))
    owners = [world.state.jobs[f"j{number}"].owner for number in range(1, 7)]
    assert owners == ["anna"] * 5 + ["ops"], "who has the controller's token is the user that it runs as"
    assert world.state.groups["g1"].owner == "anna"
    assert replayed(world.entries).state == world.state
    assert load_state(dump_state(world.state)) == world.state


@pytest.mark.parametrize(
    ("owners", "shared"),
    [((), True), ((None, "ops"), True), ((None, "anna"), False)],
)
def test_jobs_are_shared_as_long_as_no_token_has_another_owner(owners: tuple[str | None, ...], shared: bool) -> None:
    world = lab(owners=owners)
    submitted(world, owner="ops")
    answer = ask(world, "anna", inputs.Cancel(job="j2"))
    assert (answer is None) is shared


def test_a_token_that_has_expired_divides_nothing() -> None:
    world = lab(owners=())
    world.tell(inputs.CreateToken(name="x", sha256="a" * 64, scope=Scope.OPERATE, owner="anna", lifetime_s=60.0))
    submitted(world, owner="ops")
    assert type(ask(world, "anna", inputs.Cancel(job="j2"))) is NotOwner
    world.tell(after_s=61.0)
    assert ask(world, "anna", inputs.Cancel(job="j2")) is None


def test_job_without_an_owner_belongs_to_the_user_of_the_controller() -> None:
    world = lab()
    world.tell(inputs.Submit(specs=(script("a"),)))  # of a jobs file; and of versions that knew no owners
    assert world.state.jobs["j1"].owner is None
    assert type(ask(world, "ben", inputs.Cancel(job="j1"))) is NotOwner
    assert ask(world, "ops", inputs.Cancel(job="j1")) is None


def test_what_there_is_not_is_refused_in_the_usual_words() -> None:
    world = lab()
    submitted(world)
    for wish in (inputs.Cancel(job="j99"), inputs.CancelGroup(group="g99")):
        assert "there is no job" in str(ask(world, "ben", wish))
    assert type(ask(world, "anna", inputs.Cancel(job="j1"))) is Conflict


def test_job_that_has_left_comes_back_for_its_owner_only() -> None:
    keeper = Keeper()
    keeper.tell(inputs.Begin(version="test", epoch=1, user="ops", shared_jobs=False), link_up())

    def asked(owner: str, wish: Any) -> inputs.Asked:
        return inputs.Asked(who="t", what="something", owner=owner, given=wish)

    keeper.ask(asked("anna", inputs.Submit(specs=(script("a", retry=ONCE),))))
    keeper.finish(exit_code=1)
    keeper.rest()
    assert "j1" not in keeper.state.jobs
    seq = keeper.state.seq
    with pytest.raises(NotOwner, match="j1 belongs to anna"):
        keeper.ask(asked("ben", inputs.Retry(job="j1")))
    assert keeper.state.seq == seq
    keeper.ask(asked("anna", inputs.Retry(job="j1")))
    assert not keeper.state.jobs["j1"].state.final
    assert keeper.state.jobs["j1"].owner == "anna"
