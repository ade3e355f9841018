"""Find the seeds of a random number generator that reproduce recorded outputs."""
