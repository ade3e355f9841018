"""What a dashboard of Ray answers, or whatever else listens there."""

from __future__ import annotations

import asyncio
import json
import math

import httpx2

from hostler.backends.ray import Door, RayRest, Wants
from hostler.backends.ray.errors import RayDown, RayRefused
from hostler.backends.ray.machines import in_words, refusal, too_many

from .base import Target

STATUSES = (200, 200, 200, 400, 401, 404, 500, 302)


def target(data: bytes) -> None:
    """Machines with finite amounts, jobs with a known status, or an error of Ray's that can be told."""
    asyncio.run(_asked(data))


async def _asked(data: bytes) -> None:
    status = STATUSES[len(data) % len(STATUSES)]

    def answer(_request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(status, content=data, headers={"location": "http://else"} if status == 302 else {})

    rest = RayRest(Door(address="http://127.0.0.1:1", token="secret"))
    await rest.close()
    rest._client = httpx2.AsyncClient(base_url="http://127.0.0.1:1", transport=httpx2.MockTransport(answer))
    try:
        for ask in (rest.version, rest.machines, rest.free, lambda: rest.job("j"), lambda: rest.logs("j")):
            try:
                _check(await ask())
            except (RayDown, RayRefused) as error:
                assert 0 < len(str(error).encode()) < 10_000
    finally:
        await rest.close()


def _check(told: object) -> None:
    if isinstance(told, dict):
        assert all(math.isfinite(amount) for amount in told.values())
    if isinstance(told, list):
        assert all(math.isfinite(amount) for each in told for amount in each.total.values())
        asked = [Wants(cpus=1.0, gpus=1, memory_gb=2.0)]
        assert (refusal(asked[0], told), too_many(asked, told)) != ("", "")
        assert in_words(told)


def _nodes(count: int = 1) -> bytes:
    machine = {
        "node_id": "a", "node_ip": "10.0.0.1", "state": "ALIVE", "is_head_node": True, "state_message": "m",
        "resources_total": {"CPU": 8.0, "GPU": 1.0, "memory": 1e10, "accelerator_type:H100": 1.0}, "labels": {"a": "b"},
    }  # fmt: skip
    return json.dumps({"data": {"result": {"result": [machine] * count}}}).encode()


TARGET = Target(
    name="ray_answers",
    run=target,
    seeds=(
        b'{"ray_version": "2.60.0"}' + b" " * 7,
        *(_nodes() + b" " * at for at in range(8)),
        *(
            b'{"data":{"clusterStatus":{"loadMetricsReport":{"usage":{"CPU":[1.0,8.0]}}}}}' + b" " * at
            for at in range(4)
        ),
        *(
            b'{"status":"FAILED","message":"m","driver_node_id":"n","driver_exit_code":1,"error_type":"e","logs":"x"}'
            + b" " * at
            for at in range(8)
        ),
        b"<html>no</html>",
    ),
    reads=("hostler.backends.ray.rest", "hostler.backends.ray.machines"),
    large={
        "machines": lambda: _nodes(4_000),
        "deep": lambda: b"[" * (1 << 20),
        "text": lambda: b"x " * (1 << 19),
        "digits": lambda: b"9" * (1 << 20),
    },
)
