"""Snapshots of versions that knew less."""

from __future__ import annotations

import json
import zlib

from hostler.core.snapshot import FORMAT, dump_state, load_state
from tests.core.builders import fleet, sweep


def test_a_snapshot_from_before_devices_were_barred_is_read() -> None:
    world = fleet()
    world.submit(sweep())
    old = json.loads(zlib.decompress(dump_state(world.state)[len(FORMAT) :]))
    for name in ("struck", "in_a_row", "barred"):
        del old["sweeps"]["j1"][name]
    assert load_state(FORMAT + zlib.compress(json.dumps(old).encode())) == world.state
