from __future__ import annotations

from dataclasses import replace
from math import log

import numpy as np
import pytest
import torch

from hostler.workloads.alphazero.learner import Diverged, Hyperparameters, Learner, Precision, clip, split
from hostler.workloads.alphazero.network import build
from hostler.workloads.alphazero.sampling import Batch, Examples
from tests.workloads.alphazero.datasets import heuristic_dataset
from tests.workloads.alphazero.trivial import make

CPU = torch.device("cpu")
HOW = Hyperparameters(learning_rate=0.01, weight_decay=1e-4, steps=200)
GAME = make(9, 2)


@pytest.fixture(scope="module")
def batch() -> Batch:
    dataset = heuristic_dataset(GAME, "c", 40, 1)
    return Examples(GAME, dataset).batch(np.arange(len(dataset.states)))


def learner(how: Hyperparameters = HOW, precision: Precision | None = None) -> Learner:
    return Learner(build(GAME, channels=8, blocks=1, seed=2), how, CPU, precision)


@pytest.mark.long
def test_steps_bring_the_losses_down(batch: Batch) -> None:
    trained = learner()
    before = trained.measure([batch])
    losses = [trained.step(step, batch) for step in range(60)]
    after = trained.measure([batch])
    assert losses[0] == pytest.approx((before.policy.mean(), before.value.mean()), abs=1e-5)
    assert after.policy.mean() < before.policy.mean() - 0.1
    assert after.value.mean() < before.value.mean() - 0.1


@pytest.mark.long
def test_measuring_changes_nothing_and_is_the_same_in_parts(batch: Batch) -> None:
    trained = learner()
    parts = [
        Batch(*(getattr(batch, name)[at] for name in Batch.__dataclass_fields__)) for at in (slice(30), slice(30, None))
    ]
    whole, split = trained.measure([batch]), trained.measure(parts)
    assert whole.policy == pytest.approx(split.policy, abs=1e-5)
    assert whole.value == pytest.approx(split.value, abs=1e-5)
    assert whole.uniform_policy == pytest.approx([log(legal.sum()) for legal in batch.legal])


def test_the_learning_rate_warms_up_then_falls_and_never_ends_above_its_floor() -> None:
    rates = [HOW.rate(step) for step in range(200)]
    assert rates[0] == pytest.approx(0.01 / 20)
    assert rates[19] == pytest.approx(0.01)
    assert rates[:20] == sorted(rates[:20])
    assert rates[19:] == sorted(rates[19:], reverse=True)
    assert 0 < rates[-1] < 0.03 * 0.01
    assert Hyperparameters(0.01, 0.0, 1).rate(0) == 0.01


def test_the_optimiser_is_given_the_rate_of_its_step(batch: Batch) -> None:
    """Adam's first step moves a weight by the learning rate, whatever the gradient."""
    for step in (0, 19):
        trained = learner(replace(HOW, weight_decay=0.0))
        before = trained.weights()
        trained.step(step, batch)
        moved = max(float((after - before[name]).abs().max()) for name, after in trained.weights().items())
        assert moved == pytest.approx(HOW.rate(step), rel=0.01)


def test_clipping_really_clips(batch: Batch) -> None:
    network = build(GAME, channels=8, blocks=1, seed=2)
    logits, places = network(torch.from_numpy(batch.planes))
    (1e4 * (logits.square().sum() + places.square().sum())).backward()
    direction = network.stem.linear.weight.grad.clone()
    length = clip(network, 0.5)
    gradients = torch.cat([parameter.grad.flatten() for parameter in network.parameters()])
    assert length > 100
    assert gradients.norm().item() == pytest.approx(0.5, rel=1e-3)
    assert torch.allclose(network.stem.linear.weight.grad * length / 0.5, direction, rtol=1e-3)


def test_a_step_uses_the_clipped_gradient(batch: Batch) -> None:
    """Adam divides by the size of the gradient, so its first moment is looked at: a tenth of the clipped gradient."""
    trained = learner()
    with torch.no_grad():
        for parameter in trained.network.places.parameters():
            parameter.mul_(100.0)
    trained.step(0, batch)
    moments = [tensor for name, tensor in trained.moments().items() if name.endswith("exp_avg")]
    assert torch.cat([tensor.flatten() for tensor in moments]).norm().item() == pytest.approx(0.1, rel=1e-3)


def test_biases_do_not_decay(batch: Batch) -> None:
    trained = learner(replace(HOW, weight_decay=5.0))
    optimizer = trained._optimizer
    assert {group["weight_decay"] for group in optimizer.param_groups} == {5.0, 0.0}
    for group in optimizer.param_groups:
        assert all((parameter.ndim > 1) == (group["weight_decay"] > 0) for parameter in group["params"])
    assert sum(len(group["params"]) for group in optimizer.param_groups) == len(list(trained.network.parameters()))


