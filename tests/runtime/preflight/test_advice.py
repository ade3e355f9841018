"""A language model that answers as it should, and every way in which it may not."""

from __future__ import annotations

import asyncio
import json
import socket
from contextlib import suppress

import pytest

from hostler.runtime.preflight import Proof
from hostler.runtime.preflight.advice import BUTTONS, Asked, probe
from tests.patience import PATIENCE_S
from tests.runtime.preflight.models import Model, completion, served

KEY = "very-secret-key"


def probed(server: Model, *, timeout_s: float = PATIENCE_S, **asked: object) -> Proof:
    with served(server):
        return asyncio.run(probe(_asked(server.url, timeout_s=timeout_s, **asked)))


def _asked(endpoint: str, timeout_s: float = PATIENCE_S, **asked: object) -> Asked:
    told = {"model": None, "key": None, "endpoint": endpoint, **asked}
    return Asked(timeout_s=timeout_s, **told)  # type: ignore[arg-type]


@pytest.mark.parametrize("end", ["", "/"])
def test_a_model_that_heeds_the_schema_is_proved(end: str) -> None:
    model = Model()
    with served(model):
        found = asyncio.run(probe(_asked(model.url + end)))
    assert (found.code, found.health, found.fix) == ("advice-ok", "ok", "")
    assert "tiny answered 'up' within" in found.says
    (asked,) = model.asked
    assert asked["model"] == "tiny"
    schema = asked["response_format"]["json_schema"]["schema"]
    assert schema["properties"]["action"]["enum"] == list(BUTTONS)
    # Whoever does not constrain the answer says something else.
    assert "action" not in json.dumps(asked["messages"])
    assert "JSON" not in json.dumps(asked["messages"])


def test_a_base_that_is_too_short_is_told() -> None:
    model = Model()
    with served(model):
        found = asyncio.run(probe(_asked(model.url.removesuffix("/v1"))))
    assert found.code == "advice-path"
    assert "for most servers ends with /v1" in found.fix


def test_a_server_that_lists_no_models_is_asked_without_or_with_the_named_one() -> None:
    model = Model(models=404)
    assert probed(model).code == "advice-ok"
    assert "model" not in model.asked[0]
    assert probed(model, model="mine").code == "advice-ok"
    assert model.asked[1]["model"] == "mine"


def test_the_model_that_is_meant_has_to_be_there() -> None:
    found = probed(Model(), model="other")
    assert (found.code, found.health) == ("advice-model", "error")
    assert "there is no model 'other'; there are: tiny" in found.says
    assert "it has 2 models: a, b" in probed(Model(models=["a", "b"])).says
    assert probed(Model(models=["a", "b"]), model="b").code == "advice-ok"


def test_a_key_is_shown_and_never_told() -> None:
    assert probed(Model(key=KEY), key=KEY).code == "advice-ok"
    without = probed(Model(key=KEY))
    assert without.code == "advice-key"
    assert "whoever shows no key" in without.says
    wrong = probed(Model(key=KEY), key="another")
    assert wrong.code == "advice-key"
    assert "the key it was shown" in wrong.says
    echoed = probed(Model(does=500), key=KEY)
    assert KEY not in f"{echoed} {_asked('http://x', key=KEY)!r}"


@pytest.mark.parametrize(
    ("does", "code", "says"),
    [
        (401, "key", "(401)"),
        (403, "key", "(403)"),
        (404, "path", "/v1/chat/completions is not there (404)"),
        (429, "busy", "(429)"),
        (400, "rejected", "(400): said with no key"),
        (422, "rejected", "(422)"),
        (500, "failing", "(500)"),
        (503, "failing", "(503)"),
        (307, "elsewhere", "sends elsewhere (307)"),
        ("<html>welcome</html>", "garbage", "<html>welcome</html>"),
        ("{}", "garbage", "no completion: {}"),
        ('{"choices": []}', "garbage", "no completion"),
        (completion(None), "garbage", "no completion"),
        (completion("Hello there!"), "free", "said 'Hello there!'"),
        (completion('{"action": "jump"}'), "schema", "jump"),
        (completion('{"action": "up", "why": "x"}'), "schema", "why"),
        (completion('["up"]'), "schema", "up"),
        ("closes", "broken", "RemoteProtocolError"),
        ("endless", "garbage", "xxx"),
    ],
)
def test_whatever_else_it_does_is_told_with_a_fix(does: object, code: str, says: str) -> None:
    found = probed(Model(does=does))
    assert (found.code, found.health) == (f"advice-{code}", "error")
    assert says in found.says
    assert found.fix
    assert len(found.says) < 400


def test_one_that_hangs_is_not_waited_for() -> None:
    """Whoever waited for its answer would find the connection closed without one, and not that it hangs."""
    found = probed(Model(does="hangs"), timeout_s=0.5)
    assert found.code == "advice-hangs"
    assert "has not answered within 0.5 s" in found.says


def test_nobody_there_is_told_as_that() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        found = asyncio.run(probe(_asked(f"http://127.0.0.1:{taken.getsockname()[1]}")))
    assert found.code == "advice-refused"
    assert "NetworkPolicy" in found.fix


def test_one_that_speaks_no_http_is_told_as_that() -> None:
    async def babble(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-babble\r\n")
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()

    async def probe_it() -> Proof:
        server = await asyncio.start_server(babble, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            return await probe(_asked(f"http://127.0.0.1:{port}"))

    assert asyncio.run(probe_it()).code == "advice-broken"


def test_one_that_is_slower_than_planned_is_noted() -> None:
    found = probed(Model(), planned_s=1e-9)
    assert (found.code, found.health) == ("advice-slow", "note")
    assert probed(Model(), planned_s=1000.0).code == "advice-ok"
