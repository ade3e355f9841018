"""Seeds of worlds with several controllers that failed once; they are played in every run."""

KEPT: tuple[int, ...] = (
    29,  # whoever found its lines written after a lost answer took itself for the leader still (`store.journal`)
)
