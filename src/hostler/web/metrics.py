"""`/metrics`: everything that Prometheus may know, made anew at each scrape from what the controller reads off itself.

There is no second set of counters and nothing is kept between two scrapes, but how long requests took.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import Response

from hostler.model.readings import Readings
from hostler.web import timing
from hostler.web.answers import TheDesk
from hostler.web.routing import Routes
from hostler.web.series import SERIES, SPREADS, Series, Spread

router = Routes(tags=["metrics"])

CONTENT: dict[int | str, dict[str, object]] = {
    200: {
        "content": {"text/plain": {}, "application/openmetrics-text": {}},
        "description": "Prometheus' text format, or OpenMetrics where `Accept` asks for it",
    }
}


class Described(NamedTuple):
    """What is to be said of a metric."""

    name: str
    kind: str
    labels: tuple[str, ...]
    meaning: str


def described() -> list[Described]:
    """Every metric there may be."""
    read = [Described(each.name, each.kind, each.labels, each.meaning) for each in SERIES]
    read += [Described(each.name, "histogram", each.labels, each.meaning) for each in SPREADS]
    return [*read, Described(timing.NAME, "histogram", timing.LABELS, timing.MEANING)]


class Fleet(Collector):
    """The metrics of one moment."""

    def __init__(self, readings: Readings, others: Callable[[], Iterable[Metric]]) -> None:
        self._readings = readings
        self._others = others

    def collect(self) -> Iterator[Metric]:
        """All families; one without a sample is left out."""
        for series in SERIES:
            family = family_of(series, self._readings)
            if family.samples:
                yield family
        for spread in SPREADS:
            histogram = spread_of(spread, self._readings)
            if histogram.samples:
                yield histogram
        yield from self._others()


def family_of(series: Series, readings: Readings) -> Metric:
    """One metric with all its samples. What is unknown has none."""
    shape = CounterMetricFamily if series.kind == "counter" else GaugeMetricFamily
    family = shape(series.name, series.meaning, labels=series.labels)
    for labels, value in series.read(readings):
        if value is not None:
            family.add_metric(labels, value)
    return family


def spread_of(spread: Spread, readings: Readings) -> Metric:
    """One histogram with all its samples."""
    family = HistogramMetricFamily(spread.name, spread.meaning, labels=spread.labels)
    for labels, waits in spread.read(readings):
        buckets = [(repr(bound), float(calls)) for bound, calls in waits.within]
        family.add_metric(labels, [*buckets, ("+Inf", float(waits.calls))], sum_value=waits.seconds)
    return family


@router.get("/metrics", response_class=Response, responses=CONTENT)
async def show_metrics(desk: TheDesk, request: Request) -> Response:
    """Everything that Prometheus may know of the fleet. Of jobs, only trainings by reinforcement are named."""
    requests: timing.Timing = request.app.state.timing
    made = Fleet(desk.readings(), requests.collect)
    # What was read off stays as it is; writing a thousand devices out takes so long that others would notice.
    text, kind = await asyncio.to_thread(_written, made, request.headers.get("accept", ""))
    return Response(text, headers={"Content-Type": kind})


def _written(fleet: Fleet, accept: str) -> tuple[bytes, str]:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(fleet)
    encoder, kind = choose_encoder(accept)
    return encoder(registry), kind
