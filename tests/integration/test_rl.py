"""A real training under a real controller: what it tells is what people and programs are shown."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from tests.integration.conftest import Fleet
from tests.integration.loops import LOOP_PATIENCE_S, soon
from tests.workloads.gameboy.advice import stub

pytestmark = pytest.mark.long

ORDER = """
schema: 1
game: keyrooms
rom: keyrooms
training: {steps: 900, envs_per_worker: 2, batch_steps: 128, fragment_steps: 32, episode_steps: 40, seed: 1}
"""


def test_what_a_training_tells_is_shown(fleet: Fleet, tmp_path: Path) -> None:
    for name in ("torch", "pyboy"):
        pytest.importorskip(name, reason=f"{name} is not installed; pip install 'hostler[rl]'")
    order = tmp_path / "order.yaml"
    order.write_text(ORDER)
    argv = [sys.executable, "-m", "hostler.workloads.gameboy", "train", str(order)]
    fleet.start()
    job = fleet.script(*argv, name="rooms", work_as="rl")
    fleet.over(job, LOOP_PATIENCE_S)
    told = [json.loads(each) for each in fleet.client.log(f"{job}.1").data.splitlines()]
    assert "note" in told.pop(0), "what playing by chance did not find; it is for the log alone"
    last = told[-2]
    detail = fleet.client.rl(job)
    numbers = detail["row"]["numbers"]
    assert (detail["row"]["lines"], detail["row"]["skipped"], numbers["done"]) == (len(told), 0, True)
    for name in ("steps", "updates", "episodes", "envs", "reward", "seconds"):
        assert numbers[name] == last[name], name
    assert numbers["steps_asked"] == 900
    assert {each["name"]: each["seconds"] for each in detail["spent"]} == last["spent"]
    assert {each["name"]: each["paid"] for each in detail["parts"]} == last["parts"]
    assert {str(each["number"]): each["episodes"] for each in detail["explored"]} == last["explored"]
    assert [(each["name"], each["width"]) for each in detail["map"]] == [("room_x", 4), ("room_y", 4)]
    assert [each["env"] for each in detail["pictures"]] == [0, 1]
    assert fleet.client.rl_picture(job, 1).startswith(b"\x89PNG")
    assert [each["steps"] for each in fleet.client.rl_curve(job)] == [each["steps"] for each in told[:-1]]


ADVISED = """
schema: 1
game: keyrooms
rom: keyrooms
training:
  steps: 100000000
  envs_per_worker: 1
  batch_steps: 64
  fragment_steps: 16
  episode_steps: 40
  seed: 1
  advice:
    url: {url}
    model: small
    of: [room_x, room_y, taken]
    prompt: "Room {{room_x}}, {{room_y}}; {{taken}} keys were found. Which button?"
    observe: true
    calls_per_s: 20
    timeout_s: 5
    stale_s: 10
    rests: {{after: 3, first_s: 0.5, longest_s: 1}}
"""


def test_a_dead_endpoint_fires_an_alert_and_its_return_ends_it(fleet: Fleet, tmp_path: Path) -> None:
    """Rules are looked at twice a minute: so long it takes, and no longer, for nothing has to last here."""
    for name in ("torch", "pyboy"):
        pytest.importorskip(name, reason=f"{name} is not installed; pip install 'hostler[rl]'")
    with stub.reserved() as server:
        order = tmp_path / "order.yaml"
        order.write_text(ADVISED.format(url=server.url))
        rules = {"advice_dead": {"for_s": 0}, "advice_failing": {"for_s": 0, "window_s": 20}}
        fleet.settle(alerts={"rules": rules})
        fleet.start()
        job = fleet.script(sys.executable, "-m", "hostler.workloads.gameboy", "train", str(order), work_as="rl")

        def firing() -> set[str]:
            alerts = fleet.client.alerts()
            return {each["rule"] for each in alerts if each["state"] == "firing" and each["subject"] == job}

        soon(lambda: firing() == {"advice_dead", "advice_failing"}, "alerts", fleet)
        made = fleet.client.metrics()
        assert f'hostler_rl_advice_resting_ratio{{training="{job}"}} 1.0' in made
        assert re.search(rf'hostler_rl_advice_calls_total{{outcome="refused",training="{job}"}} [1-9]', made)
        server.listen()
        soon(lambda: not firing(), "the end of the alerts", fleet)
        ended = {each["rule"]: each["ended_why"] for each in fleet.client.alerts() if each["subject"] == job}
        assert ended.keys() == {"advice_dead", "advice_failing"}
        assert all("over at" in why for why in ended.values()), ended
        assert re.search(rf'hostler_rl_advice_wait_seconds_count{{training="{job}"}} [1-9]', fleet.client.metrics())
        fleet.client.cancel(job)
        fleet.over(job)
