"""Chance from seeds and counters."""

import numpy as np

from hostler.workloads.alphazero import chance


def test_splitmix64_as_published() -> None:
    """The first outputs of the generator for seed 1234567, which its authors' and others' implementations agree on."""
    expected = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    seed = np.array([1234567], np.uint64)
    assert [int(chance.derive(seed, number)[0]) for number in range(4)] == expected


def test_rows_depend_on_their_own_seed_alone() -> None:
    seeds = np.arange(10, dtype=np.uint64)
    np.testing.assert_array_equal(chance.uniform(seeds, 7)[4:6], chance.uniform(seeds[4:6], 7))


def test_neighbouring_seeds_have_nothing_in_common() -> None:
    drawn = chance.uniform(np.arange(2000, dtype=np.uint64), 20)
    assert len(np.unique(drawn)) == drawn.size
    correlation = np.corrcoef(drawn[:-1].ravel(), drawn[1:].ravel())[0, 1]
    assert abs(correlation) < 0.02
    assert 0.0 < drawn.min() < 0.001
    assert 0.999 < drawn.max() < 1.0
    assert abs(drawn.mean() - 0.5) < 0.01


def test_gumbel_has_the_right_mean_and_variance() -> None:
    drawn = chance.gumbel(np.arange(2000, dtype=np.uint64), 50)
    assert abs(drawn.mean() - np.euler_gamma) < 0.02
    assert abs(drawn.var() - np.pi**2 / 6) < 0.05
