"""Reinforcement learning on Game Boy games: an environment, a sampler, a learner; on one machine or many."""
