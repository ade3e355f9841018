"""What the controller makes of the lines of an agent, from its first word to the journal.

The data are lines: the agent's hello, its answer to the first question, and whatever it tells then.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Sequence
from typing import Any

from hostler.backends.agented import AgentedNode
from hostler.backends.base import Report
from hostler.backends.canaries import Canaries
from hostler.backends.channel import LINE_MAX, Channel, opened
from hostler.core import Core
from hostler.model import inputs
from hostler.model.codec import dump_event, load_event, record_fault
from hostler.model.commands import CanaryOrder
from hostler.model.errors import HostlerError, LinkError
from hostler.model.inputs import Input
from hostler.model.work import DeviceKind
from tests.core.builders import Driver, fleet, script, sweep

from .base import Target
from .samples import DIGEST, said

HELLO = {
    "type": "hello", "protocol": 1, "agent": "a", "incarnation": 1, "boot": "b", "version": "0.1.0", "tells": True,
    "leaving": None, "code": None, "host": "h", "python": "3.11", "now": 1.0, "seq": 0, "attempts": ["j1.1"],
    "chunks": ["j2.1"],
}  # fmt: skip
FACTS = {
    "host": "h", "cpus": 2, "memory_bytes": 1 << 34, "disk_bytes": 1 << 40, "python": "3.11",
    "devices": [{"index": 0, "kind": "cuda", "model": "H100", "vram_bytes": 80 << 30, "uuid": "GPU-1"}],
}  # fmt: skip
PROBE = {"type": "probe", "id": 0, "facts": FACTS}
OPENING = (HELLO, PROBE)
ENDED = {
    "seq": 1, "fact": "ended", "attempt": "j1.1", "at": 5.0, "started_at": 4.0, "exit_code": 0, "signal": None,
    "reason": None, "error": None, "cpu_s": 0.1, "max_rss_bytes": 1024, "result": {"x": [1]}, "result_error": None,
    "left": True, "evidence": "last words",
}  # fmt: skip
DONE = {
    "seq": 2, "fact": "chunk_done", "chunk": "j2.1", "digest": DIGEST, "start": 0, "stop": 10, "hits": [{"at": 5}],
    "at": 1.0, "elapsed_s": 0.5, "overhead_s": 0.1,
}  # fmt: skip
RETURNED = {
    "seq": 3, "fact": "returned", "chunk": "j2.1", "position": 5, "digest": DIGEST, "hits": [], "reason": "worker_died",
    "error": None, "at": 1.0,
}  # fmt: skip
STARTED = {"seq": 4, "fact": "started", "attempt": "j1.1", "pid": 7, "pid_start": 8, "at": 1.0}
REFUSED = {"seq": 5, "fact": "worker_refused", "worker": "w-j2-n-cpu1", "error": "no", "at": 1.0}
WORK = {"type": "work", "attempts": ["j1.1"], "chunks": ["j2.1"]}
TELEMETRY = {
    "type": "telemetry", "at": 5.0, "load": 6.0, "cores": 4, "memory_bytes": 64 << 30, "memory_free_bytes": 16 << 30,
    "disk_bytes": 1 << 40, "disk_free_bytes": 0, "backlog_s": 0.0,
    "devices": [
        {
            "index": 0, "kind": "cpu", "at": 4.0, "utilization": 0.0, "vram_used_bytes": 1 << 30, "temperature_c": 40,
            "processes": [{"pid": 1, "vram_bytes": 5, "ours": False}],
        }
    ],
}  # fmt: skip
PROVED = {"type": "proved", "id": 1, "device": "cpu0", "ok": True, "answer": "x", "why": None, "seconds": 0.5}


def target(data: bytes) -> None:
    """The link is lost with a reason, or what is told becomes facts that a journal gives back; the core goes on."""
    world = _world()
    reports, why = asyncio.run(_heard(data))
    assert why is None or 0 < len(why) < 5000
    if why is not None:
        reports.append(Report(inputs=(inputs.LinkDown(node="n", why=why),)))
    for report in reports:
        for given in report.inputs:
            _check(given)
        world.tell(*report.inputs)
        _check_answers(world.answers)
        for event in world.events:
            assert load_event(dump_event(event)) == event
    again = Core()
    again.replay(world.entries)
    again.validate()


def _world() -> Driver:
    """One node with two slots: a script runs on one, a sweep on the other."""
    world = fleet(devices=2)
    world.submit(script(), sweep())
    return world


def _check(given: Input) -> None:
    """Ids and words of a link are texts. Other fields the core looks at itself."""
    if isinstance(given, inputs.LinkUp | inputs.NodeFound | inputs.Started | inputs.WorkerRefused | inputs.Trouble):
        assert record_fault(given) is None or "surrogate" in str(record_fault(given)), given
    if isinstance(given, inputs.Telemetry):
        numbers = [getattr(given, name) for name in ("at", "load", "memory_free_gb", "disk_free_gb", "backlog_s")]
        numbers += [each.utilization for each in given.devices.values()]
        assert all(each is None or math.isfinite(each) for each in numbers)


def _check_answers(answers: Sequence[Any]) -> None:
    for answer in answers:
        assert answer is None or isinstance(answer, HostlerError), answer


async def _heard(data: bytes, slots: int | None = None) -> tuple[list[Report], str | None]:
    reader = asyncio.StreamReader(limit=LINE_MAX)
    reader.feed_data(data)
    reader.feed_eof()
    node, reports = _Node(reader, slots), list[Report]()
    try:
        async for report in node.observe(1):
            reports.append(report)
    except LinkError as error:
        return reports, str(error)
    raise AssertionError("a stream ended, and nobody was told")


class _Deaf(asyncio.Transport):
    """Takes everything that is said, and tells nobody."""

    _closed = False

    def write(self, data: Any) -> None:
        """Nothing."""

    def is_closing(self) -> bool:
        """Whether it was closed."""
        return self._closed

    def close(self) -> None:
        """Take no more."""
        self._closed = True

    abort = close


def deaf(reader: asyncio.StreamReader) -> asyncio.StreamWriter:
    """A writer to nobody."""
    protocol = asyncio.StreamReaderProtocol(reader)
    loop = asyncio.get_running_loop()
    transport = _Deaf()
    protocol.connection_made(transport)
    return asyncio.StreamWriter(transport, protocol, reader, loop)


class _Node(AgentedNode):
    """The node, whose agent says what was given."""

    kind = "test"

    def __init__(self, reader: asyncio.StreamReader, slots: int | None = None) -> None:
        super().__init__("n", controller="c", python="python3", store=None, cpu_slots=slots)  # type: ignore[arg-type]
        self._reader = reader

    async def connect(self, epoch: int) -> Channel:
        """One stream, and a device that is asked to prove itself."""
        return await opened(self._reader, deaf(self._reader), "c", epoch)

    async def _upgrade(self, channel: Channel) -> None:
        order = CanaryOrder(device="n/cpu0", queue="cpu0", kind=DeviceKind.CPU, argv=("say",), env={})
        self._canaries = Canaries("n", channel.hello)
        self._canaries.ask(1, order)
        await super()._upgrade(channel)


logging.getLogger("asyncio").setLevel(logging.ERROR)


def _opened(*messages: Any) -> bytes:
    return said(*OPENING, *messages)


TARGET = Target(
    name="controller_lines",
    run=target,
    seeds=(
        said({"type": "refused", "reason": "epoch 1 has been followed by 2", "epoch": 2}),
        _opened({"type": "facts", "facts": [STARTED, ENDED, DONE, RETURNED, REFUSED]}, TELEMETRY),
        _opened(
            {"type": "progress", "chunks": {"j2.1": [5, 1, DIGEST, [{"at": 3}]]}}, {"type": "facts", "facts": [DONE]}
        ),
        _opened({"type": "progress", "chunks": {"j2.1": [5, 0]}}, {"type": "facts", "facts": [RETURNED]}),
        _opened(PROVED, {"type": "error", "error": "unknown type 'prove'", "request": {"type": "prove", "id": 1}}),
        _opened(
            {"type": "leaving", "why": "its machine goes"}, {"type": "so_far", "attempt": "j1.1", "result": {"a": 1}}
        ),
        said(HELLO, TELEMETRY, {**PROBE, "facts": {**FACTS, "devices": None, "cpus": None}}, TELEMETRY),
        *(_opened({"type": "facts", "facts": [each]}) for each in (STARTED, ENDED, DONE, RETURNED, REFUSED)),
        _opened(TELEMETRY),
        _opened(WORK),
        _opened(*({"type": "progress", "chunks": {"j2.1": [at, 0]}} for at in (1, 2, 3))),
        _opened({"type": "facts", "facts": [{**ENDED, "exit_code": 3}]}),
    ),
    reads=(
        "hostler.backends.channel",
        "hostler.backends.agented",
        "hostler.backends.facts",
        "hostler.backends.canaries",
        "hostler.core.intake",
    ),
    large={
        "facts": lambda: _opened({"type": "facts", "facts": [{"seq": 1, "fact": "started"}] * 30_000}),
        "hits": lambda: _opened({"type": "facts", "facts": [{**DONE, "hits": [{"at": 1}] * 110_000}]}),
        "progress": lambda: _opened({"type": "progress", "chunks": {f"j2.{at}": [1, 1] for at in range(70_000)}}),
        "deep": lambda: (
            said(*OPENING) + b'{"type":"so_far","attempt":"j1.1","result":' + b"[" * 10**6 + b"]" * 10**6 + b"}\n"
        ),
        "deep result": lambda: (
            said(*OPENING)
            + said({"type": "facts", "facts": [{**ENDED, "result": "@"}]}).replace(
                b'"@"', b"[" * 900 + b"1" * 10**6 + b"]" * 900
            )
        ),
        "devices": lambda: _opened({**TELEMETRY, "devices": TELEMETRY["devices"] * 6_000}),
        "gpus": lambda: said(HELLO, {**PROBE, "facts": {**FACTS, "devices": FACTS["devices"] * 12_000}}),
        "attempts": lambda: said({**HELLO, "attempts": [f"j{at}.1" for at in range(90_000)]}, PROBE),
    },
)
