"""Telling people of alerts: real servers that delay, fail, hang or refuse; nothing is lost, nothing waits for them."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from email import message_from_bytes
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from hostler.model.alerts import USUAL_ALERTS, AlertMessage, Severity
from hostler.model.errors import SettingsError, StoreLost
from hostler.model.events import Entry
from hostler.model.inputs import Configure, ProbeAlert, SilenceAlerts, UnsilenceAlerts
from hostler.model.rules import USUAL
from hostler.runtime import senders
from hostler.runtime.clock import SteadyClock
from hostler.runtime.controller import Controller
from hostler.runtime.notifying import Bucket, Notifier
from hostler.runtime.senders import NotTaken, redacted, sender
from hostler.runtime.statedir import StateDir
from hostler.runtime.telling import messages, notices
from hostler.settings import Target, Telling
from tests.core.alerting.test_rules import watched
from tests.core.builders import Driver, fleet
from tests.runtime.conftest import until
from tests.runtime.sinks import HttpSink, http_sink, smtp_sink

# What apprise imports, Python is going to leave out.
pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore:'imghdr' is deprecated")]

SCHEMA = Path(__file__).parents[2] / "docs" / "reference" / "alert.schema.json"


class Hours:
    """A clock that passes as it is slept."""

    def __init__(self) -> None:
        self.at = 1_000_000.0
        self.slept: list[float] = []

    def now(self) -> float:
        return self.at

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.at += seconds
        await asyncio.sleep(0.001)


def aimed(url: str, kind: Any = "webhook", name: str = "ops", least: Severity = Severity.INFO) -> Target:
    return Target(name=name, kind=kind, url=url, least=least)


def some_alerts(count: int = 1) -> tuple[Driver, list[Entry]]:
    """Tests of so many rules fire, one after the other."""
    rules = [rule.name for rule in USUAL_ALERTS][:count]
    driver = watched(fleet(), *rules)
    for rule in rules:
        driver.tell(ProbeAlert(rule=rule))
    return driver, driver.entries


def message(count: int = 1) -> AlertMessage:
    told = [each for entry in some_alerts(count)[1] for each in notices(entry, lambda _: None, Severity.INFO)]
    return next(iter(messages("lab", told)))


class Journal:
    """Entries in a list, read as a controller's are."""

    def __init__(self, entries: list[Entry]) -> None:
        self.written = entries

    async def read(self, after: int) -> AsyncIterator[Entry]:
        seen = after
        while True:
            for entry in [each for each in self.written if each.seq > seen]:
                seen = entry.seq
                yield entry
            await asyncio.sleep(0.005)


class Kept:
    """How far targets have been told, for as long as a test lasts."""

    def __init__(self) -> None:
        self.through: dict[str, int] = {}

    def told(self) -> dict[str, int]:
        return dict(self.through)

    def note_told(self, through: Mapping[str, int]) -> None:
        self.through = dict(through)


@pytest.fixture
def kept() -> Kept:
    return Kept()


@asynccontextmanager
async def notifying(
    kept: Kept, journal: Journal, clock: Any, *targets: Target, newest: int = 0, **settings: Any
) -> AsyncIterator[tuple[Notifier, list[str]]]:
    """A notifier at work, and the troubles that it records."""
    troubles: list[str] = []
    told = Telling(targets=targets, **{"group_s": 0.0, "per_hour": 3600, **settings})
    made = Notifier(
        told, "lab", kept, newest, clock, journal.read, lambda _: None,
        lambda where, what: troubles.append(f"{where}: {what}"),
    )  # fmt: skip
    task = asyncio.create_task(made.run())
    try:
        yield made, troubles
    finally:
        task.cancel()
        await asyncio.wait({task})


