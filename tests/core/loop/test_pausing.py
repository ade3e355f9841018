"""A paused config orders nothing new, has an owner, a reason and an end; what runs goes on."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from hostler.core import shown
from hostler.core.loop.views import config_view
from hostler.core.snapshot import dump_state, load_state
from hostler.model import events, inputs
from hostler.model.errors import BrokenInvariant, Conflict, NotFound, SpecError
from hostler.model.work import JobState, WorkKind
from tests.core.builders import ended, replayed, snapshot
from tests.core.loop.builders import NAME, Loop, loop, small

S, X, T, E = WorkKind.SELFPLAY, WorkKind.EXPORT, WorkKind.TRAINING, WorkKind.EVALUATION
DAY = 86_400.0
PAUSE = inputs.PauseConfig(config=NAME, why="its games look odd", who="anna", for_s=7200.0)


def orders(world: Loop) -> int:
    return world.config().ordered


def playing() -> Loop:
    """A loop with self-play at work and more of it waiting."""
    world = loop(devices=2)
    world.until(lambda: world.waiting(S) and world.running(S))
    return world


class TestPause:
    def test_what_waits_is_called_off_and_what_runs_counts(self) -> None:
        world = playing()
        waiting, before = world.waiting(S), orders(world)
        running = [job for stage in WorkKind for job in world.running(stage)]
        world.tell(PAUSE)
        (paused,) = world.of(events.ConfigPaused)
        assert (paused.who, paused.why, paused.until) == ("anna", "its games look odd", world.now + 7200)
        assert {world.job_state(job.id) for job in waiting} == {JobState.CANCELLED}
        reasons = {each.reason for each in world.of(events.CancelRequested)}
        assert reasons == {"paused by anna for 2h 00m more: its games look odd"}
        games = sum(each.games for each in world.config().segments.values())
        for job in running:
            world.end(job)
        assert sum(each.games for each in world.config().segments.values()) > games
        assert (orders(world), dict(world.config().jobs)) == (before, {})

    def test_what_has_to_leave_its_device_goes_on_elsewhere(self) -> None:
        world = playing()
        job = world.running(S)[0]
        assert job.attempt is not None
        world.tell(PAUSE)
        world.tell(ended(job.attempt.id, signal=9, reason="agent_restarted"))
        assert not world.job_state(job.id).final
        assert job.id in world.config().jobs

    def test_it_ends_by_itself_and_the_loop_goes_on(self) -> None:
        world = playing()
        world.tell(PAUSE)
        for job in world.running(S):
            world.end(job)
        assert world.tell(inputs.Tick(), after_s=world.config().paused.until - world.now - 1) == []  # type: ignore[union-attr]
        wake = world.core.wake_at()
        assert wake is not None
        assert wake <= world.now + 1
        world.tell(inputs.Tick(), after_s=1.0)
        assert [each.who for each in world.of(events.ConfigResumed)] == [None]
        assert world.config().paused is None
        assert world.running(S)

    def test_an_end_that_came_while_nobody_ran_is_seen_at_the_start(self) -> None:
        world = playing()
        world.tell(PAUSE)
        core = replayed(world.entries)
        assert core.state == world.state
        told = core.handle(world.now + 3 * 3600, inputs.Begin(version="test", epoch=2)).entries
        assert any(isinstance(entry.event, events.ConfigResumed) for entry in told)

    def test_somebody_ends_it(self) -> None:
        world = playing()
        world.tell(PAUSE)
        world.tell(inputs.ResumeConfig(config=NAME, who="bob"))
        assert [each.who for each in world.of(events.ConfigResumed)] == ["bob"]
        assert world.waiting(S) or len(world.running(S)) == 2
        assert world.tell(inputs.ResumeConfig(config=NAME)) == []
        assert world.answers == [None], "said twice it does no harm"

    def test_another_pause_replaces_reason_and_end(self) -> None:
        world = playing()
        world.tell(PAUSE)
        began = world.now
        world.tell(inputs.PauseConfig(config=NAME, why="still odd"), after_s=100.0)
        pause = world.config().paused
        assert pause is not None
        assert (pause.since, pause.until, pause.who, pause.why) == (began, began + 100 + DAY, "operator", "still odd")
        assert world.tell(inputs.Tick(), after_s=7200.0) == [], "the first one's end means nothing any more"
        assert world.config().paused is pause

    def test_others_go_on(self) -> None:
        world = loop(small(), small("other_2p"))
        world.tell(PAUSE)
        world.until(lambda: world.config("other_2p").segments)
        assert not world.config().segments

    def test_a_test_that_runs_is_decided(self) -> None:
        world = loop()
        world.until_trial()
        test = world.test_of()
        assert test is not None
        world.tell(PAUSE)
        before = len(world.config().matches)
        world.end(test)
        assert len(world.config().matches) > before
        assert not world.config().jobs

    def test_new_settings_and_a_way_back_order_nothing(self) -> None:
        world = loop(devices=3)
        world.until(lambda: world.config().current)
        world.decide(a_wins=True)
        world.tell(PAUSE)
        before = orders(world)
        world.tell(inputs.RollBack(config=NAME))
        world.tell(inputs.Declare(configs=(small(selfplay__games=16),)))
        assert orders(world) == before
        world.tell(inputs.ResumeConfig(config=NAME))
        assert orders(world) > before

    @pytest.mark.parametrize(
        ("given", "error", "match"),
        [
            (inputs.PauseConfig(config="no_2p", why="x"), NotFound, "tiny_2p"),
            (inputs.ResumeConfig(config="no_2p"), NotFound, "tiny_2p"),
            (inputs.PauseConfig(config=NAME, why=" "), SpecError, "why should tiny_2p be paused"),
            (inputs.PauseConfig(config=NAME, why="x", for_s=31 * DAY), SpecError, "at most"),
            (inputs.PauseConfig(config=NAME, why="x", for_s=0.0), SpecError, "cannot be paused so"),
            (inputs.PauseConfig(config=NAME, why="x", for_s=1e-9), SpecError, "cannot be paused so"),
            (inputs.PauseConfig(config=NAME, why="x", for_s=float("nan")), SpecError, "cannot be paused so"),
        ],
    )
    def test_what_cannot_be(self, given: inputs.Input, error: type[Exception], match: str) -> None:
        with pytest.raises(error, match=match):
            raise loop().refused(given)

    def test_one_that_is_retired_is_not_paused(self) -> None:
        world = loop(small(), small("other_2p"))
        world.tell(inputs.Declare(configs=(small("other_2p"),)))
        with pytest.raises(Conflict, match="retired"):
            raise world.refused(PAUSE)

    def test_the_invariant_sees_what_was_ordered_meanwhile(self) -> None:
        world = playing()
        world.tell(PAUSE)
        job = next(iter(world.config().jobs))
        world.state.jobs[job].submitted_at = world.now + 1
        with pytest.raises(BrokenInvariant, match="though it has been paused"):
            world.core.validate()


class TestShown:
    def test_in_the_list_of_bans_and_in_the_config(self) -> None:
        world = playing()
        world.tell(PAUSE)
        ban = next(each for each in shown.bans(world.state, world.core.index) if each.kind == "pause")
        assert (ban.what, ban.owner, ban.since, ban.until) == (NAME, "anna", world.now, world.now + 7200)
        assert "its games look odd; `hostler train resume tiny_2p`" in ban.why
        view = config_view(world.config(), world.now + 3600)
        assert view.next.startswith("paused by anna for 1h 00m more: its games look odd; then evaluation: ")
        assert view.state == "open"
        assert view.paused is not None
        assert view.paused.until == world.now + 7200

    def test_it_survives_replay_and_snapshot(self) -> None:
        world = playing()
        world.tell(PAUSE)
        assert replayed(world.entries).state == snapshot(world.state) == world.state
        assert load_state(dump_state(world.state)) == world.state


@settings(max_examples=15, deadline=None)
@given(
    steps=st.lists(
        st.one_of(
            st.sampled_from(["step", "step", "step", "resume"]),
            st.tuples(st.just("pause"), st.floats(0.5, 500.0)),
            st.tuples(st.just("spawn"), st.integers(1, 64)),
            st.tuples(st.just("wait"), st.floats(0.0, 600.0)),
        ),
        max_size=40,
    )
)
def test_whatever_happens_nothing_is_ordered_while_it_is_paused(steps: list[str | tuple[str, float]]) -> None:
    """The driver validates after every step; here, that the pauses hold and end."""
    world = loop(devices=2)
    for step in steps:
        before, was = orders(world), world.config().paused
        match step:
            case ("pause", for_s):
                world.tell(inputs.PauseConfig(config=NAME, why="a drill", for_s=for_s))
            case ("spawn", games):
                world.tell(inputs.Spawn(config=NAME, games=int(games)))
            case ("wait", after_s):
                world.tell(inputs.Tick(), after_s=float(after_s))
            case "resume":
                world.tell(inputs.ResumeConfig(config=NAME))
            case _:
                world.step()
        now = world.config().paused
        if was is not None and now is not None:
            assert orders(world) == before
        assert now is None or now.until > world.now
    assert replayed(world.entries).state == world.state
