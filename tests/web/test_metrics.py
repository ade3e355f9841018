"""What Prometheus is told: what is so, nothing that is unknown, and no job."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_text

from hostler.model.fleet import Link
from hostler.model.inputs import Cancel, LinkDown, NodeFound, Submit
from hostler.model.readings import Readings
from hostler.web.metrics import Fleet, described
from hostler.web.series import SERIES, SILENT_S, SPREADS
from tests.core.builders import link_up, node, script, sweep
from tests.web.core_desk import CoreDesk, Window, window
from tests.web.readings import DEVICE, FULL, LESSON, NODE, NOW, UNKNOWN

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def samples(text: str, read: Any = read_text) -> Samples:
    """Values by name and labels."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in read(text)
        for sample in family.samples
    }


def written(readings: Readings) -> Samples:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Fleet(readings, lambda: ()))
    return samples(generate_latest(registry).decode())


def value(made: Samples, name: str, **labels: str) -> float | None:
    return made.get((name, tuple(sorted(labels.items()))))


def names(made: Samples) -> set[str]:
    return {name for name, _ in made}


CUDA0 = {"node": "rig-1", "device": "rig-1/cuda0", "kind": "cuda"}


def test_what_is_known_is_told_in_base_units() -> None:
    made = written(FULL)
    assert value(made, "hostler_node_disk_free_bytes", node="rig-1") == 100e9
    assert value(made, "hostler_device_memory_used_bytes", **CUDA0) == 20e9
    assert value(made, "hostler_device_utilization_ratio", **CUDA0) == 0.875
    assert value(made, "hostler_device_telemetry_age_seconds", **CUDA0) == 3.0
    assert value(made, "hostler_device_held", work="selfplay", **CUDA0) == 2.0
    assert value(made, "hostler_device_info", model=DEVICE.model or "", **CUDA0) == 1.0
    assert value(made, "hostler_jobs", work="selfplay", state="running") == 3.0
    assert value(made, "hostler_attempts_total", work="selfplay", outcome="exit") == 1.0
    assert value(made, "hostler_queue_oldest_wait_seconds", work="selfplay") == 500.0
    assert value(made, "hostler_provider_cost_total", provider="vast", tier="1") == 2.5
    assert value(made, "hostler_config_elo_per_day_low", config="hex8_2p") == -9.0
    assert value(made, "hostler_share_had_ratio", tier="1", config="hex8_2p") == 0.25
    assert value(made, "hostler_node_pressure_level", node="rig-1", signal="memory") == 3.0
    assert value(made, "hostler_controller_start_time_seconds") == NOW - 1000
    assert value(made, "hostler_artifacts", kind="games", standing="games") == 10.0
    assert value(made, "hostler_replication_overdue_seconds") == 900.0
    assert value(made, "hostler_store_reachable", place="shelf") == 0.0


def test_all_that_is_described_is_told_and_nothing_else() -> None:
    parts = {f"{each.name}{part}" for each in SPREADS for part in ("_bucket", "_count", "_sum")}
    assert names(written(FULL)) == {series.name for series in SERIES} | parts
    assert len({each.name for each in described()}) == len(described())


def test_what_is_unknown_has_no_series() -> None:
    gone = names(written(FULL)) - names(written(UNKNOWN))
    assert "hostler_device_utilization_ratio" in gone
    assert "hostler_config_elo" in gone
    assert "hostler_queue_oldest_wait_seconds" in gone
    assert "hostler_event_loop_lag_seconds" in gone
    assert {"hostler_artifacts", "hostler_replication_backlog_artifacts", "hostler_store_free_bytes"} <= gone
    assert {"hostler_node_up", "hostler_device_busy", "hostler_config_open"} <= names(written(UNKNOWN))
    # And nothing but what was unknown changed.
    kept = {key: each for key, each in written(UNKNOWN).items() if key[0] != "hostler_device_busy"}
    assert kept.items() <= written(FULL).items()


def test_a_node_that_is_out_of_reach_is_not_up_and_one_that_left_is_not_there() -> None:
    away = replace(FULL, nodes=(replace(NODE, link=Link.DOWN),))
    assert value(written(away), "hostler_node_up", node="rig-1") == 0.0
    untried = written(replace(FULL, nodes=(replace(NODE, link=None),)))
    assert "hostler_node_up" not in names(untried)
    left = written(replace(FULL, nodes=(), devices=()))
    assert not any(("node", "rig-1") in labels for _, labels in left)


def test_names_follow_the_conventions() -> None:
    for series in SERIES:
        assert re.fullmatch(r"hostler_[a-z_]+[a-z]", series.name)
        assert series.name.endswith("_total") == (series.kind == "counter"), series.name
        assert not {"job", "id", "attempt", "chunk", "sweep"} & set(series.labels), series.name