@contextmanager
def deaf_port() -> Iterator[int]:
    """A port on which nobody listens, and that nobody else gets meanwhile."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


class TestForms:
    async def test_a_webhook_gets_what_its_schema_says(self) -> None:
        with http_sink() as sink:
            way = sender(aimed(sink.url))
            await way.send(message())
            await way.close()
        (post,) = sink.posts
        value = json.loads(post.body)
        jsonschema_rs.validate(json.loads(SCHEMA.read_text()), value)
        assert post.headers["Content-Type"] == "application/json"
        assert value["alerts"][0]["test"] is True
        assert value["text"].startswith("TEST: lab: gpu_idle, 1 firing\nTEST WARNING gpu_idle (test): 0 %")

    async def test_slack_gets_text_without_markup_of_ours(self) -> None:
        with http_sink() as sink:
            await sender(aimed(sink.url, "slack")).send(replace(message(), text="a <b> & <!channel>"))
        assert json.loads(sink.posts[0].body) == {"text": "a &lt;b&gt; &amp; &lt;!channel&gt;", "mrkdwn": False}

    async def test_ntfy_gets_text_with_headers_of_printable_ascii(self) -> None:
        with http_sink() as sink:
            await sender(aimed(sink.url, "ntfy")).send(replace(message(), fleet="größe\r\nX-Evil: 1", text="grün"))
        (post,) = sink.posts
        assert post.body.decode() == "grün"
        assert post.headers["Title"] == "TEST: gr??e??X-Evil: 1: gpu_idle, 1 firing"
        assert "X-Evil" not in post.headers
        assert (post.headers["Priority"], post.headers["Tags"]) == ("4", "warning")

    async def test_mail_by_apprise(self) -> None:
        async with smtp_sink() as sink:
            url = f"mailto://127.0.0.1:{sink.port}?from=hostler@example.org&to=ann@example.org"
            way = sender(aimed(url, "apprise"))
            await way.send(message())
            sink.refuses = True
            with pytest.raises(NotTaken, match="apprise says"):
                await way.send(message())
        (mail,) = sink.mails
        read = message_from_bytes(mail)
        assert read["Subject"] == "TEST: lab: gpu_idle, 1 firing"
        assert "TEST WARNING gpu_idle (test)" in mail.decode()

    async def test_a_mail_is_text_and_no_markup_of_whoever_is_told_of(self) -> None:
        said = "a <script>b</script> & <b>c</b>"
        async with smtp_sink() as sink:
            way = sender(aimed(f"mailto://127.0.0.1:{sink.port}?from=a@example.org&to=b@example.org", "apprise"))
            await way.send(replace(message(), text=f"first\n{said}\nBcc: eve@example.org", fleet="x\r\nBcc: eve@x.org"))
        read = message_from_bytes(sink.mails[0])
        assert (read["To"], read["Bcc"]) == ("b@example.org", None)
        parts = {
            part.get_content_type(): bytes(part.get_payload(decode=True)).decode().splitlines()  # type: ignore[arg-type]
            for part in read.walk()
            if not part.is_multipart()
        }
        assert parts["text/plain"][:3] == ["first", said, "Bcc: eve@example.org"]
        assert "<script>" not in "".join(parts.get("text/html", []))

    def test_what_apprise_does_not_understand_is_refused_at_the_start(self) -> None:
        with pytest.raises(SettingsError, match="does not understand") as refused:
            sender(aimed("nosuchthing://verysecret", "apprise"))
        assert "verysecret" not in str(refused.value)


class TestRefusals:
    @pytest.mark.parametrize(
        ("answer", "final", "after_s"),
        [(500, False, None), (503, False, None), (429, False, None), ((429, 7), False, 7.0),
         ((503, "soon"), False, None), (404, True, None), (401, True, None), (302, True, None)],
    )  # fmt: skip
    async def test_what_may_be_taken_later_and_what_never(
        self, answer: object, final: bool, after_s: float | None
    ) -> None:
        with http_sink(answer) as sink:
            with pytest.raises(NotTaken) as refused:
                await sender(aimed(sink.url)).send(message())
            assert (refused.value.final, refused.value.after_s) == (final, after_s)
            assert len(sink.posts) == 1, "a redirect is not followed"

    @pytest.mark.parametrize("after", ["\u00b2", "9" * 99, "-1", "1e3", ""])
    async def test_a_time_that_is_none_is_not_waited_for(self, after: str) -> None:
        with http_sink((503, after)) as sink, pytest.raises(NotTaken) as refused:
            await sender(aimed(sink.url)).send(message())
        assert refused.value.after_s is None

    async def test_nobody_listens(self) -> None:
        with deaf_port() as port, pytest.raises(NotTaken) as refused:
            await sender(aimed(f"http://127.0.0.1:{port}/verysecret")).send(message())
        assert not refused.value.final
        assert "verysecret" not in str(refused.value)

    async def test_an_answer_that_never_comes_ends_the_try(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(senders, "SEND_S", 0.2)
        with http_sink("hang") as sink, pytest.raises(NotTaken, match=r"no answer within|Timeout"):
            await sender(aimed(sink.url)).send(message())

    async def test_a_body_without_end_is_not_read(self) -> None:
        with http_sink("endless") as sink:
            await sender(aimed(sink.url)).send(message())

    async def test_a_mail_server_that_hangs_keeps_one_thread_and_nobody(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(senders, "SEND_S", 0.2)
        with socket.socket() as silent:
            silent.bind(("127.0.0.1", 0))
            silent.listen()
            way = sender(
                aimed(f"mailto://127.0.0.1:{silent.getsockname()[1]}?from=a@example.org&to=b@example.org", "apprise")
            )
            with pytest.raises(NotTaken, match="did not end within"):
                await way.send(message())
            with pytest.raises(NotTaken, match="hangs still"):
                await way.send(message())

    def test_secrets_do_not_stand_in_what_is_told(self) -> None:
        url = "https://bob:passw0rd@hooks.example.org/services/T0001/verysecret?key=alsosecret"
        said = redacted(f"cannot reach {url}: bob:passw0rd, /services/T0001/verysecret, alsosecret, verysecret", url)
        assert not any(each in said for each in ("passw0rd", "verysecret", "alsosecret", "T0001"))
        assert "hooks.example.org" in redacted("hooks.example.org is not known", url)


class TestDelivery:
    async def test_it_comes_again_until_it_is_taken_and_once_then(self, kept: Kept) -> None:
        driver, entries = some_alerts()
        clock = Hours()
        with http_sink(500, 500, (503, 30)) as sink:
            async with notifying(kept, Journal(entries), clock, aimed(sink.url)) as (notifier, troubles):
                await until(lambda: notifier.targets()[0].sent == 1)
        bodies = {post.body for post in sink.posts}
        assert (len(sink.posts), len(bodies)) == (4, 1)
        assert [rest for rest in clock.slept if rest not in (60.0,)][:3] == [1.0, 2.0, 30.0]
        assert len(troubles) == 1
        assert "status 500; it is tried again" in troubles[0]
        assert kept.told() == {"ops": driver.state.seq}

    async def test_what_is_refused_for_good_is_given_up_and_the_next_one_goes(self, kept: Kept) -> None:
        _, entries = some_alerts(3)
        with http_sink(404) as sink:
            async with notifying(kept, Journal(entries), Hours(), aimed(sink.url)) as (notifier, troubles):
                await until(lambda: notifier.targets()[0].sent == 1)
                (view,) = notifier.targets()
        assert (view.given_up, view.trouble) == (1, None)
        assert "given up: it answered with status 404" in troubles[0]

    async def test_after_its_time_it_is_given_up(self, kept: Kept) -> None:
        _, entries = some_alerts()
        with http_sink(*[500] * 1000) as sink:
            async with notifying(kept, Journal(entries), Hours(), aimed(sink.url), give_up_s=3600.0) as (
                notifier,
                troubles,
            ):
                await until(lambda: notifier.targets()[0].given_up == 1)
        assert len(sink.posts) < 40
        assert len(troubles) == 2, "the first failure and the last are recorded, not those between"

    async def test_what_comes_together_is_told_together(self, kept: Kept) -> None:
        _, entries = some_alerts(4)
        with http_sink() as sink:
            async with notifying(kept, Journal(entries), Hours(), aimed(sink.url), group_s=10.0) as (notifier, _):
                await until(lambda: notifier.targets()[0].sent == 3)
        groups = [json.loads(post.body) for post in sink.posts]
        assert [(each["group"], len(each["alerts"])) for each in groups] == [
            ("gpu_idle", 2), ("selfplay_slow", 1), ("training_queue_long", 1),
        ]  # fmt: skip

    async def test_a_target_that_is_dead_keeps_no_other_waiting(self, kept: Kept) -> None:
        _, entries = some_alerts(2)
        with http_sink("hang") as dead, http_sink() as alive:
            targets = aimed(dead.url, name="dead"), aimed(alive.url, name="alive")
            async with notifying(kept, Journal(entries), Hours(), *targets) as (notifier, _):
                await until(lambda: notifier.targets()[1].sent >= 1)
                assert notifier.targets()[0].sent == 0
        assert kept.told()["dead"] == 0
        assert kept.told()["alive"] == entries[-1].seq

    async def test_where_a_new_target_begins_is_kept_from_the_start(self, kept: Kept) -> None:
        """Of a controller that is killed before its first minute is over the next one knows what was not told."""
        driver, entries = some_alerts()
        noted: list[dict[str, int]] = []
        with http_sink(*[500] * 1000) as sink:
            async with notifying(kept, Journal(entries), SteadyClock(), aimed(sink.url)) as (notifier, _):
                await until(lambda: len(sink.posts) > 0)
                noted.append(kept.told())
        assert noted == [{"ops": 0}]
        kept.note_told(noted[0])
        with http_sink() as sink:
            async with notifying(kept, Journal(entries), Hours(), aimed(sink.url), newest=driver.state.seq) as (
                notifier,
                _,
            ):
                await until(lambda: notifier.targets()[0].sent == 1)
        assert json.loads(sink.posts[0].body)["alerts"][0]["id"] == "a1"

    async def test_only_what_is_severe_enough_is_told(self, kept: Kept) -> None:
        driver = watched(fleet(), "gpu_idle", "node_unreachable")
        driver.tell(ProbeAlert(rule="gpu_idle"), ProbeAlert(rule="node_unreachable"))
        with http_sink() as sink:
            picky = aimed(sink.url, least=Severity.CRITICAL)
            async with notifying(kept, Journal(driver.entries), Hours(), picky) as (notifier, _):
                await until(lambda: notifier.targets()[0].through == driver.state.seq)
        assert [json.loads(post.body)["group"] for post in sink.posts] == ["node_unreachable"]

    async def test_a_target_that_breaks_is_taken_up_again_and_its_secret_stays_one(self, kept: Kept) -> None:
        _, entries = some_alerts()
        target, breaks = aimed("http://127.0.0.1/verysecret"), [True, True]

        class Brittle:
            async def send(self, told: AlertMessage) -> None:
                if breaks and breaks.pop():
                    raise RuntimeError(f"broken at {target.url}")

            async def close(self) -> None:
                """Nothing is open."""

        troubles: list[str] = []
        notifier = Notifier(
            Telling(targets=(target,), group_s=0.0), "lab", kept, 0, Hours(), Journal(entries).read,
            lambda _: None, lambda where, what: troubles.append(f"{where}: {what}"), lambda _: Brittle(),
        )  # fmt: skip
        task = asyncio.create_task(notifier.run())
        await until(lambda: notifier.targets()[0].sent == 1)
        task.cancel()
        await asyncio.wait({task})
        assert troubles == ["target ops: it is taken up again after RuntimeError: broken at …"] * 2

    async def test_no_more_than_so_many_an_hour(self) -> None:
        clock = Hours()
        bucket, begun = Bucket(60, 10, clock), clock.now()
        for _ in range(70):
            await bucket.take()
        assert 3590.0 <= clock.now() - begun <= 3610.0

    async def test_a_thousand_alerts_are_one_message_of_bounded_size(self) -> None:
        (told,) = [each for entry in some_alerts()[1] for each in notices(entry, lambda _: None, Severity.INFO)]
        (made,) = messages("lab", [replace(told, seq=seq) for seq in range(1000)])
        assert (len(made.alerts), made.left_out) == (100, 900)
        assert made.text.splitlines()[-1] == "and 980 more; `hostler alert list` lists them"


class TestController:
    """The real thing: core, journal, broadcast and targets."""

    @asynccontextmanager
    async def life(self, directory: StateDir, sink: HttpSink, **settings: Any) -> AsyncIterator[Controller]:
        telling = Telling(targets=(aimed(sink.url),), group_s=0.0, **settings)
        async with Controller(directory, "lab", {}, SteadyClock(), 10**9, telling=telling) as controller:
            await controller.tell(Configure(rules=replace(USUAL, alerts=USUAL_ALERTS)))
            yield controller

    async def test_an_alert_goes_its_whole_way(self, directory: StateDir) -> None:
        with http_sink() as sink:
            async with self.life(directory, sink) as controller:
                assert (await controller.tell(ProbeAlert(rule="disk_full_soon"))) == ["a1"]
                await until(lambda: controller.targets()[0].sent == 1)
        assert json.loads(sink.posts[0].body)["alerts"][0]["id"] == "a1"

    async def test_what_was_not_taken_before_the_end_is_told_in_the_next_life(self, directory: StateDir) -> None:
        with http_sink(*[500] * 100) as sink:
            async with self.life(directory, sink) as controller:
                await controller.tell(ProbeAlert(rule="disk_full_soon"))
                await until(lambda: len(sink.posts) > 0)
            sink.answers.clear()
            before = len(sink.posts)
            async with self.life(directory, sink) as controller:
                await until(lambda: controller.targets()[0].sent >= 1)
            assert json.loads(sink.posts[before].body)["alerts"][0]["id"] == "a1"
            told = len(sink.posts)
            async with self.life(directory, sink) as controller:
                await controller.tell(ProbeAlert(rule="gpu_idle"))
                await until(lambda: controller.targets()[0].sent >= 1)
            ids = [json.loads(post.body)["alerts"][0]["id"] for post in sink.posts[told:]]
            assert "a1" not in ids[1:], "what was taken does not come again"

    async def test_a_silence_holds_it_back_until_it_is_over(self, directory: StateDir) -> None:
        with http_sink() as sink:
            async with self.life(directory, sink) as controller:
                await controller.tell(SilenceAlerts(rule="*", for_s=3600.0, why="quiet", who="ann"))
                await controller.tell(ProbeAlert(rule="disk_full_soon"))
                await until(lambda: controller.targets()[0].through == controller.status().seq)
                assert sink.posts == []
                await controller.tell(UnsilenceAlerts(silence="s1", who="ann"))
                await until(lambda: controller.targets()[0].sent == 1)
        assert json.loads(sink.posts[0].body)["alerts"][0]["id"] == "a1"

    async def test_no_secret_stands_in_the_state_directory(self, directory: StateDir) -> None:
        with http_sink(500, 404) as sink:
            async with self.life(directory, sink) as controller:
                await controller.tell(ProbeAlert(rule="disk_full_soon"))
                await until(lambda: controller.targets()[0].given_up == 1)
                assert "verysecret" not in repr(controller.targets())
        assert not [path for path in directory.path.rglob("*") if path.is_file() and b"verysecret" in path.read_bytes()]


async def test_how_far_people_were_told_by_a_version_that_noted_it_in_a_file(directory: StateDir, kept: Kept) -> None:
    driver, entries = some_alerts()
    (directory.path / "notified.json").write_text('{"ops": 0}')
    with http_sink() as sink:
        notifier = Notifier(
            Telling(targets=(aimed(sink.url),), group_s=0.0), "lab", kept, driver.state.seq, Hours(),
            Journal(entries).read, lambda _: None, lambda *_: None, before=directory.told_before(),
        )  # fmt: skip
        task = asyncio.create_task(notifier.run())
        await until(lambda: notifier.targets()[0].sent == 1)
        task.cancel()
        await asyncio.wait({task})
    assert kept.told() == {"ops": driver.state.seq}


def test_a_damaged_file_of_what_was_told_says_nothing(directory: StateDir) -> None:
    (directory.path / "notified.json").write_text("[1, 2")
    assert directory.told_before() == {}


async def test_a_store_that_does_not_answer_is_waited_for_and_holds_up_no_end() -> None:
    closed, troubles, asked = list[str](), list[str](), list[None]()

    class Away(Kept):
        def told(self) -> dict[str, int]:
            asked.append(None)
            raise StoreLost("it does not answer")

    class Closing:
        async def send(self, message: AlertMessage) -> None:
            """Nobody comes to that."""

        async def close(self) -> None:
            closed.append("ops")

    notifier = Notifier(
        Telling(targets=(aimed("http://127.0.0.1:1"),)), "lab", Away(), 0, Hours(), Journal([]).read,
        lambda _: None, lambda where, what: troubles.append(what), lambda _: Closing(),
    )  # fmt: skip
    task = asyncio.create_task(notifier.run())
    await until(lambda: len(asked) > 2)
    task.cancel()
    await asyncio.wait({task})
    assert closed == ["ops"]
    assert troubles == ["alerts wait: it does not answer"], "once, however often it is asked"


async def test_who_is_no_target_any_more_is_forgotten(kept: Kept) -> None:
    kept.note_told({"ops": 3})
    notifier = Notifier(None, "lab", kept, 9, Hours(), Journal([]).read, lambda _: None, lambda *_: None)
    task = asyncio.create_task(notifier.run())
    await until(lambda: not kept.told())
    task.cancel()
    await asyncio.wait({task})
