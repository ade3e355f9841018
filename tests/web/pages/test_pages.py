"""Every page on the server: of an empty fleet, a small one, one whose names mean harm, and one whose loops learn."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from html.parser import HTMLParser

import pytest

from hostler.model.artifacts import HUB
from hostler.model.disks import DoomedFile
from hostler.model.inputs import CopiesTold, CordonNode, LinkDown, Started, Submit, Telemetry
from hostler.web.pages import data
from tests.core.builders import ended, script, sweep
from tests.web.core_desk import Window, window
from tests.web.loops import HOSTILE, LoopDesk, busy, empty, losing
from tests.web.worlds import ARTIFACT, whole_world

PLAIN = ("fleet", "nodes/n", "queue", "jobs", "sweeps", "learning", "rl", "data", "artifacts", "events", "costs")
OF_JOBS = ("jobs/j1", "jobs/j2", "jobs/j3", "sweeps/j2")
OF_CONFIGS = ("learning/hex8_2p", "learning/fresh", "learning/worse")
POLICY = "default-src 'self'"
HARM = "<img src=x onerror=alert(1)>\"'`{{7*7}}${7*7}"


@pytest.fixture
def small() -> Iterator[Window]:
    """Two scripts and a sweep; the first has failed, and its node has been given up on."""
    with window() as served:
        served.tell(Submit(specs=(script("first"), sweep("all", stop=2**200, chance=1e-60), script("third"))))
        served.tell(ended("j1.1", exit_code=3))
        yield served


@pytest.fixture
def harmful() -> Iterator[Window]:
    """Whatever can be named is named by somebody who means harm."""
    with window() as served:
        served.tell(Submit(specs=(script(HARM, HARM, key=HARM), sweep(HARM, params={"of": HARM}), script(HARM))))
        served.tell(ended("j1.1", exit_code=1, error=HARM, evidence=HARM))
        served.tell(CordonNode(node="n", why=HARM, who=HARM))
        served.tell(LinkDown(node="n", why=HARM))
        yield served


@pytest.fixture
def learning() -> Iterator[Window]:
    """A config that learns, one of which nothing is known, and one that gets worse with hostile words."""
    with window(LoopDesk(busy("hex8_2p"), empty("fresh"), losing("worse"))) as served:
        yield served


class Reader(HTMLParser):
    """Reads a page as a browser does, and notes what no page of ours has: scripts and styles in it, strange places."""

    def __init__(self) -> None:
        super().__init__()
        self.faults: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """An element and its attributes, as they are understood."""
        given = dict(attrs)
        inline = tag == "style" or (tag == "script" and "src" not in given)
        away = [given[name] or "" for name in ("src", "href", "action") if name in given]
        handlers = [name for name in given if name == "style" or name.startswith("on")]
        if inline or handlers or not all(place.startswith(("/", "#")) for place in away):
            self.faults.append(f"{tag} {given}")


def page(served: Window, path: str) -> str:
    """A page, once it has been found sound: no script or style in it, nothing from elsewhere."""
    reply = served.get(f"/pages/{path}")
    assert reply.status == 200, reply.body[:500]
    assert reply.headers["content-security-policy"].startswith(POLICY)
    reader = Reader()
    reader.feed(reply.body.decode())
    assert reader.faults == []
    return reply.body.decode()


@pytest.mark.parametrize("path", PLAIN)
def test_an_empty_fleet_has_pages(served: Window, path: str) -> None:
    assert "<h1>" in page(served, path)


@pytest.mark.parametrize("path", [*PLAIN, *OF_JOBS])
def test_a_small_fleet_has_pages(small: Window, path: str) -> None:
    assert 'data-mark="' in page(small, path)


@pytest.mark.parametrize("path", [*PLAIN, *OF_CONFIGS])
def test_loops_have_pages(learning: Window, path: str) -> None:
    text = page(learning, path)
    assert HOSTILE not in text
    assert "<script>alert" not in text


@pytest.mark.parametrize("path", [*PLAIN, *OF_JOBS, "events?text=%3Cimg&kind=failures"])
def test_what_means_harm_is_but_text(harmful: Window, path: str) -> None:
    text = page(harmful, path)
    assert "<img src=x" not in text
    assert "49" not in re.findall(r"\$?(\d+)\$\{", text), "no template was run twice"


def test_harmful_names_are_shown_as_they_are(harmful: Window) -> None:
    assert HARM in unescape(page(harmful, "jobs/j1"))
    assert HARM in unescape(page(harmful, "nodes/n"))


def test_unknown_is_a_dash_that_says_so(served: Window) -> None:
    tile = page(served, "fleet").partition('class="tile ')[2]
    assert '<abbr class="unknown" title="unknown">–</abbr>' in tile
    assert "0 %" not in tile


def test_who_is_unknown_is_told_so(served: Window) -> None:
    for path in ("jobs/j99", "sweeps/j99", "learning/none", "nodes/none", "jobs/%3Cb%3E", "artifacts/ffff"):
        reply = served.get(f"/pages/{path}")
        assert (reply.status, b"<b>" in reply.body) == (404, False)
        assert b"there is no" in reply.body


def test_an_invalid_query_is_as_if_it_were_not_there(small: Window) -> None:
    for path in (
        "jobs?after=x&state=none",
        "events?before=-1&kind=%00",
        "fleet?tier=9&provider=",
        f"jobs?after={'9' * 40}",
    ):
        assert small.get(f"/pages/{path}").status == 200


def test_reading_pages_changes_nothing(small: Window) -> None:
    before = len(small.desk.driver.entries)
    for path in (*PLAIN, *OF_JOBS):
        page(small, path)
    assert len(small.desk.driver.entries) == before


def test_a_page_that_cannot_be_made_says_why_and_it_is_recorded(served: Window) -> None:
    served.desk.quotas = lambda: 1 / 0  # type: ignore[method-assign,assignment,return-value]
    text = page(served, "queue")
    assert "failed to make this page, and recorded why: ZeroDivisionError" in text
    assert text.rstrip().endswith("</html>")
    troubles = [entry.event for entry in served.desk.driver.entries if entry.event.kind == "trouble.recorded"]
    assert [each.where for each in troubles] == ["page queue"]


def test_disks_tell_when_they_are_full_and_what_is_not_known(served: Window) -> None:
    before = page(served, "data").partition('id="disks"')[2]
    assert "0 of 1 nodes tell" in before
    assert '<abbr class="unknown" title="unknown">–</abbr>' in before
    for minute in range(30):
        told = Telemetry(node="n", at=60.0 * minute, disk_total_gb=100.0, disk_free_gb=80.0 - minute)
        served.call(lambda given=told: served.desk.driver.tell(given, after_s=60.0))  # type: ignore[misc]
    after = page(served, "data").partition('id="disks"')[2]
    assert "1 of 1 nodes tell" in after
    assert "51.0 GB" in after
    assert re.search(r"<td class=\"num\">\d+m \d\ds</td>", after), "at a GB a minute it is full within the hour"


def test_a_disk_that_is_full_by_now_comes_first() -> None:
    told = {"node": 0.9, "later": 0.8, "full": 0.7, "unknown": None}
    full_in_s = {"node": None, "later": 60.0, "full": 0.0, "unknown": None}
    rows = [{"node": name, "used": used, "full_in_s": full_in_s[name]} for name, used in told.items()]
    assert [each["node"] for each in data._disks(rows, [])["rows"]] == ["full", "later", "node", "unknown"]


def test_cost_is_told_by_provider_and_tier(served: Window) -> None:
    text = page(served, "costs").partition('id="places"')[2].partition("</table>")[0]
    assert "no provider" in text
    assert "no tier" in text
    assert 'title="unknown"' in text, "nobody said what the node costs"


def test_groups_of_the_fleet_are_summed(served: Window) -> None:
    served.tell(Submit(specs=(script("only"),)))
    text = page(served, "fleet")
    assert "1 of 2 devices busy" in text
    assert "no provider · no tier" in text


@pytest.fixture
def kept() -> Iterator[Window]:
    """A loop's artifacts, one of which really lies in the controller's store."""
    with window(whole_world()) as served:
        yield served


def test_an_artifact_has_its_places_and_its_lineage(kept: Window) -> None:
    text = page(kept, f"artifacts/{ARTIFACT[:12]}")
    assert ARTIFACT in text
    assert "1 of 2 wanted count" in text
    places = text.partition('id="places"')[2].partition("</table>")[0]
    assert "controller" in places
    lineage = text.partition('id="lineage"')[2]
    model = kept.desk.driver.config().current  # type: ignore[attr-defined]
    assert f'href="/pages/artifacts/{model}"' in lineage
    assert 'href="/pages/learning/tiny_2p"' in lineage


def test_a_copy_that_nobody_has_read_back_yet_says_so(kept: Window) -> None:
    model = kept.desk.driver.config().current  # type: ignore[attr-defined]
    text = page(kept, f"artifacts/{model}")
    assert "0 of 3 wanted count" in text
    assert "until it is read back for the first time" in text.partition('id="places"')[2].partition("</table>")[0]
    kept.tell(CopiesTold(place=HUB, verified=(model,)))
    assert "for the first time" not in page(kept, f"artifacts/{model}")


def test_several_artifacts_of_one_beginning_are_told_apart(kept: Window) -> None:
    rows = kept.get("/api/v1/artifacts?limit=1000").json
    firsts = [each["sha256"][0] for each in rows]
    one = next(each for each in firsts if firsts.count(each) > 1)
    reply = kept.get(f"/pages/artifacts/{one}")
    assert (reply.status, b"several artifacts begin with" in reply.body) == (422, True)


def test_what_is_not_counted_yet_is_unknown_and_then_has_its_age(kept: Window) -> None:
    before = page(kept, "data").partition('id="copies"')[2].partition('id="retention"')[0]
    assert before.count("not looked yet") == 4
    assert '<abbr class="unknown" title="unknown">–</abbr>' in before
    kept.wait(kept.desk.kept.stock.count())
    text = page(kept, "data")
    after = text.partition('id="copies"')[2].partition('id="retention"')[0]
    assert after.count("not looked yet") == 2, "the backlog is another thing"
    assert "as of <time" in after
    rows = text.partition('id="stock"')[2].partition("</table>")[0]
    assert all(kind in rows for kind in ("games", "dataset", "model"))


def test_what_retention_would_delete_is_shown_by_rule(kept: Window) -> None:
    def shown() -> str:
        return page(kept, "data").partition('id="retention"')[2].partition('id="backlog"')[0]

    kept.desk.may_go.clear()
    before = shown()
    assert "not looked yet" in before
    assert "deletes nothing by itself" in before
    doomed = DoomedFile(path="logs/j1.1/out", bytes=2_000_000, rule="log", why="a log", used_at=0.0)
    kept.desk.may_go.append(doomed)
    after = shown()
    assert ("<td>log</td>" in after, "2 MB" in after, "Nothing may go" in after) == (True, True, False)
    assert "nobody knows what it is" in after
    assert "it is full" in after


def test_lists_of_artifacts_can_be_narrowed_and_gone_through(kept: Window, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hostler.web.pages.artifacts.LISTED", 7)
    models = page(kept, "artifacts?kind=model&standing=&place=&config=")
    assert "<td>model</td>" in models
    assert "<td>games</td>" not in models
    assert "None." in page(kept, "artifacts?place=shelf")
    path, seen = "artifacts?config=tiny_2p", set()
    for _ in range(100):
        text = page(kept, path)
        seen |= set(re.findall(r'href="/pages/artifacts/([0-9a-f]{64})"', text))
        more = re.search(r'href="/pages/(artifacts\?[^"]+)">Older', text)
        if more is None:
            break
        path = unescape(more[1])
    rows = kept.get("/api/v1/artifacts?config=tiny_2p&limit=1000").json
    assert seen == {each["sha256"] for each in rows}
    assert len(rows) > 2 * 7


def test_a_process_on_an_unreachable_node_is_shown_as_last_reported() -> None:
    with window() as served:

        def process() -> str:
            return page(served, "jobs/j1").partition("<dt>Process</dt><dd>")[2].partition("</dd>")[0]

        served.tell(Submit(specs=(script("a"),)))
        served.tell(Started(attempt="j1.1", pid=7, pid_start=1))
        assert process() == "alive, pid 7; its node is connected"
        served.tell(LinkDown(node="n", why="no route"))
        assert process() == "alive, pid 7 at the last report of its node, which is unreachable"
