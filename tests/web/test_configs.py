"""Training configs over HTTP. The histories are made up: what is told of real ones is the core's, and tested there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from hostler.model import codec
from hostler.model.inputs import RollBack
from hostler.model.views import ConfigHistory, ConfigView, ModelView
from tests.web.core_desk import Window, window
from tests.web.loops import LoopDesk, busy, empty, losing

API = "/api/v1/configs"


@pytest.fixture
def desk() -> LoopDesk:
    return LoopDesk(busy("hex8_2p"), empty("square8_2p"), losing("old"))


@pytest.fixture
def served(desk: LoopDesk) -> Iterator[Window]:
    with window(desk) as made:
        yield made


def read(shape: Any, body: bytes) -> Any:
    """A view as it was before it went through JSON."""
    return codec.adapter(shape).validate_json(body)


def test_every_view_arrives_as_it_is(served: Window, desk: LoopDesk) -> None:
    assert read(list[ConfigView], served.get(API).body) == list(desk.configs())
    for name in desk.histories:
        assert read(ConfigView, served.get(f"{API}/{name}").body) == desk.config(name)
        assert read(ConfigHistory, served.get(f"{API}/{name}/history").body) == desk.history(name)
        assert read(list[ModelView], served.get(f"{API}/{name}/models").body) == desk.models(name)


def test_what_is_not_known_is_null(served: Window) -> None:
    shown = served.get(f"{API}/square8_2p").json
    unknown = {"current", "rating", "velocity", "games_per_h", "data_age_s", "accepted_share", "duplicate_share"}
    assert {name for name in unknown if shown[name] is None} == unknown


@pytest.mark.parametrize("path", ["", "/history", "/models"])
def test_an_unknown_config_is_not_found(served: Window, path: str) -> None:
    reply = served.get(f"{API}/chess{path}")
    assert (reply.status, reply.json["error"]) == (404, "NotFound")
    assert served.post(f"{API}/hex8_2p{path}").status == 405


@pytest.mark.parametrize("body", [None, {}, {"model": None}])
def test_without_a_name_the_model_before_becomes_current(served: Window, desk: LoopDesk, body: Any) -> None:
    reply = served.post(f"{API}/hex8_2p/rollback", body)
    assert (reply.status, reply.json["generation"]) == (200, 9)
    assert desk.rolled_back == [RollBack(config="hex8_2p")]


def test_a_model_is_named_by_the_beginning_of_its_hash(served: Window, desk: LoopDesk) -> None:
    wanted = desk.models("hex8_2p")[4].sha256
    reply = served.post(f"{API}/hex8_2p/rollback", {"model": wanted[:8], "why": "it played better"})
    assert reply.json["current"] == wanted
    assert desk.rolled_back == [RollBack(config="hex8_2p", model=wanted[:8], why="it played better")]


@pytest.mark.parametrize(
    ("config", "body", "status"),
    [
        ("chess", {}, 404),
        ("hex8_2p", {"model": "f" * 64}, 404),
        ("square8_2p", {}, 404),
        ("hex8_2p", {"model": "Model 7"}, 422),
        ("hex8_2p", {"model": ""}, 422),
        ("hex8_2p", {"model": 7}, 422),
        ("hex8_2p", {"modle": "ab"}, 422),
        ("hex8_2p", [], 422),
    ],
)
def test_what_cannot_be_rolled_back_to_is_refused(
    served: Window, desk: LoopDesk, config: str, body: Any, status: int
) -> None:
    before = dict(desk.histories)
    assert served.post(f"{API}/{config}/rollback", body).status == status
    assert (desk.histories, desk.rolled_back) == (before, [])
