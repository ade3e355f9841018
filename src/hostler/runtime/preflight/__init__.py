"""Is all there that a training on many machines needs?"""

from hostler.runtime.preflight.clusters import Allows, Machine, Ran, RayCluster
from hostler.runtime.preflight.proof import Proof, status_of
from hostler.runtime.preflight.proving import prove

__all__ = ["Allows", "Machine", "Proof", "Ran", "RayCluster", "prove", "status_of"]
