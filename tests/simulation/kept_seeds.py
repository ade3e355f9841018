"""Seeds of worlds with several controllers that failed once; they are played in every run."""

KEPT: tuple[int, ...] = (
    29,  # whoever found its lines written after a lost answer took itself for the leader still (`store.journal`)
    3176,  # a late message was overtaken by the next, by the last bit of a sum (`sim.cluster.wire`, `sim.agenda`)
    3386,  # a node that had heard nothing but a greeting did not count its lease (`sim.cluster.world`)
    3769,  # the same
    8765,  # a worker was left where the clock was set by minutes just when a link broke; none is told to end twice
)
