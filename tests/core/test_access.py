"""Tokens, the audit, and answers under keys."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from hostler.core import Core
from hostler.core.access import folds
from hostler.core.access.views import audit_views, holder, token_views
from hostler.core.snapshot import dump_state, load_state
from hostler.model import events, inputs
from hostler.model.access import Holder, Scope
from hostler.model.errors import BrokenInvariant, Conflict, HostlerError, NotFound, UsageError
from hostler.model.work import JobState
from tests.core.builders import Driver, fleet, replayed, script

DAY = 86_400.0
A, B, C = "a" * 64, "b" * 64, "c" * 64


def create(name: str = "ci", sha256: str = A, scope: Scope = Scope.READ, **fields: Any) -> inputs.CreateToken:
    return inputs.CreateToken(name=name, sha256=sha256, scope=scope, **fields)


def ask(given: inputs.Wish, key: str | None = None, fingerprint: str | None = None, who: str = "ci") -> inputs.Asked:
    return inputs.Asked(who=who, what="something", key=key, fingerprint=fingerprint, given=given)


def submit(name: str = "script") -> inputs.Submit:
    return inputs.Submit(specs=(script(name),))


def refused(world: Driver, asked: inputs.Input, error: type[HostlerError], match: str) -> None:
    seq = world.state.seq
    world.tell(asked)
    (answer,) = world.answers
    assert type(answer) is error
    assert match in str(answer)
    assert world.state.seq == seq


class TestTokens:
    def test_a_token_lets_in_until_it_is_revoked(self) -> None:
        world = fleet()
        (made,) = world.tell(create(scope=Scope.OPERATE))
        assert made == events.TokenCreated(name="ci", sha256=A, scope=Scope.OPERATE, expires_at=None)
        assert world.answers == [A]
        assert holder(world.state, A, world.now) == Holder(name="ci", scope=Scope.OPERATE)
        assert holder(world.state, B, world.now) is None
        world.tell(inputs.RevokeToken(name="ci"))
        assert holder(world.state, A, world.now) is None
        assert token_views(world.state, world.now) == []
        assert replayed(world.entries).state == world.state

    def test_it_expires_by_the_cores_time(self) -> None:
        world = fleet()
        world.tell(create(lifetime_s=60.0))
        made_at = world.now
        assert holder(world.state, A, made_at + 59.9) is not None
        assert holder(world.state, A, made_at + 60.0) is None
        (shown,) = token_views(world.state, made_at + 60.0)
        assert (shown.name, shown.expires_at, shown.expired) == ("ci", made_at + 60.0, True)

    def test_names_are_unique_among_the_living(self) -> None:
        world = fleet()
        world.tell(create(lifetime_s=60.0))
        refused(world, create(sha256=B), Conflict, "hostler token revoke ci")
        world.tell(create(sha256=B), after_s=60.0)
        assert [view.expired for view in token_views(world.state, world.now)] == [False], "the old one is forgotten"
        world.tell(inputs.RevokeToken(name="ci"))
        world.tell(create(sha256=C))
        assert holder(world.state, C, world.now) is not None
        assert replayed(world.entries).state == world.state

    @pytest.mark.parametrize("name", ["local", "", "a b", "-a", "a/b", "ü", "x" * 65, "a\n"])
    def test_names_that_cannot_be(self, name: str) -> None:
        refused(fleet(), create(name), UsageError, "")

    def test_one_token_is_not_two(self) -> None:
        world = fleet()
        world.tell(create())
        refused(world, create("other"), Conflict, "made before")
        refused(world, create("other", sha256="not a hash"), UsageError, "sha256")
        refused(world, inputs.RevokeToken(name="other"), NotFound, "hostler token list")

    def test_there_is_an_end_to_them(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("hostler.core.access.intake.TOKENS_MOST", 2)
        world = fleet()
        world.tell(create(), create("b", B))
        refused(world, create("c", C), Conflict, "2 tokens")

    def test_two_that_live_under_one_name_are_noticed(self) -> None:
        world = fleet()
        world.tell(create())
        (token,) = world.state.access.tokens.values()
        world.state.access.tokens[B] = token
        with pytest.raises(BrokenInvariant, match="tokens of the same name"):
            world.core.validate()


class TestAudit:
    def test_what_was_asked_for_is_noted_with_its_effect(self) -> None:
        world = fleet()
        happened = world.tell(ask(submit()))
        assert [type(each) for each in happened[:2]] == [events.JobSubmitted, events.RequestAccepted]
        assert world.answers == [("j1",)]
        (noted,) = audit_views(world.entries)
        assert (noted.who, noted.what, noted.entries, noted.key) == ("ci", "something", 1, None)
        assert world.entries[noted.seq - 2].event == happened[0]

    def test_what_is_refused_leaves_nothing(self) -> None:
        world = fleet()
        refused(world, ask(inputs.Cancel(job="j9"), "k", "f"), NotFound, "j9")
        world.submit(script())
        world.tell(ask(inputs.Cancel(job="j1"), "k", "other"))
        assert world.answers == [None], "the key is still free"

    @pytest.mark.parametrize("wish", [inputs.Drain(), inputs.ResumeNode(node="n")])
    def test_what_changes_nothing_is_noted_too(self, wish: inputs.Wish) -> None:
        world = fleet()
        (noted,) = world.tell(ask(wish))
        assert isinstance(noted, events.RequestAccepted)
        assert noted.entries == 0


class TestKeys:
    def test_the_same_request_is_done_once_and_answered_the_same(self) -> None:
        world = fleet()
        world.tell(ask(submit(), "k", "f"))
        (first,) = world.answers
        assert world.tell(ask(submit(), "k", "f")) == []
        assert tuple(world.answers[0]) == first == ("j1",)
        assert len(world.state.jobs) == 1

    def test_twice_in_one_step(self) -> None:
        world = fleet()
        world.tell(ask(submit(), "k", "f"), ask(submit(), "k", "f"))
        assert [tuple(each) for each in world.answers] == [("j1",), ("j1",)]

    def test_another_request_under_the_key_is_a_conflict(self) -> None:
        world = fleet()
        world.tell(ask(submit(), "k", "f"))
        refused(world, ask(submit("b"), "k", "g"), Conflict, "'k' was used for another request")

    def test_keys_of_others_are_others(self) -> None:
        world = fleet()
        world.tell(ask(submit(), "k", "f"), ask(submit("b"), "k", "g", who="anna"))
        assert world.answers == [("j1",), ("j2",)]

    def test_a_day_later_a_key_is_new(self) -> None:
        world = fleet()
        world.tell(ask(submit(), "k", "f"))
        world.tell(ask(submit("b"), "k", "g"), after_s=DAY)
        assert world.answers == [("j2",)]
        assert len(world.state.access.answered) == 1
        assert replayed(world.entries).state == world.state

    def test_old_answers_go_with_the_next_request(self) -> None:
        world = fleet()
        world.tell(ask(submit(), "k", "f"))
        world.tell(ask(submit("b"), "l", "g"), after_s=DAY)
        assert list(world.state.access.answered) == ["ci\nl"]

    @pytest.mark.parametrize(("most", "weight", "left"), [(3, 1000, 3), (1000, 4, 2), (1000, 1, 1)])
    def test_there_is_an_end_to_answers(
        self, monkeypatch: pytest.MonkeyPatch, most: int, weight: int, left: int
    ) -> None:
        monkeypatch.setattr(folds, "KEPT_MOST", most)
        monkeypatch.setattr(folds, "WEIGHT_MOST", weight)
        world = fleet()
        for number in range(5):
            world.tell(ask(submit(), f"k{number}", "f"))
        assert list(world.state.access.answered) == [f"ci\nk{number}" for number in range(5 - left, 5)]
        assert replayed(world.entries).state == world.state

    def test_they_live_in_snapshots_and_a_restart_knows_them(self) -> None:
        world = fleet()
        world.tell(create("anna", scope=Scope.ADMIN), ask(submit(), "k", "f"))
        back = Driver(Core(load_state(dump_state(world.state))), world.now)
        assert back.state == world.state
        assert back.tell(ask(submit(), "k", "f")) == []
        assert [tuple(each) for each in back.answers] == [("j1",)]
        assert holder(back.state, A, back.now) == Holder(name="anna", scope=Scope.ADMIN)


@settings(max_examples=15, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.sampled_from("fg"), st.sampled_from(["x", "y"]), st.floats(0, DAY)),
        max_size=12,
    )
)
def test_whatever_is_asked_replay_gives_the_same_state(asked: list[tuple[str, str, str, float]]) -> None:
    world = fleet()
    for key, fingerprint, who, after_s in asked:
        world.tell(ask(submit(fingerprint), key, fingerprint, who), after_s=after_s)
    assert replayed(world.entries).state == world.state
    done = sum(isinstance(entry.event, events.RequestAccepted) for entry in world.entries)
    assert done == len(world.state.jobs)
    assert all(job.state is not JobState.FAILED for job in world.state.jobs.values())


@pytest.mark.parametrize(
    ("has", "allowed"),
    [(Scope.READ, {Scope.READ}), (Scope.OPERATE, {Scope.READ, Scope.OPERATE}), (Scope.ADMIN, set(Scope))],
)
def test_scopes_contain_each_other(has: Scope, allowed: set[Scope]) -> None:
    assert {wanted for wanted in Scope if has.covers(wanted)} == allowed
