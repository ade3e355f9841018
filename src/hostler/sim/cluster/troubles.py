"""What goes wrong in a world with several controllers. Each world has some kinds of it, drawn from its seed."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from hostler.model.record import record
from hostler.sim.cluster.process import Hazard
from hostler.sim.faults import Faults


@record
class Troubles:
    """Virtual seconds; `…_every_s` is the mean time between two of a kind anywhere, `None`: never."""

    controllers: int = 2
    lease_s: float | None = None
    """For how long nodes keep what they have while they hear nothing."""
    nodes: Faults = Faults()
    """What befalls nodes. Of this, cut links cut a node off from all controllers."""
    crash_every_s: float | None = None
    stall_every_s: float | None = None
    """A controller is stopped for a while, and goes on where it was."""
    hazard: Hazard = Hazard()
    """The same between any two of its steps."""
    part_every_s: float | None = None
    """A controller and a node cannot reach each other, others can."""
    store_cut_every_s: float | None = None
    """A controller cannot reach the store."""
    store_down_every_s: float | None = None
    """The power of the store goes."""
    store_full_every_s: float | None = None
    tears: float = 0.0
    """Share of commits in the middle of which the power of the store goes."""
    loses: float = 0.0
    """Share of questions to the store that are lost, share of answers, and share of both that come very late."""
    slow_every_s: float | None = None
    """Everything of a controller takes a hundred times as long for a while."""
    alone_every_s: float | None = None
    """The leader cannot reach the store for long, and only it reaches one of the nodes."""
    resign_every_s: float | None = None
    """The leader is asked to leave."""
    clock_every_s: float | None = None
    """The clock of a controller is set."""
    clock_s: float = 600.0
    doubles: float = 0.0
    """Share of messages that come twice."""
    late: float = 0.0
    """Share of messages that are under way for seconds."""
    wrong_files: float = 0.0
    """Share of files that become others on their way."""
    shelf_every_s: float | None = None
    """The power goes where results are kept, or its disk is full for a while."""
    mean_s: float = 10.0
    """How long what passes lasts, mostly; now and then it is ten times as long."""

    @property
    def leaps(self) -> bool:
        """Whether clocks are set, by which two may believe that the same lease is over."""
        return self.clock_every_s is not None or self.nodes.clock_jump_every_s is not None


def drawn(random: Random, until_s: float = 70.0) -> Troubles:
    """Troubles of a world: of each kind none, or some."""

    def every(mean_s: float, share: float = 0.5) -> float | None:
        return mean_s * random.uniform(0.5, 2.0) if random.random() < share else None

    def part(most: float, share: float = 0.5) -> float:
        return random.uniform(0.0, most) if random.random() < share else 0.0

    return Troubles(
        controllers=random.choice([2, 2, 3]),
        lease_s=random.choice([None, 15.0]),
        nodes=_of_nodes(until_s, every, part),
        crash_every_s=every(20.0),
        stall_every_s=every(20.0),
        hazard=Hazard(dies=part(0.004), stalls=part(0.01, 0.6), stall_s=random.choice([3.0, 10.0])),
        part_every_s=every(15.0),
        store_cut_every_s=every(20.0),
        store_down_every_s=every(25.0),
        store_full_every_s=every(40.0, 0.3),
        tears=part(0.01),
        loses=part(0.1),
        slow_every_s=every(30.0, 0.3),
        alone_every_s=every(40.0, 0.4),
        resign_every_s=every(25.0, 0.3),
        clock_every_s=every(25.0, 0.3),
        doubles=part(0.1),
        late=part(0.1),
        wrong_files=part(0.3),
        shelf_every_s=every(20.0),
        mean_s=random.choice([5.0, 12.0]),
    )


def lonely(troubles: Troubles) -> Troubles:
    """Little but leaders that are left alone with a node: what comes of that takes minutes in which nothing helps."""
    return Troubles(
        controllers=troubles.controllers,
        lease_s=15.0,
        nodes=Faults(until_s=troubles.nodes.until_s),
        alone_every_s=25.0,
        doubles=troubles.doubles,
        late=troubles.late,
    )


def _of_nodes(until_s: float, every: Callable[..., float | None], part: Callable[[float], float]) -> Faults:
    return Faults(
        link_cut_every_s=every(40.0),
        agent_lost_every_s=every(60.0, 0.3),
        agent_restart_every_s=every(40.0),
        reboot_every_s=every(80.0, 0.3),
        worker_killed_every_s=every(30.0, 0.3),
        process_killed_every_s=every(40.0, 0.3),
        disk_full_every_s=every(60.0, 0.3),
        disk_full_s=10.0,
        partition_every_s=every(40.0, 0.3),
        partition_s=60.0,
        told_again=part(0.1),
        late_s=30.0,
        wrong_digest=part(0.1),
        until_s=until_s,
    )
