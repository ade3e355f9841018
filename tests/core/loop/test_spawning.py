"""One more job, beyond what the loop orders by itself: asked for by somebody, bounded, and once under one key."""

from __future__ import annotations

import pytest

from hostler.core.explain import explain_job
from hostler.core.loop.spawning import SPAWNED_MOST
from hostler.core.loop.views import config_view
from hostler.model import events, inputs
from hostler.model.errors import Conflict, HostlerError, NotFound, SpecError
from hostler.model.work import JobState, WorkKind
from tests.core.builders import replayed, script, snapshot
from tests.core.loop.builders import NAME, Loop, loop, order_of, small

S, X, T, E = WorkKind.SELFPLAY, WorkKind.EXPORT, WorkKind.TRAINING, WorkKind.EVALUATION


def spawn(world: Loop, **fields: object) -> str:
    """Ask for one more; returns its id."""
    world.tell(inputs.Spawn(config=NAME, **fields))  # type: ignore[arg-type]
    if isinstance(world.answers[0], Exception):
        raise world.answers[0]
    return str(world.answers[0])


def playing(devices: int = 2) -> Loop:
    """A loop with self-play at work and more of it waiting."""
    world = loop(devices=devices)
    world.until(lambda: world.waiting(S) and world.running(S))
    return world


def test_it_comes_on_top_of_what_the_loop_orders() -> None:
    world = playing()
    before = {job.id for job in world.waiting(S)}
    name = spawn(world, who="anna", why="the opening is thin")
    assert {job.id for job in world.waiting(S)} == before | {name}
    (told,) = world.of(events.StageSpawned)
    assert (told.job, told.who, told.why) == (name, "anna", "the opening is thin")
    reasons = explain_job(world.state, world.core.index, world.state.jobs[name]).reasons
    assert "asked for by anna, beyond what the loop orders: the opening is thin" in reasons
    assert config_view(world.config(), world.now).spawned == 1
    for job in [*world.running(S), *world.running(E)]:
        world.end(job)
    assert len(world.running(S)) == 2
    assert [job.id for job in world.waiting(S) if job.id != name], "the loop keeps one of its own ready"


def test_its_games_count_and_it_is_forgotten_when_it_is_over() -> None:
    world = playing()
    name = spawn(world, games=40)
    order = order_of(world.state.jobs[name])
    assert (order["games"], order["player"]) == (40, f"gumbel-64@{world.config().current}")
    world.until(lambda: world.state.jobs[name].attempt is not None)
    before = sum(each.games for each in world.config().segments.values())
    world.end(world.state.jobs[name])
    assert world.job_state(name) is JobState.DONE
    assert sum(each.games for each in world.config().segments.values()) == before + 40
    assert not world.config().spawned


def test_few_games_make_small_segments() -> None:
    world = playing()
    assert order_of(world.state.jobs[spawn(world, games=3)])["segment_games"] == 3


def test_two_of_them_have_different_seeds() -> None:
    world = playing()
    assert len({order_of(world.state.jobs[spawn(world)])["seed"] for _ in range(5)}) == 5


def test_it_is_done_where_the_loop_would_wait() -> None:
    """A stage that rests after failures is not ordered by the loop; somebody may know better."""
    world = playing()
    for job in world.running(S):
        world.end(job, {"schema": 1, "error": "odd"}, exit_code=1)
    assert S in world.config().rests
    for job in world.waiting(S):
        world.tell(inputs.Cancel(job=job.id))
    name = spawn(world)
    world.until(lambda: world.state.jobs[name].attempt is not None)
    assert S in world.config().rests


def test_under_one_key_it_is_one_job() -> None:
    world = playing()
    name = spawn(world, key="more", games=10)
    assert spawn(world, key="more", games=10) == name
    assert world.events == []
    world.until(lambda: world.job_state(name) is JobState.DONE)
    assert spawn(world, key="more", games=10) == name, "also when it is over"
    with pytest.raises(Conflict, match="another job"):
        spawn(world, key="more", games=11)
    with pytest.raises(Conflict, match="another job"):
        spawn(world, key="more", stage=T)
    world.submit(script(key="mine"))
    with pytest.raises(Conflict, match="another job"):
        spawn(world, key="mine")
    assert replayed(world.entries).state == snapshot(world.state) == world.state


