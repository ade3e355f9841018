"""What notebooks show: tables whose every word is somebody else's."""

from __future__ import annotations

import time
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any

import pytest

from hostler.client import Address, Client
from hostler.client.calls import Rows, Shown
from hostler.client.tables import ROWS_SHOWN
from tests.web.core_desk import TOKEN, Window, window
from tests.web.worlds import HOSTILE, SCRIPT, SWEEP, whole_world

TAGS = {"table", "thead", "tbody", "tr", "th", "td", "p"}


class Read(HTMLParser):
    """Tags and texts of a piece of HTML."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.texts: list[str] = []
        self.open: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        assert not attrs
        self.tags.append(tag)
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with window(whole_world()) as served:
        yield Client(_at(served))


def _at(served: Window) -> Any:
    return lambda: Address(f"http://127.0.0.1:{served.port}", TOKEN)


@pytest.mark.parametrize(
    ("ask", "told"),
    [
        (lambda client: client.jobs(limit=1000), (HOSTILE, "sweep", "failed")),
        (lambda client: client.nodes(), ("other gpu", "vast", HOSTILE)),
        (lambda client: client.devices(), ("gpu/cuda1", "device.vram_gb", "80.0")),
        (lambda client: client.sweeps(), ("sweep", str(2**70))),
        (lambda client: client.queue(None), ("waits", "place")),
        (lambda client: client.models("tiny_2p"), ("tiny_2p", "promoted")),
        (lambda client: client.datasets("tiny_2p"), ("tiny_2p",)),
        (lambda client: client.bans(), ("pause", HOSTILE)),
        (lambda client: client.alerts(), ("node_unreachable", "lost")),
        (lambda client: client.alert_rules(), ("gpu_idle", "rule.for_s")),
        (lambda client: client.silences(), (HOSTILE,)),
        (lambda client: client.tokens(), ("one", "read")),
        (lambda client: client.story(SWEEP), ("event.kind", "job.submitted")),
        (lambda client: client.status(), ("fleet", "test fleet")),
        (lambda client: client.job(SCRIPT), ("spec",)),
        (lambda client: client.ledger(SWEEP), ("leased",)),
        (lambda client: client.costs(), ("rows", "selfplay")),
        (lambda client: client.fleet(), ("groups",)),
    ],
)
def test_answers_are_tables(client: Client, ask: Any, told: tuple[str, ...]) -> None:
    read = Read(ask(client)._repr_html_())
    assert set(read.tags) <= TAGS
    assert read.open == []
    for each in told:
        assert any(each in text for text in read.texts), each


def test_what_is_hostile_is_only_shown() -> None:
    bad = "<img src=x onerror=alert(1)>\"'&\u202e"
    rows: Rows[Any] = Rows([{bad: bad, "event": {bad: bad}, "none": None, "list": [bad]}])
    for html in (rows._repr_html_(), Shown({bad: bad, "rows": rows, "deep": {bad: [bad]}})._repr_html_()):
        read = Read(html)
        assert set(read.tags) <= TAGS
        assert bad in read.texts
        assert "?" in read.texts, "unknown is shown as such"


def test_long_lists_and_texts_are_cut_and_say_so() -> None:
    read = Read(Rows([{"n": n, "text": "x" * 1000} for n in range(ROWS_SHOWN + 5)])._repr_html_())
    assert read.tags.count("tr") == ROWS_SHOWN + 1
    assert read.texts[-1] == "and 5 more"
    assert max(map(len, read.texts)) == 200


@pytest.mark.parametrize("rows", [[], [1, "a", None], [[1, 2]], [{}]])
def test_odd_lists_are_shown_too(rows: list[Any]) -> None:
    assert Read(Rows(rows)._repr_html_()).open == []


@pytest.fixture
def in_berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The local time of this process."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("in_berlin")
@pytest.mark.parametrize("name", ["submitted_at", "since", "until", "failing_since", "at", "device.ended_at"])
def test_times_are_local_dates(name: str) -> None:
    for html in (Rows([{name: 1_795_880_898.73}])._repr_html_(), Shown({name: 1_795_880_898.73})._repr_html_()):
        assert "2026-11-28 16:48:18" in Read(html).texts


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("waited_s", 0.4, "0.4 s"),
        ("walltime_s", 200, "3m 20s"),
        ("rule.for_s", 18_420.0, "5h 07m"),
        ("device_s", 273_600, "3d 4h"),
        ("items_per_s", 200.0, "200.0"),
        ("per_s", 200.0, "200.0"),
        ("per_cpu_s", 200.0, "200.0"),
        ("at", 7_000, "7000"),
        ("what", 200, "200"),
        ("submitted_at", None, "?"),
        ("submitted_at", 1e300, "1e+300"),
        ("ended_at", "never", "never"),
        ("started_at", True, "true"),
        ("expected_s", {"*": 5}, '{"*": 5}'),
    ],
)
def test_durations_are_readable_and_other_numbers_stay_as_they_are(name: str, value: Any, shown: str) -> None:
    assert shown in Read(Shown({name: value})._repr_html_()).texts


def test_answers_are_plain_values() -> None:
    assert Shown(a=1) == {"a": 1}
    assert Rows([1]) == [1]
