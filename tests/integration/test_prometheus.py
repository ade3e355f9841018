"""A real Prometheus scrapes a real controller at real work, and tells what is so."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
import yaml

from hostler.web.metrics import described
from tests.integration.conftest import PATIENCE_S, WAIT, Fleet, until
from tests.tiers import demand_services

MONITORING = Path(__file__).resolve().parents[2] / "examples" / "monitoring"
PROMETHEUS = shutil.which("prometheus")
LISTENS = re.compile(r'Listening on"? address=(127\.0\.0\.1:[1-9]\d*)')
pytestmark = [
    pytest.mark.services,
    pytest.mark.skipif(
        PROMETHEUS is None, reason="there is no prometheus here; Debian has it in the package of that name"
    ),
]


class Prometheus:
    """A running Prometheus, asked over its HTTP API."""

    def __init__(self, url: str) -> None:
        self.url = url

    def ready(self) -> bool:
        """Whether it answers."""
        try:
            with urllib.request.urlopen(f"{self.url}/-/ready", timeout=PATIENCE_S) as reply:
                return bool(reply.status == 200)
        except (urllib.error.URLError, ConnectionError):
            return False

    def value(self, query: str) -> float | None:
        """The one value of an expression now; `None` where there is none."""
        with urllib.request.urlopen(
            f"{self.url}/api/v1/query?{urlencode({'query': query})}", timeout=PATIENCE_S
        ) as reply:
            found = json.loads(reply.read())["data"]["result"]
        assert len(found) <= 1, f"{query} has {len(found)} values"
        return float(found[0]["value"][1]) if found else None


@contextlib.contextmanager
def prometheus(folder: Path, target: str, token: str) -> Iterator[Prometheus]:
    """Prometheus with the configuration of the examples, but for where the controller is and how often it is asked."""
    demand_services("Prometheus")
    folder.mkdir()
    config = yaml.safe_load((MONITORING / "prometheus.yml").read_text())
    config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    config["scrape_configs"][0]["static_configs"] = [{"targets": [target]}]
    del config["alerting"]
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    (folder / "token").write_text(token)
    shutil.copy(MONITORING / "hostler.rules.yml", folder)
    assert PROMETHEUS is not None
    command = [
        PROMETHEUS,
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        "--web.listen-address=127.0.0.1:0",
    ]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
    printed = lambda: (folder / "log").read_text(errors="replace")  # noqa: E731
    try:
        # It is given no port, since one that was free a moment ago may be taken: it says which one it has found.
        address = until(lambda: LISTENS.search(printed()), "the address of Prometheus", log=printed)[1]
        made = Prometheus(f"http://{address}")
        until(made.ready, "Prometheus", log=printed)
        yield made
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


def text_of(fleet: Fleet) -> str:
    url, token, *_ = fleet.client._locate()
    asked = urllib.request.Request(f"{url}/metrics", headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(asked, timeout=PATIENCE_S) as reply:
        return str(reply.read().decode())


def test_what_a_controller_tells_is_well_formed_and_documented(running: Fleet) -> None:
    running.over(running.script("true"))
    text = text_of(running)
    checked = subprocess.run(
        ["promtool", "check", "metrics"], input=text, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")
    told = set(re.findall(r"^# TYPE (\w+)", text, re.MULTILINE))
    assert told <= {each.name for each in described()}
    assert {"hostler_node_up", "hostler_jobs", "hostler_event_loop_lag_seconds"} <= told


def test_prometheus_knows_what_the_controller_does(running: Fleet, tmp_path: Path) -> None:
    url, token, *_ = running.client._locate()
    before = running.client.status()["jobs"]
    running.over(running.script("true"))
    running.over(running.script("false", retry={"max_attempts": {"exit": 1}}))
    go = tmp_path / "go"
    held = [running.python(WAIT, str(go), name="waits") for _ in range(3)]
    for name in held[:2]:
        running.state_of(name, "running")
    with prometheus(tmp_path / "prometheus", url.removeprefix("http://"), token) as asked:
        until(lambda: asked.value('up{job="hostler"}') == 1.0, "a scrape")
        wanted = {
            'hostler_jobs{work="script",state="running"}': 2.0,
            'hostler_jobs{work="script",state="pending"}': 1.0,
            'hostler_jobs{work="script",state="done"}': before["done"] + 1.0,
            'hostler_jobs{work="script",state="failed"}': before["failed"] + 1.0,
            'hostler_node_up{node="here"}': 1.0,
            "sum(hostler_device_busy)": 2.0,
            'sum(hostler_attempts_total{outcome="exit"})': before["failed"] + 1.0,
        }
        for query, value in wanted.items():
            until(lambda query=query, value=value: asked.value(query) == value, query)  # type: ignore[misc]
        assert asked.value("hostler_device_utilization_ratio") is None
        go.touch()
        running.over(held[-1])
        done = before["done"] + 4.0
        until(lambda: asked.value('hostler_jobs{work="script",state="done"}') == done, "the end of all jobs")
        assert asked.value("hostler_queue_oldest_wait_seconds") is None
        assert asked.value('count(ALERTS{alertstate="firing"})') is None


def test_a_wrong_token_is_a_scrape_that_fails(running: Fleet, tmp_path: Path) -> None:
    url, *_ = running.client._locate()
    with prometheus(tmp_path / "prometheus", url.removeprefix("http://"), "wrong") as asked:
        until(lambda: asked.value('up{job="hostler"}') == 0.0, "a scrape that fails")
        assert asked.value("hostler_node_up") is None
