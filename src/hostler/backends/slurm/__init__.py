"""Partitions of Slurm clusters: what its commands are told, what is read out of their answers, and what runs there."""

from hostler.backends.slurm.apart import ApartPool, Freight
from hostler.backends.slurm.cluster import Cluster
from hostler.backends.slurm.pool import SlurmPool
from hostler.backends.slurm.retired import RetiredApartPool, RetiredPool, left_there
from hostler.backends.slurm.terms import Terms

__all__ = ["ApartPool", "Cluster", "Freight", "RetiredApartPool", "RetiredPool", "SlurmPool", "Terms", "left_there"]
