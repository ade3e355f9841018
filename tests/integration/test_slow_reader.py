"""A client of a real controller that opens an event stream and reads next to nothing of it."""

from __future__ import annotations

import json
import re
import socket
import urllib.request
from urllib.parse import urlsplit

import pytest

from tests.integration.conftest import PATIENCE_S, WAIT, Fleet, until

pytestmark = pytest.mark.long

MANY = 12_000
"""More entries than are kept for a reader."""
PART = 500


def metric(fleet: Fleet, name: str) -> float:
    """The value of a metric without labels."""
    url, token, *_ = fleet.client._locate()
    asked = urllib.request.Request(f"{url}/metrics", headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(asked, timeout=PATIENCE_S) as reply:
        (value,) = re.findall(rf"^{name} (\S+)$", reply.read().decode(), re.MULTILINE)
    return float(value)


def test_it_is_cut_off_holds_nothing_and_is_told_what_it_lost(fleet: Fleet) -> None:
    fleet.start()
    url, token, *_ = fleet.client._locate()
    place = urlsplit(url)
    assert place.hostname is not None
    with socket.socket() as reader:
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        reader.connect((place.hostname, place.port))
        head = f"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n"
        reader.sendall(head.encode())
        until(lambda: metric(fleet, "hostler_event_streams") == 1.0, "the stream")
        holder = fleet.python(WAIT, str(fleet.path / "never"), name="holds the others up")
        payload = {"kind": "script", "schema": 1, "argv": ["true"], "env": {"WEIGHT": "x" * 1000}}
        reader.settimeout(PATIENCE_S)
        seen = b""
        for _ in range(MANY // PART):
            fleet.client.submit_jobs([{"name": f"n{n}", "payload": payload, "after": [holder]} for n in range(PART)])
            # If it took nothing at all for half a minute, the system would let go of it, and nothing would be told.
            seen += reader.recv(1 << 13)
        until(lambda: metric(fleet, "hostler_event_streams_lost_total") == 1.0, "the end of its patience")
        assert metric(fleet, "hostler_event_streams") == 0.0
        while (found := re.search(rb"event: lost\ndata: (\{.*?\})\n\n", seen)) is None:
            piece = reader.recv(1 << 16)
            assert piece, "it was cut off without a word"
            seen += piece
    lost = json.loads(found[1])
    numbers = [int(each) for each in re.findall(rb"^id: (\d+)$", seen, re.MULTILINE)]
    assert numbers == list(range(numbers[0], lost["from"]))
    assert lost["to"] >= MANY
    entries = fleet.client.events(after=numbers[-1])
    assert [next(entries)["seq"] for _ in range(100)] == list(range(lost["from"], lost["from"] + 100))
