"""What the sieve is compared with finds what the sieve finds: a peer that is wrong would be no peer."""

import random
from itertools import islice

import numpy as np
import pytest

import sieve_methods
from hostler.workloads.sieve import spec
from hostler.workloads.sieve.generators import generator, oracle
from hostler.workloads.sieve.judge import judge
from sieve_naive import LANES, MODULUS, A, C, M, jumps, naive_sieve
from sieve_peer import PhpPeer, php_peer

PHP = generator("php-mt_rand")


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> PhpPeer:
    made = php_peer(tmp_path_factory.mktemp("peer"))
    if made is None:
        pytest.skip("no C compiler")
    return made


@pytest.mark.parametrize("size", [0, 2, 3, 57, 64, 1000, 1 << 31])
def test_the_php_peer_finds_the_planted_seed_and_no_other(peer: PhpPeer, size: int) -> None:
    seed = random.Random(size).randrange(1 << 32)
    draws = _php(size, seed, 40 if 0 < size < 4 else 10)
    start = seed >> 16 << 16
    taken, found = peer.search(start, 1 << 16, size, draws)
    assert found == [seed]
    assert taken >= 0


def test_the_php_peer_finds_all_seeds_of_one_output(peer: PhpPeer) -> None:
    wanted = [seed for seed in range(2048) if _php(57, seed, 1) == [11]]
    assert peer.search(0, 2048, 57, [11])[1] == wanted


def test_the_plain_loop_finds_what_the_judge_says() -> None:
    source = random.Random(1)
    draws = [source.randrange(MODULUS) for _ in range(40)]
    asked = spec.parse(
        {
            "schema": 2,
            "generator": f"lcg:{A},{C},{M},0",
            "calls": [{"kind": "mod", "modulus": MODULUS}],
            "draws": draws,
            "gap": [0, 4],
            "share": 0.02,
        }
    )
    found = np.zeros(LANES, np.int64)
    start = M - 5 * LANES
    count = naive_sieve(start, start + 2 * LANES, np.array(draws, np.uint32), jumps(5), asked.need, found)
    assert found[:count].tolist() == [seed for seed in range(start, start + 2 * LANES) if judge(asked, seed)]
    assert count > 0


def test_without_a_compiler_the_bar_is_not_measured() -> None:
    bar = sieve_methods._php_bar("mt_rand()", sieve_methods.Timed("lanes", 1 << 20, 1.0, []), None)
    assert bar.met is None
    assert "no C compiler" in bar.note


def _php(size: int, seed: int, count: int) -> list[int]:
    kind = {"kind": "range", "min": 0, "max": size - 1} if size else {"kind": "exact"}
    return list(islice(oracle(PHP, spec.parse_output(PHP, kind), seed), count))