def test_a_loss_that_is_not_finite_is_an_error_with_step_and_rate(batch: Batch) -> None:
    planes = batch.planes.copy()
    planes[3, 0, 0] = np.nan
    trained = learner()
    before = trained.weights()
    with pytest.raises(
        Diverged, match=r"step 20: the loss is not finite \(policy nan, value nan\) at learning rate 0.01"
    ):
        trained.step(19, replace(batch, planes=planes))
    assert all(torch.equal(tensor, before[name]) for name, tensor in trained.weights().items())


def test_a_gradient_that_is_not_finite_is_an_error(batch: Batch, monkeypatch: pytest.MonkeyPatch) -> None:
    trained = learner()
    trained.network.stem.linear.weight.register_hook(lambda gradient: gradient * float("inf"))
    with pytest.raises(Diverged, match=r"step 1: the gradient is not finite at learning rate 0\.0005"):
        trained.step(0, batch)


def test_a_restored_learner_goes_on_to_the_last_bit(batch: Batch) -> None:
    straight, first = learner(), learner()
    for step in range(6):
        straight.step(step, batch)
    for step in range(3):
        first.step(step, batch)
    second = learner()
    second.restore(first.weights(), first.moments())
    for step in range(3, 6):
        second.step(step, batch)
    ends = straight.weights()
    assert all(torch.equal(tensor, ends[name]) for name, tensor in second.weights().items())


def test_a_learner_restored_without_moments_does_not_go_on_the_same(batch: Batch) -> None:
    """Which shows that the test above sees the state of the optimiser."""
    straight, first = learner(), learner()
    for each in (straight, first):
        for step in range(3):
            each.step(step, batch)
    second = learner()
    second.restore(first.weights(), {})
    straight.step(3, batch), second.step(3, batch)
    ends = straight.weights()
    assert not all(torch.equal(tensor, ends[name]) for name, tensor in second.weights().items())


@pytest.mark.parametrize(
    "precision",
    [
        pytest.param(Precision(torch.bfloat16, False), marks=pytest.mark.long),
        pytest.param(Precision(torch.bfloat16, True), marks=pytest.mark.services),
    ],
)
def test_half_precision_learns_too(batch: Batch, precision: Precision) -> None:
    """The code path of a GPU, by the CPU's bfloat16; with scaled gradients as float16 needs them."""
    trained = learner(precision=precision)
    before = trained.measure([batch]).policy.mean()
    for step in range(40):
        trained.step(step, batch)
    assert trained.measure([batch]).policy.mean() < before - 0.1
    assert all(tensor.dtype == torch.float32 for tensor in trained.weights().values())


def test_the_scale_of_gradients_survives_a_restore(batch: Batch) -> None:
    precision = Precision(torch.bfloat16, True)
    first = learner(precision=precision)
    for step in range(3):
        first.step(step, batch)
    first._scaler.update(1024.0)
    second = learner(precision=precision)
    second.restore(first.weights(), first.moments())
    assert second._scaler.get_scale() == 1024.0
    assert second._scaler.state_dict() == first._scaler.state_dict()


def test_the_cpu_computes_in_single_precision() -> None:
    assert Precision.of(CPU) == Precision(None, False)


def test_a_batch_in_parts_is_the_same_step(batch: Batch) -> None:
    def trained(parts: int) -> Learner:
        return Learner(build(GAME, channels=8, blocks=1, seed=2), replace(HOW, root_weight=0.5), CPU, parts=parts)

    whole, parted = trained(1), trained(3)
    for step in range(5):
        assert parted.step(step, batch) == pytest.approx(whole.step(step, batch), rel=1e-4)
    before, after = whole.weights(), parted.weights()
    for name, tensor in before.items():
        torch.testing.assert_close(after[name], tensor, rtol=1e-3, atol=1e-4)
    one, other = whole.measure([batch]), parted.measure([batch])
    assert one.policy == pytest.approx(other.policy, abs=1e-3)
    assert one.uniform_policy == pytest.approx(other.uniform_policy)


@pytest.mark.parametrize("parts", [1, 2, 3, 7, 1000])
def test_parts_are_the_whole_in_order(batch: Batch, parts: int) -> None:
    pieces = list(split(batch, parts))
    assert len(pieces) <= parts
    assert max(len(piece.planes) for piece in pieces) == -(-len(batch.planes) // parts)
    for name in Batch.__dataclass_fields__:
        joined = np.concatenate([getattr(piece, name) for piece in pieces])
        np.testing.assert_array_equal(joined, getattr(batch, name))
