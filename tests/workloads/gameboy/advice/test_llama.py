"""Against a real server of llama.cpp: what we send, it heeds; what it says, we can read."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from hostler.workloads.gameboy.advice.counts import Came
from hostler.workloads.gameboy.advice.endpoint import Endpoint, Said
from hostler.workloads.gameboy.game import Game
from hostler.workloads.gameboy.rom import Cartridge
from hostler.workloads.gameboy.run import read_run
from hostler.workloads.gameboy.training import Training
from tests.workloads.gameboy.advice.asking import asking, section
from tests.workloads.gameboy.advice.tiny import write_model

xllamacpp = pytest.importorskip("xllamacpp", reason="no llama.cpp server: pip install 'hostler[llm]'")
pytest.importorskip("gguf", reason="nothing to write a model with: pip install 'hostler[llm]'")

TIMEOUT_S = 120.0
KEY = "a-token"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Of a server with a model that knows nothing, for who has the token."""
    params = xllamacpp.CommonParams()
    params.model.path = str(write_model(tmp_path_factory.mktemp("model") / "tiny.gguf"))
    params.model_alias = {"tiny"}
    params.n_ctx, params.n_parallel, params.n_gpu_layers = 4096, 2, 0
    params.warmup = params.fit_params = params.ui = False
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.verbosity = -1
    params.api_keys = [KEY]
    params.hostnames, params.port = ["127.0.0.1"], 0
    server: Any = xllamacpp.Server(params)
    yield f"{server.listening_address}/v1"
    del server


def ask(url: str, question: str, key: str | None = KEY, **changes: Any) -> Said:
    """One call."""
    asked = asking(url=url, **{"model": "tiny", "timeout_s": TIMEOUT_S, **changes})
    endpoint = Endpoint(asked, ("noop", "left", "right"), key, time.monotonic)
    try:
        return endpoint.ask(question)
    finally:
        endpoint.close()


def test_answers_keep_to_the_schema_whatever_the_model_knows(url: str) -> None:
    for number in range(20):
        said = ask(url, f"You are in room {number}. Tell me a story of it.")
        assert said.came is Came.ANSWERED, said.words
        assert said.advice is not None
        assert 0 <= said.advice.action < 3


def test_an_answer_that_is_cut_short_is_garbage(url: str) -> None:
    assert ask(url, "Where to?", tokens=16).came is Came.GARBAGE


def test_who_has_no_token_is_denied(url: str) -> None:
    said = ask(url, "Where to?", key=None)
    assert said.came is Came.DENIED
    assert said.words is not None
    assert "401" in said.words


def test_a_path_that_is_wrong_is_told(url: str) -> None:
    said = ask(f"{url}/elsewhere", "Where to?")
    assert said.came is Came.DENIED
    assert said.words is not None
    assert "404" in said.words


@pytest.mark.long
def test_a_training_is_advised(url: str, keyrooms: Game, cart: Cartridge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLM_TOKEN", KEY)
    advice = section(url=url, model="tiny", key="LLM_TOKEN", timeout_s=TIMEOUT_S, at_once=2, calls_per_s=100)
    asked = {"steps": 10**8, "envs_per_worker": 4, "batch_steps": 256, "fragment_steps": 32, "episode_steps": 64}
    enough, told = threading.Event(), []

    class Enough(Exception):
        """It is."""

    def tell(line: Any) -> None:
        told.append(line)
        if line["advice"]["calls"].get("answered", {}).get("calls", 0) >= 4 and line["shares"].get("advice"):
            enough.set()
            raise Enough

    with pytest.raises(Enough):
        Training(read_run({**asked, "advice": advice}), keyrooms, cart, told=tell).run()
    assert told[-1]["advice"]["success"] == 1.0
    assert told[-1]["advice"]["cached"] > 0
