"""From the network's outputs to logits and values."""

import numpy as np
import pytest
import torch
from torch import Tensor

from hostler.workloads.alphazero import inference
from hostler.workloads.alphazero.inference import NetworkEvaluator, accelerator
from hostler.workloads.alphazero.network import build
from hostler.workloads.beacons.game import make as beacons
from tests.workloads.alphazero import trivial

CPU = torch.device("cpu")


class Certain(torch.nn.Module):
    """A network that is sure that the seat to move ends in place `place` and the one after it in the next."""

    def __init__(self, actions: int, players: int, place: int) -> None:
        super().__init__()
        self.actions, self.players, self.place = actions, players, place

    def forward(self, planes: Tensor) -> tuple[Tensor, Tensor]:
        places = torch.zeros(len(planes), self.players, self.players)
        for seat in range(self.players):
            places[:, seat, (self.place + seat) % self.players] = 100.0
        return torch.zeros(len(planes), self.actions), places


def some_positions(count: int = 40):
    game = beacons("hex8", 2)
    states = game.initial(count)
    for ply in range(10):
        actions = np.array([(7 * row + 11 * ply) % 61 for row in range(count)], np.int32)
        legal = game.legal(states)[np.arange(count), actions]
        states[legal] = game.apply(states[legal], actions[legal])
    return game, states


class TestValues:
    @pytest.mark.parametrize("place", [0, 1, 2])
    def test_places_of_the_seats_from_the_mover_on_become_values_of_the_seats(self, place: int) -> None:
        game = trivial.make(9, 3)
        states = game.initial(3)
        states[:, game.cells] = [0, 1, 2]  # the seat to move
        _, values = NetworkEvaluator(game, Certain(game.actions, 3, place), CPU).evaluate(states)
        worth = np.roll([1.0, 0.0, -1.0], -place)
        np.testing.assert_allclose(values, [np.roll(worth, seat) for seat in range(3)], atol=1e-6)

    @pytest.mark.parametrize("players", [2, 3, 4])
    def test_are_in_range_and_sum_to_nothing(self, players: int) -> None:
        game = trivial.make(9, players)
        network = build(game, channels=8, blocks=1, seed=4)
        _, values = NetworkEvaluator(game, network, CPU).evaluate(game.initial(2))
        assert (np.abs(values) <= 1.0).all()
        assert (values != 0).any()
        np.testing.assert_allclose(values.sum(axis=1), 0.0, atol=1e-6)

    def test_illegal_actions_have_no_chance(self) -> None:
        game, states = some_positions()
        logits, _ = NetworkEvaluator(game, build(game, channels=8, blocks=1, seed=4), CPU).evaluate(states)
        np.testing.assert_array_equal(np.isneginf(logits), ~game.legal(states))
        assert np.isfinite(logits[game.legal(states)]).all()


class TestParts:
    def test_large_batches_are_worked_off_in_parts(self, monkeypatch: pytest.MonkeyPatch) -> None:
        game, states = some_positions()
        network = build(game, channels=8, blocks=2, seed=4)
        whole = NetworkEvaluator(game, network, CPU).evaluate(states)
        monkeypatch.setattr(inference, "CPU_CELLS", 200)  # three positions of 61 cells
        sizes: list[int] = []
        network.register_forward_hook(lambda module, given, found: sizes.append(len(found[0])))
        parts = NetworkEvaluator(game, network, CPU).evaluate(states)
        assert sizes == [3] * 13 + [1]
        np.testing.assert_allclose(parts[0], whole[0], atol=1e-5)
        np.testing.assert_allclose(parts[1], whole[1], atol=1e-5)

    def test_seconds_are_those_in_the_network(self) -> None:
        game, states = some_positions()
        ticks = iter([1.0, 3.0, 10.0, 14.0])
        evaluator = NetworkEvaluator(game, build(game, channels=8, blocks=1, seed=4), CPU, lambda: next(ticks))
        evaluator.evaluate(states)
        evaluator.evaluate(states)
        assert evaluator.seconds == 6.0


class TestDevices:
    def test_a_network_in_training_is_not_judged_as_such(self) -> None:
        game = trivial.make(9, 2)
        network = build(game, channels=8, blocks=1, seed=4).train()
        NetworkEvaluator(game, network, CPU)
        assert not network.training

    @pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU, which accelerator() prefers")
    @pytest.mark.parametrize(("variable", "threads"), [(None, 1), ("3", 2)])
    def test_one_thread_on_a_cpu_unless_asked(
        self, monkeypatch: pytest.MonkeyPatch, variable: str | None, threads: int
    ) -> None:
        monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
        if variable is not None:
            monkeypatch.setenv("OMP_NUM_THREADS", variable)
        before = torch.get_num_threads()
        try:
            torch.set_num_threads(2)
            assert accelerator() == CPU
            assert torch.get_num_threads() == threads
        finally:
            torch.set_num_threads(before)

    @pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU that torch can use")
    def test_a_gpu_says_the_same_to_two_digits(self) -> None:
        game, states = some_positions()
        network = build(game, channels=32, blocks=3, seed=4)
        expected = NetworkEvaluator(game, network, CPU).evaluate(states)
        found = NetworkEvaluator(game, network, accelerator()).evaluate(states)
        legal = game.legal(states)
        np.testing.assert_allclose(found[0][legal], expected[0][legal], atol=0.02)
        np.testing.assert_allclose(found[1], expected[1], atol=0.02)


class Broken(Certain):
    """Says of the second position what is no number."""

    def __init__(self, actions: int, logit: float = 0.0, place: float = 0.0) -> None:
        super().__init__(actions, 2, 0)
        self.logit, self.wrong = logit, place

    def forward(self, planes: Tensor) -> tuple[Tensor, Tensor]:
        logits, places = super().forward(planes)
        logits[1, 0] += self.logit
        places[1, 0, 0] += self.wrong
        return logits, places


@pytest.mark.parametrize(
    ("network", "told"),
    [({"logit": float("inf")}, "not finite in 1, values that are not in 0"),
     ({"logit": float("nan")}, "not finite in 1, values that are not in 0"),
     ({"place": float("nan")}, "not finite in 0, values that are not in 1")],
)  # fmt: skip
def test_what_is_no_number_is_an_error_with_counts(network: dict[str, float], told: str) -> None:
    game = trivial.make(9, 2)
    evaluator = NetworkEvaluator(game, Broken(game.actions, **network), CPU)
    with pytest.raises(inference.JudgementError, match=f"of 3 positions .*{told}"):
        evaluator.evaluate(game.initial(3))


def test_logits_of_illegal_actions_may_be_anything() -> None:
    game = trivial.make(9, 2)
    states = game.apply(game.initial(2), np.zeros(2, np.int32))
    NetworkEvaluator(game, Broken(game.actions, logit=float("nan")), CPU).evaluate(states)
