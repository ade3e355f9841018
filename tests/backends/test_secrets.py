"""Values of secrets on their way to agents: in the request that launches, and to agents alone that journal none."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from hostler.agent.protocol import MOST_SECRET_BYTES, MOST_SECRETS, RequestError, attempt_spec
from hostler.backends.base import Store
from hostler.backends.local import LocalNode
from hostler.model.commands import AttemptOrder
from hostler.model.secrets import VALUE_BYTES
from hostler.model.work import SECRETS_MAX

pytestmark = pytest.mark.anyio

VALUE = "planted-value"
ORDER = AttemptOrder(
    id="j1.1", queue="cpu0", argv=("true",), env={}, cwd=None, walltime_s=None, memory_bytes=None, grace_s=1.0,
    inputs=None, secrets={"HF_TOKEN": "hf"}, secret_values={"HF_TOKEN": VALUE},
)  # fmt: skip


@pytest.mark.parametrize("keeps", [True, False])
async def test_agents_that_would_journal_secrets_get_none(tmp_path: Path, keeps: bool) -> None:
    sent: list[Any] = []

    async def send(request: Any) -> None:
        sent.append(request)

    store = Store(results=tmp_path / "results", artifacts=tmp_path / "artifacts")
    node = LocalNode("here", tmp_path / "agent", controller="test", store=store)
    hello = {"tells": True, "sets_up": True, "limits_builds": True, "keeps_secrets": keeps}
    cast(Any, node)._channel = SimpleNamespace(hello=hello, send=send)
    ends = await node.launch([ORDER])
    assert [(end.attempt, end.reason) for end in ends] == ([] if keeps else [("j1.1", "spawn")])
    assert [each["secrets"] for request in sent for each in request["attempts"]] == (
        [{"HF_TOKEN": VALUE}] if keeps else []
    )
    assert VALUE not in repr((ORDER, ends))


@pytest.mark.parametrize(
    "secrets",
    [
        {"A": None}, {"A": 1}, {"A": "x\0"}, {"A=B": "x"}, {"": "x"}, [], "x",
        {"A": "x" * (MOST_SECRET_BYTES + 1)}, {f"A{at}": "x" for at in range(MOST_SECRETS + 1)},
    ],
)  # fmt: skip
def test_agent_refuses_wrong_secrets_without_repeating_them(secrets: Any) -> None:
    with pytest.raises(RequestError, match="secrets") as refused:
        attempt_spec({"id": "j1.1", "queue": "cpu0", "argv": ["true"], "secrets": secrets})
    assert "xx" not in str(refused.value)


def test_limits_of_controller_and_agent_are_the_same() -> None:
    assert (VALUE_BYTES, SECRETS_MAX) == (MOST_SECRET_BYTES, MOST_SECRETS)
