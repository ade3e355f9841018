"""What an answer has to be: one of the game's buttons, and how much the situation promises."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

PROMISES = tuple(tenth / 10 for tenth in range(11))
"""What may be answered. Bounds of numbers are left out of account by many servers, lists by none."""


class Garbage(ValueError):
    """An answer that is none."""


@dataclass(frozen=True, slots=True)
class Advice:
    """What to do in a state, by its number among the game's actions; what the state promises, 0 to 1."""

    action: int
    promise: float


def schema(actions: Sequence[str]) -> dict[str, Any]:
    """Of an answer, as JSON Schema."""
    return {
        "type": "object",
        "properties": {"action": {"enum": list(actions)}, "promise": {"enum": list(PROMISES)}},
        "required": ["action", "promise"],
        "additionalProperties": False,
    }


def instruction(actions: Sequence[str]) -> str:
    """What the model is told of it in words."""
    return (
        "You advise somebody who plays a Game Boy game. Answer with JSON and nothing else: "
        f'{{"action": the button to press now, one of {", ".join(actions)}; '
        '"promise": from 0 to 1 in tenths, how far on its way to the end of the game this situation is}.'
    )


def read_answer(body: bytes, actions: Sequence[str]) -> Advice:
    """Advice from the body of a chat completion. Raises `Garbage` for everything else."""
    try:
        content = json.loads(json.loads(body)["choices"][0]["message"]["content"])
    except (ValueError, KeyError, IndexError, TypeError, RecursionError) as error:
        raise Garbage(f"no chat completion with JSON in it ({type(error).__name__}): {_told(body)}") from error
    if not isinstance(content, dict) or content.keys() != {"action", "promise"}:
        raise Garbage(f"not an action and a promise: {_told(content)}")
    action, promise = content["action"], content["promise"]
    if action not in actions:
        raise Garbage(f"no action of the game: {_told(action)}")
    if isinstance(promise, bool) or not isinstance(promise, int | float) or not 0 <= promise <= 1:
        raise Garbage(f"no promise from 0 to 1: {_told(promise)}")
    return Advice(actions.index(action), float(promise))


def _told(value: object) -> str:
    text = value.decode(errors="replace") if isinstance(value, bytes) else repr(value)
    return text if len(text) <= 120 else f"{text[:117]}..."
