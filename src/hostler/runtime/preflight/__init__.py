"""Is all there that a training on many machines needs?"""

from hostler.runtime.preflight.proof import Proof, status_of
from hostler.runtime.preflight.proving import prove
from hostler.runtime.preflight.seam import Allows, Machine, Ran, RayCluster

__all__ = ["Allows", "Machine", "Proof", "Ran", "RayCluster", "prove", "status_of"]
