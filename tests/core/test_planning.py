"""When the slow loop is asked: now and then, and when much of the fleet has come or gone."""

from __future__ import annotations

from dataclasses import replace

from hostler.core.planning import APART_S
from hostler.model import commands, inputs
from hostler.model.rules import PlacementRules, Rules, Targets
from tests.core.builders import START, Driver, link_up, script
from tests.core.test_placing import fleet, play, rig

EVERY_S = 120.0
RULES = Rules(targets=Targets(), placement=PlacementRules(plan_every_s=EVERY_S))


def asked(world: Driver, after_s: float) -> list[int]:
    """How many devices each question was about that is asked in this time."""
    found, end = list[int](), world.now + after_s
    while world.now < end:
        world.tell(inputs.Tick(), after_s=min(5.0, end - world.now))
        solves = (each for each in world.commands if isinstance(each, commands.Solve))
        found += [round(sum(each.instance.classes.values())) for each in solves]
    return found


def motley(count: int = 5) -> Driver:
    world = fleet(rig("a", "H100", count=count), *(rig(f"b{n}", count=count) for n in range(3)), rules=RULES)
    world.submit(play(), script("s", expected_s={"*": 60.0}))
    while not asked(world, 5.0):
        assert world.now < START + EVERY_S
    return world


def test_it_is_asked_now_and_then() -> None:
    world = motley()
    assert asked(world, 3 * EVERY_S) == [20, 20, 20]


def test_a_node_that_comes_is_reason_enough() -> None:
    world = motley()
    world.tell(inputs.NodeFound(node=rig("c", count=5)), link_up("c", agent="c"))
    assert asked(world, APART_S) == [25]
    assert asked(world, EVERY_S) == [25], "and then as usual"


def test_so_is_one_that_goes() -> None:
    world = motley()
    world.tell(inputs.LinkDown(node="b0", why="gone"))
    assert asked(world, APART_S) == [15]


def test_a_few_devices_of_many_are_not() -> None:
    world = motley(count=12)
    world.tell(inputs.NodeFound(node=rig("c", count=1)), link_up("c", agent="c"))
    assert asked(world, APART_S) == []


def test_a_node_that_flaps_does_not_keep_the_solver_busy() -> None:
    world = motley()
    for _ in range(10):
        world.tell(inputs.LinkDown(node="b0", why="gone"), after_s=1.0)
        world.tell(link_up("b0", agent="b0"), after_s=1.0)
    assert len(asked(world, EVERY_S)) <= 4


def test_other_rules_while_it_runs_do_not_end_it() -> None:
    world = motley()
    seldom = replace(RULES, placement=replace(RULES.placement, plan_every_s=3 * EVERY_S))
    world.tell(inputs.Configure(rules=seldom))
    assert len(asked(world, 12 * EVERY_S)) == 4