def test_a_training_is_told_by_its_number() -> None:
    made = written(FULL)
    assert value(made, "hostler_rl_steps_total", training="j7") == 90_000.0
    assert value(made, "hostler_rl_advice_calls_total", training="j7", outcome="refused") == 10.0
    assert value(made, "hostler_rl_advice_resting_ratio", training="j7") == 0.5
    assert value(made, "hostler_rl_advice_share_ratio", training="j7") == 0.125
    assert value(made, "hostler_rl_components_over_share", training="j7") == 1.0
    buckets = [
        value(made, "hostler_rl_advice_wait_seconds_bucket", training="j7", le=le) for le in ("0.25", "5.0", "+Inf")
    ]
    assert buckets == [10.0, 39.0, 40.0]
    assert value(made, "hostler_rl_advice_wait_seconds_sum", training="j7") == 30.0


def test_what_a_training_told_long_ago_is_not_how_it_is() -> None:
    made = written(replace(FULL, trainings=(replace(LESSON, at=NOW - SILENT_S - 1),)))
    gone = names(written(FULL)) - names(made)
    assert {"hostler_rl_steps_per_second", "hostler_rl_advice_success_ratio", "hostler_rl_reward"} <= gone
    assert value(made, "hostler_rl_steps_total", training="j7") == 90_000.0
    assert value(made, "hostler_rl_told_age_seconds", training="j7") == SILENT_S + 1


def test_ranges_longer_than_any_float_are_told_as_such() -> None:
    made = written(replace(FULL, sweeps=replace(FULL.sweeps, left=10**400)))
    assert value(made, "hostler_sweep_items_left") == float("inf")


def test_a_real_core_is_read_and_no_job_is_named(served: Window) -> None:
    served.tell(Submit(specs=(script("a-name-of-a-job"), sweep("another-name"), script("a-third"))))
    text = served.get("/metrics").body.decode()
    made = samples(text)
    assert value(made, "hostler_jobs", work="script", state="leased") == 2.0
    assert value(made, "hostler_device_busy", node="n", device="n/cpu0", kind="cpu") == 1.0
    assert value(made, "hostler_node_up", node="n") == 1.0
    assert "name" not in text
    assert not re.search(r'"j\d', text)


def test_a_scrape_sees_what_is_so_now(served: Window) -> None:
    served.tell(Submit(specs=(script("a"), script("b"), script("c"))))
    before = samples(served.get("/metrics").body.decode())
    served.tell(Cancel(job="j3", reason="enough"), LinkDown(node="n", why="cable"))
    after = samples(served.get("/metrics").body.decode())
    key = {"work": "script", "state": "pending"}
    assert (value(before, "hostler_jobs", **key), value(after, "hostler_jobs", **key)) == (1.0, 0.0)
    assert value(after, "hostler_node_up", node="n") == 0.0


def test_hostile_names_are_escaped() -> None:
    desk = CoreDesk()
    name = 'x"} 1\nhostler_node_up{node="y'
    desk.driver.tell(NodeFound(node=node(name)), link_up(name))
    with window(desk) as served:
        made = samples(served.get("/metrics").body.decode())
    assert {dict(labels)["node"] for each, labels in made if each == "hostler_node_up"} == {"n", name}


def test_openmetrics_where_it_is_asked_for(served: Window) -> None:
    reply = served.get("/metrics", Accept="application/openmetrics-text; version=1.0.0")
    assert reply.headers["content-type"].startswith("application/openmetrics-text")
    assert reply.body.endswith(b"# EOF\n")
    assert value(samples(reply.body.decode(), read_openmetrics), "hostler_node_up", node="n") == 1.0
    assert served.get("/metrics").headers["content-type"].startswith("text/plain")


def test_it_wants_the_token(served: Window) -> None:
    assert served.ask("GET", "/metrics", headers={}).status == 401
    assert served.post("/metrics").status == 405


@pytest.mark.parametrize(
    ("path", "route", "status"),
    [
        ("/api/v1/jobs/j99", "/api/v1/jobs/{name}", 404),
        ("/status", "/status", 200),
        ("/api/v1/status", "/api/v1/status", 200),
        ("/no/such/path", "none", 404),
        ("/api/v1/jobs?limit=0", "/api/v1/jobs", 422),
    ],
)
def test_requests_are_timed_by_route(served: Window, path: str, route: str, status: int) -> None:
    served.get(path)
    served.get(path)
    made = samples(served.get("/metrics").body.decode())
    found = value(
        made, "hostler_http_request_duration_seconds_count", method="GET", route=route, status=str(status)
    )  # fmt: skip
    assert found == 2.0


def test_a_failure_of_our_own_is_timed_too(served: Window) -> None:
    served.desk.broken = ZeroDivisionError("of a test")
    served.get("/status")
    served.desk.broken = None
    made = samples(served.get("/metrics").body.decode())
    labels = {"method": "GET", "route": "/status", "status": "500"}
    assert value(made, "hostler_http_request_duration_seconds_count", **labels) == 1.0


def test_two_applications_count_apart() -> None:
    with window() as one, window() as other:
        one.get("/status")
        assert "/status" not in other.get("/metrics").body.decode()
