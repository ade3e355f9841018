"""The losses of training, in nats for each position."""

from __future__ import annotations

import torch
from torch.nn.functional import log_softmax

CERTAIN = 1e-6  # probabilities closer to 0 or 1 than this are not told apart
ILLEGAL = -1e9  # a logit that leaves no probability and, unlike -inf, no NaN when multiplied by 0


def policy_loss(logits: torch.Tensor, legal: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """`(batch,)`: cross-entropy of the target distribution with the network's over the legal actions.

    `logits`, `legal` and `target` are `(batch, actions)`. Computed in float32, whatever the logits are.
    """
    masked = logits.float().masked_fill(~legal, ILLEGAL)
    return -(target * log_softmax(masked, dim=1)).sum(dim=1)


def place_loss(logits: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """`(batch,)`: cross-entropy of the final places, mean over the seats.

    `logits` is `(batch, players, players)` by seat and place, `places` `(batch, players)` the place of each seat.
    """
    log_chances = log_softmax(logits.float(), dim=2)
    return -log_chances.gather(2, places.unsqueeze(2)).squeeze(2).mean(dim=1)


def expectation_loss(logits: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """`(batch,)`: how far the expected worth of each seat's place is from `values`, mean over the seats.

    The Bernoulli cross-entropy of `(1 + value) / 2`, a proper score of the expectation; with two players it is the
    cross-entropy of the places themselves. `values` is `(batch, players)` in -1..1, evenly spaced over the places.
    """
    worth = torch.linspace(1.0, 0.0, logits.shape[2], device=logits.device)
    expected = (torch.softmax(logits.float(), dim=2) * worth).sum(dim=2).clamp(CERTAIN, 1.0 - CERTAIN)
    due = (values + 1.0) / 2.0
    return -(due * expected.log() + (1.0 - due) * (-expected).log1p()).mean(dim=1)


def value_loss(
    logits: torch.Tensor, places: torch.Tensor, root_value: torch.Tensor, root_weight: float
) -> torch.Tensor:
    """`(batch,)`: `1 - root_weight` parts of `place_loss`, `root_weight` of `expectation_loss` of the search's values.

    Positions without a value of the search have `place_loss` alone.
    """
    by_places = place_loss(logits, places)
    if not root_weight:
        return by_places
    known = ~root_value.isnan().any(dim=1)
    by_search = expectation_loss(logits, root_value.nan_to_num(0.0).clamp(-1.0, 1.0))
    return torch.where(known, (1.0 - root_weight) * by_places + root_weight * by_search, by_places)
