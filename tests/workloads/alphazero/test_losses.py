from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from hypothesis.extra.numpy import arrays

from hostler.workloads.alphazero.losses import expectation_loss, place_loss, policy_loss, value_loss

LOGITS = st.floats(-20, 20, width=32)


def softmax(logits: np.ndarray) -> np.ndarray:
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


@given(logits=arrays(np.float32, (3, 5), elements=LOGITS), seed=st.integers(0, 1000))
@settings(max_examples=60, deadline=None)
def test_policy_loss_is_the_cross_entropy_over_the_legal_actions(logits: np.ndarray, seed: int) -> None:
    chance = np.random.default_rng(seed)
    legal = chance.random((3, 5)) < 0.6
    legal[:, 2] = True
    target = chance.random((3, 5)) * legal
    target /= target.sum(axis=1, keepdims=True)
    found = policy_loss(torch.from_numpy(logits), torch.from_numpy(legal), torch.from_numpy(target))
    for row in range(3):
        chances = softmax(logits[row, legal[row]].astype(np.float64))
        assert found[row].item() == pytest.approx(-(target[row, legal[row]] * np.log(chances)).sum(), abs=1e-4)


def test_illegal_logits_get_no_gradient() -> None:
    logits = torch.tensor([[1.0, 30.0, 2.0]], requires_grad=True)
    legal = torch.tensor([[True, False, True]])
    policy_loss(logits, legal, torch.tensor([[0.5, 0.0, 0.5]])).sum().backward()
    assert logits.grad is not None
    assert logits.grad[0, 1] == 0
    assert torch.isfinite(logits.grad).all()


def test_half_precision_logits_lose_nothing_in_the_loss() -> None:
    logits = torch.tensor([[11.0, -11.0, 0.5]], dtype=torch.float16)
    legal, target = torch.ones(1, 3, dtype=torch.bool), torch.tensor([[0.0, 1.0, 0.0]])
    assert policy_loss(logits, legal, target).item() == pytest.approx(22.0, abs=1e-3)


def test_place_loss_is_the_mean_over_seats_of_the_cross_entropy_of_their_places() -> None:
    logits = np.random.default_rng(3).normal(size=(4, 3, 3))
    places = np.array([[0, 1, 2], [2, 1, 0], [1, 0, 2], [0, 2, 1]])
    found = place_loss(torch.from_numpy(logits), torch.from_numpy(places)).numpy()
    chances = softmax(logits)
    for row in range(4):
        assert found[row] == pytest.approx(
            -np.mean([np.log(chances[row, seat, places[row, seat]]) for seat in range(3)])
        )


def test_with_two_players_the_search_says_the_same_as_the_places() -> None:
    logits = torch.from_numpy(np.random.default_rng(4).normal(size=(6, 2, 2)))
    places = torch.tensor([[0, 1], [1, 0]] * 3)
    certain = 1.0 - 2.0 * places.double()
    assert expectation_loss(logits, certain).tolist() == pytest.approx(place_loss(logits, places).tolist(), abs=1e-4)


@pytest.mark.parametrize("players", [2, 3, 4])
def test_the_expectation_loss_is_least_at_the_value_itself(players: int) -> None:
    logits = torch.zeros(1, players, players, dtype=torch.float64, requires_grad=True)
    values = torch.linspace(-0.6, 0.6, players, dtype=torch.float64)[None]
    optimizer = torch.optim.LBFGS([logits], max_iter=100)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = expectation_loss(logits, values).sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    worth = torch.linspace(1, -1, players, dtype=torch.float64)
    reached = (logits.detach().softmax(dim=2) * worth).sum(dim=2)
    assert reached[0].tolist() == pytest.approx(values[0].tolist(), abs=1e-3)


def test_the_search_weighs_in_only_where_it_knows() -> None:
    logits = torch.from_numpy(np.random.default_rng(5).normal(size=(2, 2, 2)))
    places = torch.tensor([[0, 1], [0, 1]])
    root = torch.tensor([[0.5, -0.5], [float("nan"), float("nan")]], dtype=torch.float64)
    alone, mixed = place_loss(logits, places), value_loss(logits, places, root, 0.25)
    assert mixed[0].item() == pytest.approx(0.75 * alone[0].item() + 0.25 * expectation_loss(logits, root)[0].item())
    assert mixed[1].item() == pytest.approx(alone[1].item())
    assert value_loss(logits, places, root, 0.0).tolist() == alone.tolist()


def test_unknown_values_of_the_search_leave_the_gradient_finite() -> None:
    logits = torch.zeros(1, 2, 2, requires_grad=True)
    value_loss(logits, torch.tensor([[0, 1]]), torch.full((1, 2), float("nan")), 0.5).sum().backward()
    assert logits.grad is not None
    assert torch.isfinite(logits.grad).all()
