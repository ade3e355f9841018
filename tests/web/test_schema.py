"""The whole API against what its document says, asked by schemathesis: no failure of ours, no answer of another shape.

`make test` asks a little of each operation, `make test-long` more; `API_EXAMPLES=200` asks much.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import cache
from typing import Any
from urllib.parse import quote

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import (
    content_type_conformance,
    not_a_server_error,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.patience import PATIENCE_S
from tests.web.core_desk import TOKEN, Window, window
from tests.web.published import DOCUMENT
from tests.web.worlds import ARTIFACT, HOSTILE, RL, SCRIPT, SWEEP, grouped_world

FEW, MANY = 1, int(os.environ.get("API_EXAMPLES", "40"))
"""Examples of each operation and kind."""
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
STREAM = "/api/v1/events"
KNOWN = {
    "jobs": (SCRIPT, SWEEP, "j1"),
    "groups": ("g1", "g2"),
    "sweeps": (SWEEP,),
    "rl": (RL, SWEEP),
    "configs": ("tiny_2p", "other_2p"),
    "nodes": ("gpu", "other gpu", "lost"),
    "devices": ("gpu/cuda0", "n/cpu0"),
    "attempts": (),
    "alerts": ("a1",),
    "rules": ("gpu_idle",),
    "silences": ("s1", "s2"),
    "tokens": ("one", "two"),
    "secrets": ("hf", "wandb"),
    "artifacts": (ARTIFACT, ARTIFACT[:20]),
}
"""Names that there are: names made up by chance are of nothing."""
OPERATIONS = [
    (method, path) for path, operations in DOCUMENT["paths"].items() for method in operations if path != STREAM
]


@cache
def schema() -> Any:
    """The document as schemathesis reads it."""
    return schemathesis.openapi.from_dict(DOCUMENT)


@pytest.fixture(scope="module")
def world() -> Iterator[Window]:
    with window(grouped_world()) as made:
        yield made


def names_of(served: Window, path: str) -> tuple[str, ...]:
    """Names for a path that has one in it: what stands before it says of what."""
    before = re.search(r"(\w+)/{", path)
    if before is None:
        return ()
    wrote = (attempt for attempt, _ in served.desk.logs if before[1] == "attempts")
    return (*wrote, *KNOWN[before[1]], HOSTILE)


@pytest.mark.parametrize(("method", "path"), OPERATIONS)
@pytest.mark.parametrize("mode", list(GenerationMode), ids=str)
@pytest.mark.parametrize("examples", [FEW, pytest.param(MANY, marks=pytest.mark.long)], ids=["few", "many"])
def test_answers_are_what_the_document_says(world: Window, method: str, path: str, mode: Any, examples: int) -> None:
    operation = schema()[path][method]
    names = names_of(world, path)
    asked, troubles = 0, world.desk.status().troubles

    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=examples < 50,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.explicit, Phase.generate],
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def ask(case: Any) -> None:
        nonlocal asked
        asked += 1
        for name in case.path_parameters or {}:
            # Of what is made up there is nothing; every fifth is left as it is.
            if asked % 5:
                case.path_parameters[name] = quote(names[asked % len(names)], safe="")
        if asked % 5 and isinstance(case.body, dict) and "rule" in case.body:
            case.body["rule"] = "*"
        # What becomes of people with other tokens, or none, other tests look at.
        case.headers = {**(case.headers or {}), "Authorization": f"Bearer {TOKEN}"}
        response = case.call(base_url=f"http://127.0.0.1:{world.port}", timeout=PATIENCE_S)
        case.validate_response(response, checks=CHECKS)
        assert world.desk.status().troubles == troubles

    ask()
    assert asked