def test_there_is_a_most() -> None:
    world = playing()
    names = [spawn(world) for _ in range(SPAWNED_MOST)]
    with pytest.raises(Conflict, match=f"{SPAWNED_MOST} jobs of tiny_2p"):
        spawn(world)
    world.tell(inputs.Cancel(job=names[-1]))
    assert not world.of(events.StageResting), "what somebody takes back says nothing of the loop"
    spawn(world)


def test_a_new_model_voids_it_and_it_is_ordered_anew() -> None:
    world = loop(devices=3)
    world.until(lambda: world.config().current)
    world.decide(a_wins=True)
    names = [spawn(world, who="anna", why="more", games=7) for _ in range(3)]
    waiting = [name for name in names if world.job_state(name) is JobState.PENDING]
    assert waiting
    world.tell(inputs.RollBack(config=NAME))
    again = world.of(events.StageSpawned)
    assert {world.job_state(name) for name in waiting} == {JobState.CANCELLED}
    assert [each.why for each in again] == [f"more, in place of {name}" for name in waiting]
    assert {order_of(world.state.jobs[each.job])["player"] for each in again} == {f"gumbel-64@{world.config().current}"}
    assert {order_of(world.state.jobs[each.job])["games"] for each in again} == {7}


def test_spawned_job_keeps_to_its_nodes_also_when_it_is_ordered_again() -> None:
    world = loop(devices=3)
    world.until(lambda: world.config().current)
    world.decide(a_wins=True)
    (node,) = world.state.nodes
    names = [spawn(world, nodes=(node,)) for _ in range(3)]
    assert {world.state.jobs[name].spec.resources.nodes for name in names} == {(node,)}
    world.tell(inputs.RollBack(config=NAME))
    again = world.of(events.StageSpawned)
    assert again
    assert {world.state.jobs[each.job].spec.resources.nodes for each in again} == {(node,)}
    assert replayed(world.entries).state == world.state


def test_spawned_job_of_an_unknown_node_is_refused() -> None:
    world = playing()
    with pytest.raises(NotFound, match="there is no node 'nowhere' in the fleet"):
        spawn(world, nodes=("nowhere",))


def test_other_stages_where_they_would_do_something() -> None:
    world = loop(devices=1)
    with pytest.raises(Conflict, match="there is one already"):
        spawn(world, stage=T)
    with pytest.raises(Conflict, match="no model yet"):
        spawn(world, stage=S)
    world.until(lambda: world.config().current)
    with pytest.raises(Conflict, match="no dataset waits"):
        spawn(world, stage=T)
    with pytest.raises(Conflict, match="games may be good enough"):
        spawn(world, stage=X)
    world.until(lambda: E not in world.config().jobs.values() and world.config().ratings)
    name = spawn(world, stage=E)
    assert world.state.jobs[name].spec.work is E
    with pytest.raises(Conflict, match="there is one already"):
        spawn(world, stage=E)
    world.until(lambda: world.job_state(name) is JobState.DONE)


@pytest.mark.parametrize(
    ("fields", "error", "match"),
    [
        ({"config": "no_2p"}, NotFound, "tiny_2p"),
        ({"stage": WorkKind.SWEEP}, SpecError, "no stage of a loop"),
        ({"games": 0}, SpecError, "games: should be greater than or equal to 1"),
        ({"games": 10**9}, SpecError, "plays 1 to"),
        ({"games": 5, "stage": T}, SpecError, "games are asked of self-play"),
        ({"key": "j5"}, SpecError, "looks like an id"),
        ({"key": ""}, SpecError, "can be ordered so"),
    ],
    ids=str,
)
def test_what_cannot_be(fields: dict[str, object], error: type[HostlerError], match: str) -> None:
    with pytest.raises(error, match=match):
        raise playing().refused(inputs.Spawn(**{"config": NAME, **fields}))  # type: ignore[arg-type]


def test_one_that_is_paused_or_over_is_given_nothing() -> None:
    world = loop(small(), small("other_2p"))
    world.tell(inputs.PauseConfig(config=NAME, why="odd", who="anna"), after_s=0.5)
    with pytest.raises(Conflict, match=r"paused by anna for 23h 59m more: odd; end that first with `hostler train"):
        spawn(world)
    world.tell(inputs.Declare(configs=(small("other_2p"),)))
    with pytest.raises(Conflict, match="is over, nothing is ordered for it: retired"):
        spawn(world)
