"""What is true of the network on every board."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from hostler.workloads.alphazero.game import Game
from hostler.workloads.alphazero.network import Network, absolute_to_relative, build, relative_to_absolute
from hostler.workloads.beacons.game import make as beacons
from tests.workloads.alphazero import trivial

GAMES = [
    pytest.param(lambda: trivial.make(7, 3), id="spacing"),
    *(
        pytest.param(lambda board=board, players=players: beacons(board, players), id=f"{board}-{players}p")
        for board in ("hex8", "square8", "square19", "hexagonal")
        for players in (2, 3, 4)
    ),
]


def planes_of(game: Game, batch: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(batch, game.planes, len(game.graph), generator=torch.Generator().manual_seed(seed))


class TestBoards:
    @pytest.mark.parametrize("make", GAMES)
    def test_shapes(self, make) -> None:
        game = make()
        logits, places = build(game, channels=8, blocks=2, seed=1)(planes_of(game, 3))
        assert logits.shape == (3, game.actions)
        assert places.shape == (3, game.players, game.players)

    def test_weights_do_not_depend_on_the_number_of_cells(self) -> None:
        """So that one board's weights could serve another one of the same kind."""
        small, large = (build(beacons(board, 3), channels=8, blocks=2, seed=1) for board in ("hex8", "hexagonal"))
        large.load_state_dict(small.state_dict())

    def test_no_neighbour_is_a_cell_of_zeros(self) -> None:
        """A lonely cell and one beside a cell of zeros are the same, as far as the stem sees."""
        graph = np.array([[-1, -1], [2, -1], [-1, 1]], np.int32)
        network = Network(graph, 4, 3, 2, channels=8)
        x = torch.randn(1, 3, 4)
        x[0, 1], x[0, 2] = x[0, 0], 0.0
        seen = network.stem(x, network.neighbours)
        torch.testing.assert_close(seen[0, 0], seen[0, 1])


class TestCells:
    @settings(max_examples=15)
    @given(st.integers(0, 2**32 - 1))
    def test_other_numbers_for_the_cells_are_other_numbers_in_the_policy(self, seed: int) -> None:
        game = beacons("hex4", 2)
        cells = len(game.graph)
        number = np.random.default_rng(seed).permutation(cells)
        graph = np.empty_like(game.graph)
        graph[number] = np.where(game.graph < 0, -1, number[game.graph])
        network, other = (
            Network(each, game.planes, game.actions, game.players, channels=8, blocks=2) for each in (game.graph, graph)
        )
        other.load_state_dict(network.state_dict())
        planes = planes_of(game, 2, seed)
        numbered = torch.empty_like(planes)
        numbered[:, :, number] = planes
        (logits, places), (other_logits, other_places) = network(planes), other(numbered)
        torch.testing.assert_close(other_logits[:, number], logits[:, :cells])
        torch.testing.assert_close(other_logits[:, cells:], logits[:, cells:])
        torch.testing.assert_close(other_places, places)

    def test_directions_matter(self) -> None:
        """What is to the left is not what is to the right: reversing the path alone changes the policy."""
        game = trivial.make(7, 2)
        network = build(game, channels=8, blocks=2, seed=1)
        planes = planes_of(game, 1)
        reversed_logits = network(planes.flip(2))[0][:, :7].flip(1)
        assert not torch.allclose(reversed_logits, network(planes)[0][:, :7], atol=1e-3)

    @pytest.mark.parametrize("changed", [0, 3, 6])
    def test_every_output_sees_the_whole_board(self, changed: int) -> None:
        """Even with a single block, through the pooling."""
        game = trivial.make(7, 2)
        network = build(game, channels=16, blocks=1, seed=1)
        planes = planes_of(game, 1)
        other = planes.clone()
        other[0, :, changed] += 1.0
        for before, after in zip(network(planes), network(other), strict=True):
            assert (before != after).all()


class TestWeights:
    def test_come_from_the_seed_alone(self) -> None:
        game = trivial.make(7, 2)
        first, again, other = (build(game, channels=8, blocks=2, seed=seed).state_dict() for seed in (5, 5, 6))
        assert all(torch.equal(first[name], again[name]) for name in first)
        assert not any(torch.equal(first[name], other[name]) for name in first)

    def test_building_leaves_chance_elsewhere_as_it_was(self) -> None:
        torch.manual_seed(3)
        expected = torch.rand(4)
        torch.manual_seed(3)
        build(trivial.make(7, 2), channels=8, blocks=1, seed=2**64 - 1)
        assert torch.equal(torch.rand(4), expected)

    @pytest.mark.parametrize("make", [GAMES[0], GAMES[1], GAMES[4]])
    def test_gradients_reach_every_parameter(self, make) -> None:
        game = make()
        network = build(game, channels=8, blocks=3, seed=1)
        logits, places = network(planes_of(game, 16))
        (logits.log_softmax(1)[:, 0].sum() + logits[:, -1].sum() + places.log_softmax(2)[:, :, 0].sum()).backward()
        for name, parameter in network.named_parameters():
            assert parameter.grad is not None, name
            assert parameter.grad.abs().sum() > 0, name


class TestSeats:
    def test_from_the_seat_to_move_on(self) -> None:
        relative = np.array([[1.0, 2.0, 3.0]] * 3, np.float32)
        to_move = np.array([0, 1, 2], np.int8)
        expected = np.array([[1, 2, 3], [3, 1, 2], [2, 3, 1]], np.float32)
        np.testing.assert_array_equal(relative_to_absolute(relative, to_move), expected)
        np.testing.assert_array_equal(absolute_to_relative(expected, to_move), relative)
