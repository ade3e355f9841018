"""Jobs of a node as a user of their own: what may be set, and what the agent is told."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from hostler.backends import wire
from hostler.model.commands import AttemptOrder, WorkerOrder
from hostler.settings.nodes import Node

LIMITS = wire.Limits(log_bytes=1, result_bytes=1, job_user="20000")
ORDER = AttemptOrder(
    id="j1.1", queue="cpu0", argv=("true",), env={}, cwd=None, walltime_s=None, memory_bytes=None, grace_s=1.0,
    inputs=None,
)  # fmt: skip
WORKER = WorkerOrder(
    id="w", queue="cpu0", argv=("w",), env={}, digest="d", params={}, silence_s=1.0, start_s=1.0
)  # fmt: skip


def node(**fields: Any) -> Node:
    return Node.model_validate({"name": "n", **fields})


@pytest.mark.parametrize("backend", ["ssh", "dialin"])
@pytest.mark.parametrize("user", ["20000", "runner"])
def test_nodes_with_an_agent_of_their_own_may_name_a_user(backend: str, user: str) -> None:
    assert node(backend=backend, job_user=user).job_user == user
    assert node(backend=backend).job_user is None


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"backend": "local", "job_user": "runner"}, "not for `backend: local`"),
        ({"backend": "ssh", "job_user": "root"}, "keeps nothing from jobs"),
        ({"backend": "ssh", "job_user": "0"}, "job_user"),
        ({"backend": "ssh", "job_user": "a b"}, "job_user"),
    ],
)
def test_user_that_helps_nothing_is_refused(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        node(**fields)


def test_agent_is_told_the_user_of_attempts_and_workers() -> None:
    ((request,), refused) = wire.launches([ORDER], LIMITS)
    assert (request["attempts"][0]["user"], refused) == ("20000", [])
    assert wire.opening(WORKER, LIMITS)["worker"]["user"] == "20000"
    without = wire.Limits(log_bytes=1, result_bytes=1)
    assert "user" not in wire.launches([ORDER], without)[0][0]["attempts"][0]
    assert "user" not in wire.opening(WORKER, without)["worker"]
