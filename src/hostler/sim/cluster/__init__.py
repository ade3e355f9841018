"""Several controllers in one virtual world, of which one leads. Start reading at `world.Cluster`."""

from hostler.sim.cluster.troubles import Troubles, drawn, lonely
from hostler.sim.cluster.world import Cluster

__all__ = ["Cluster", "Troubles", "drawn", "lonely"]
