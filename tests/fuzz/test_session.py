"""A real agent, and somebody who is hardly a controller: it answers, stays, and works for the next one."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from tests.agent.harness import Agent, Client
from tests.agent.test_attempts import attempt

from .base import spoilt
from .samples import REQUESTS

ENDS = (b'"shutdown"', b'"upgrade"')
"""What would end the agent as it was asked to."""
WAYS = st.sampled_from(["spoilt", "spoilt", "spoilt", "half", "anew", "twice", "noise"])


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agent]:
    made = Agent(tmp_path_factory.mktemp("agent"))
    yield made
    made.stop()


class Rude:
    """Says things; hangs up and comes back as it likes."""

    def __init__(self, agent: Agent, chance: random.Random) -> None:
        self.agent = agent
        self.chance = chance
        self.client: Client = agent.client()

    def do(self, way: str) -> None:
        data = self.chance.choice(REQUESTS)
        if way == "anew":
            self.client.close()
            self.client = self.agent.client()
            return
        if way == "noise":
            data = self.chance.randbytes(50) + b"\n"
        elif way == "spoilt":
            data = spoilt(self.chance, data, REQUESTS)
        elif way == "twice":
            data = data * 2
        elif way == "half":
            self.client.send_raw(data[: len(data) // 2])
            self.client.close()
            self.client = self.agent.client()
            return
        if not any(word in data for word in ENDS):
            self.client.send_raw(data.rstrip(b"\n") + b"\n")

    def errors(self) -> list[str]:
        """All that the agent answered by errors."""
        told: list[Any] = [each["error"] for each in self.client.messages if each["type"] == "error"]
        return [str(each) for each in told]


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(ways=st.lists(WAYS, min_size=1, max_size=12), chance=st.randoms(use_true_random=False))
def test_nobody_breaks_it(agent: Agent, ways: list[str], chance: random.Random) -> None:
    supervisor = agent.supervisor
    rude = Rude(agent, chance)
    for way in ways:
        rude.do(way)
        rude.client.sync()
        assert not [each for each in rude.errors() if "it failed" in each]
    rude.client.close()
    next_one = agent.client()
    next_one.sync()
    assert agent.supervisor == supervisor
    next_one.close()


def test_what_it_does_afterwards(agent: Agent, tmp_path: Path) -> None:
    client = agent.client()
    client.launch(attempt("j99.1", "true"))
    assert client.ended("j99.1")["exit_code"] == 0
