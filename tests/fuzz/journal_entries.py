"""Events as a journal has them, snapshots, and specs of jobs: what comes back is what was written, or is refused."""

from __future__ import annotations

import json
import zlib
from contextlib import suppress

from hostler.core.snapshot import FORMAT, dump_state, load_state
from hostler.model.codec import dump_event, load_event, load_specs, plain, spec_fault
from hostler.model.errors import CorruptState, SpecError
from tests.core.builders import Driver, ended, fleet, script, sweep

from .base import Target


def _history() -> Driver:
    world = fleet(devices=2)
    world.submit(script(key="a"), sweep(), script("b", after=("a",)))
    chunk, start, _ = world.chunk("j2")
    world.tell(world.returned(chunk, position=start + 1, hits=({"at": start},)), ended("j1.1", result={"x": 1}))
    world.tell(world.searched(world.chunk("j2")[0]), ended("j3.1", exit_code=3, error="it failed"))
    return world


WORLD = _history()
STATE = zlib.decompress(dump_state(WORLD.state)[len(FORMAT) :])


def target(data: bytes) -> None:
    """An event, a state or specs: each is read as it was written, or refused by the one error that is named.

    Nobody writes NaN into what is its owner's; of a line that has it, it is read as unknown from the second time on.
    """
    for line in data.split(b"\n")[:50]:
        with suppress(CorruptState):
            event = load_event(line)
            written = dump_event(event)
            again = load_event(written)
            assert (dump_event(again), type(again)) == (written, type(event))
    with suppress(CorruptState):
        load_state(data)
    with suppress(CorruptState):
        state = load_state(dump_state(load_state(FORMAT + zlib.compress(data))))
        assert load_state(dump_state(state)) == state
    with suppress(SpecError, ValueError, RecursionError):  # of JSON, which is somebody else's to read
        value = json.loads(data)
        for spec in load_specs(value):
            assert spec_fault(spec) is not None or load_specs([plain(spec)]) == (spec,)


def _bomb() -> bytes:
    packing = zlib.compressobj(9)
    return FORMAT + b"".join(packing.compress(b"[" * (1 << 24)) for _ in range(60)) + packing.flush()


TARGET = Target(
    name="journal_entries",
    run=target,
    seeds=(
        *sorted({dump_event(each.event).encode() for each in WORLD.entries}),
        b"\n".join(dump_event(each.event).encode() for each in WORLD.entries[:10]),
        STATE,
        dump_state(WORLD.state),
        json.dumps([plain(script(key="a")), plain(sweep())]).encode(),
    ),
    reads=("hostler.model.codec", "hostler.core.snapshot"),
    large={
        "deep": lambda: b"[" * (1 << 20),
        "specs": lambda: json.dumps([plain(script())] * 1_700).encode(),
        "digits": lambda: b'{"kind":"job_cancelled","job":' + b"9" * (1 << 20) + b"}",
        "keys": lambda: b'{"kind":"job_cancelled",' + b",".join(b'"%d":0' % at for at in range(100_000)) + b"}",
        "text": lambda: b'{"kind":"trouble_recorded","where":"w","what":"' + b"x" * (1 << 20) + b'"}',
        "bomb": _bomb,
    },
)
