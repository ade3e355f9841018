"""The commands of alerts on a terminal of 80 columns; and the whole way once, with a real controller and webhook."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from hostler.cli.alerts import _seconds
from hostler.model import inputs
from hostler.model.alert_views import TargetView
from hostler.model.alerts import USUAL_ALERTS, Severity
from hostler.model.errors import UsageError
from hostler.model.rules import USUAL
from tests.cli.conftest import Hostler
from tests.patience import PATIENCE_S
from tests.runtime.sinks import http_sink
from tests.web.core_desk import Window


@pytest.fixture
def fires(served: Window) -> Window:
    """A node is out of reach, and an alert tells of it; a target fails."""
    served.tell(inputs.Configure(rules=replace(USUAL, alerts=USUAL_ALERTS)))
    served.tell(inputs.LinkDown(node="n", why="\x1b[2J no route"))
    for _ in range(20):
        served.desk.driver.now += 19.0
        served.tell(inputs.Tick())
    served.desk.told = [
        TargetView(
            name="ops", kind="webhook", least=Severity.INFO, through=3, waiting=2, sent=5, given_up=1,
            sent_at=None, failing_since=time.time() - 60, trouble="it answered with status 500",
        )
    ]  # fmt: skip
    return served


@pytest.mark.parametrize(
    "command", ["alert list", "alert list --all", "alert rules", "alert targets", "alert silences"]
)
def test_what_is_shown_fits_and_is_printable(fires: Window, hostler: Hostler, command: str) -> None:
    hostler("alert", "silence", "gpu_idle", "--for", "2h", "--why", "\x1b[31m" + "long " * 40, "--who", "ann\n")
    said = hostler(*command.split())
    assert (said.status, said.err) == (0, "")
    assert all(line.isprintable() and len(line) <= 80 for line in said.out.splitlines())
    assert hostler(*command.split(), "--json").json


def test_an_alert_is_looked_after_and_silenced(fires: Window, hostler: Hostler) -> None:
    assert "a1     firing  node_unreachable  n" in hostler("alert", "list").out
    assert hostler("alert", "ack", "a1", "--who", "ann").out == "a1 (node_unreachable n): ann is on it\n"
    said = hostler(
        "alert", "silence", "node_unreachable", "--subject", "n*", "--for", "2h", "--why", "w", "--who", "ann"
    )
    assert said.out == "s1: node_unreachable is not told for 2h; it holds 1 alert now\n"
    assert "silenced" in hostler("alert", "list").out
    assert "silence" in hostler("hold", "list").out
    assert hostler("alert", "unsilence", "s1", "--who", "bob").out == "s1 is over; it held 1 alert\n"
    assert hostler("alert", "ack", "a7").status == 2
    assert hostler("alert", "silence", "*", "--for", "soon", "--why", "w").status == 2


def test_without_targets_a_test_says_that_nobody_is_told(fires: Window, hostler: Hostler) -> None:
    fires.desk.told = []
    said = hostler("alert", "test", "gpu_idle")
    assert said.status == 0
    assert "a2 fires as a test of gpu_idle: 0 %" in said.out
    assert "nobody is told: there is no target for it" in said.out
    assert "TEST:" in hostler("alert", "list").out
    assert hostler("alert", "test", "nothing").status == 2


def test_times_as_people_write_them() -> None:
    assert [_seconds(word) for word in ("90", "90s", "45m", "1.5h", "3d")] == [90.0, 90.0, 2700.0, 5400.0, 259_200.0]
    for word in ("", "h", "-3h", "3 h", "nan", "1e3"):
        with pytest.raises(UsageError):
            _seconds(word)


@pytest.mark.long
def test_the_whole_way_with_a_real_controller(tmp_path: Path) -> None:
    """`alert test` drives the rule, the journal and the webhook; the fleet file's number is known by its place."""
    (tmp_path / "fleet.yaml").write_text(
        "name: lab\nstate_dir: state\napi: {port: 0}\nalerts:\n  group_s: 0\n  rules: {gpu_idle: {threshold: 0.3}}\n"
        "  notify: [{name: ops, kind: webhook, url_env: OPS_URL}]\n"
    )

    def hostler(*words: str) -> str:
        asked = [sys.executable, "-m", "hostler", "alert", *words, "--state-dir", str(tmp_path / "state")]
        return subprocess.run(asked, check=True, capture_output=True, text=True, timeout=PATIENCE_S).stdout

    with http_sink(500) as sink:
        up = subprocess.Popen(
            [sys.executable, "-m", "hostler", "up", "fleet.yaml"],
            cwd=tmp_path,
            env={**os.environ, "OPS_URL": sink.url},
            stdout=subprocess.DEVNULL,
        )
        try:
            until = time.monotonic() + PATIENCE_S
            while not (tmp_path / "state" / "controller.json").exists():
                assert up.poll() is None, "the controller has ended"
                assert time.monotonic() < until, "the controller does not answer"
                time.sleep(0.05)
            assert "ops: told" in hostler("test", "gpu_idle")
            (rule, *_) = json.loads(hostler("rules", "--json"))
            assert rule["rule"]["threshold"] == 0.3
            assert rule["origins"]["threshold"].endswith("fleet.yaml:6:33")
            up.send_signal(signal.SIGTERM)
            assert up.wait(PATIENCE_S) == 0
        finally:
            up.kill()
            up.wait()
    assert [json.loads(post.body)["alerts"][0]["rule"] for post in sink.posts] == ["gpu_idle"] * 2
    left = [path for path in (tmp_path / "state").rglob("*") if path.is_file()]
    assert not [path for path in left if b"verysecret" in path.read_bytes()]
