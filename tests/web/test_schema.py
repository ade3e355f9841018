"""The whole API against what its document says, asked by schemathesis: no failure of ours, no answer of another shape.

`make test` asks a little of each operation; `API_EXAMPLES=200` asks much.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

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

from hostler.web.app import make_app
from tests.web.core_desk import TOKEN, CoreDesk, Window, door, window
from tests.web.worlds import HOSTILE, SCRIPT, SWEEP, whole_world

EXAMPLES = int(os.environ.get("API_EXAMPLES", "4"))
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
    "sweeps": (SWEEP,),
    "configs": ("tiny_2p", "other_2p"),
    "nodes": ("gpu", "other gpu", "lost"),
    "devices": ("gpu/cuda0", "n/cpu0"),
    "attempts": ("j1.1",),
    "alerts": ("a1",),
    "rules": ("gpu_idle",),
    "silences": ("s1", "s2"),
    "tokens": ("one", "two"),
}
"""Names that there are: names made up by chance are of nothing."""
SCHEMA = schemathesis.openapi.from_dict(make_app(CoreDesk(), door()).openapi())
OPERATIONS = [each.ok() for each in SCHEMA.get_all_operations()]


@pytest.fixture(scope="module")
def world() -> Iterator[Window]:
    with window(whole_world()) as made:
        yield made


def names_of(path: str) -> tuple[str, ...]:
    parts = path.split("/")
    return (*KNOWN.get(parts[parts.index("{name}") - 1], ()), HOSTILE) if "{name}" in parts else ()


@pytest.mark.parametrize("operation", [each for each in OPERATIONS if each.path != STREAM], ids=lambda each: each.label)
@pytest.mark.parametrize("mode", list(GenerationMode), ids=str)
def test_answers_are_what_the_document_says(world: Window, operation: Any, mode: Any) -> None:
    names = names_of(operation.path)
    asked = 0

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        derandomize=EXAMPLES < 50,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.explicit, Phase.generate],
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def ask(case: Any) -> None:
        nonlocal asked
        asked += 1
        if names and asked % 4 and "name" in (case.path_parameters or {}):
            case.path_parameters["name"] = names[asked % len(names)]
        response = case.call(
            base_url=f"http://127.0.0.1:{world.port}", headers={"Authorization": f"Bearer {TOKEN}"}, timeout=30
        )
        case.validate_response(response, checks=CHECKS)
        assert world.desk.status().troubles == 0

    ask()
    assert asked
