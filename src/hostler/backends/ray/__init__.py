"""Ray clusters: their jobs run our agent. Start reading at `node`."""

from hostler.backends.ray.cluster import RayCluster
from hostler.backends.ray.machines import Wants
from hostler.backends.ray.node import Calling, RayNode
from hostler.backends.ray.rest import Door, RayRest
from hostler.backends.ray.terms import Terms

__all__ = ["Calling", "Door", "RayCluster", "RayNode", "RayRest", "Terms", "Wants"]
