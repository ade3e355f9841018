"""The ways to tell somebody: a webhook, Slack, ntfy, and whatever apprise knows. Each try is bounded in time.

Addresses are secret. Nothing here raises, logs or returns one: what went wrong is told in words without it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import threading
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, Protocol
from urllib.parse import parse_qsl, urlsplit

from hostler.model import codec
from hostler.model.alerts import AlertMessage, Severity
from hostler.model.errors import SettingsError
from hostler.runtime.telling import title
from hostler.settings import Target

SEND_S = 15.0
"""How long one try may take."""
RETRY_AFTER_MOST_S = 3600.0
DIGITS = re.compile(r"[0-9]{1,9}")
SLACK_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
NTFY_PRIORITY: Mapping[Severity, str] = {Severity.INFO: "3", Severity.WARNING: "4", Severity.CRITICAL: "5"}


class NotTaken(Exception):
    """A message was not taken. `final`: it never will be; otherwise it may be in `after_s`, if that is known."""

    def __init__(self, why: str, *, final: bool = False, after_s: float | None = None) -> None:
        super().__init__(why)
        self.final = final
        self.after_s = after_s


class Sender(Protocol):
    """Somewhere that messages go."""

    async def send(self, message: AlertMessage) -> None:
        """Have it taken, within `SEND_S`. Raises `NotTaken`."""

    async def close(self) -> None:
        """Let go of connections."""


def sender(target: Target) -> Sender:
    """The way to a target. Raises `SettingsError` where what it needs is not installed."""
    return Apprise(target) if target.kind == "apprise" else Web(target)


class Web:
    """A POST for each message. What is answered with 5xx, 408, 425 or 429 is tried again; any other refusal is final.

    Redirects are not followed: they would take a secret elsewhere.
    """

    def __init__(self, target: Target) -> None:
        import httpx2

        # It writes addresses into its log.
        logging.getLogger("httpx2").setLevel(logging.WARNING)
        logging.getLogger("httpcore2").setLevel(logging.WARNING)
        self._target = target
        # A name that cannot be one, too, is found out as late as this.
        self._errors = httpx2.HTTPError, httpx2.InvalidURL, ValueError, OSError
        self._client = httpx2.AsyncClient(timeout=SEND_S, follow_redirects=False)

    async def send(self, message: AlertMessage) -> None:
        """POST it."""
        body, headers = FORMS[self._target.kind](message)
        try:
            async with asyncio.timeout(SEND_S):
                # Only the head of the answer is read: a body without end is its sender's affair.
                request = self._client.build_request("POST", self._target.url, content=body, headers=headers)
                response = await self._client.send(request, stream=True)
                await response.aclose()
        except TimeoutError as error:
            raise NotTaken(f"no answer within {SEND_S:g} s") from error
        except self._errors as error:
            raise NotTaken(redacted(f"{type(error).__name__}: {error}", self._target.url)) from None
        _judge(response.status_code, response.headers.get("retry-after"))

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()


class Apprise:
    """Any service that apprise knows. It blocks, so it has a thread of its own: one that hangs keeps nobody else."""

    def __init__(self, target: Target) -> None:
        try:
            import apprise
        except ImportError as error:
            raise SettingsError(
                f"target {target.name!r} is told by apprise, which is not installed: `pip install 'hostler[notify]'`"
            ) from error
        logging.getLogger("apprise").addHandler(logging.NullHandler())
        logging.getLogger("apprise").propagate = False
        self._service = apprise.Apprise()
        if not self._service.add(target.url):
            raise SettingsError(f"target {target.name!r}: apprise does not understand its address")
        # Unless told so it takes a text for whatever the service likes, and that of a mail for HTML.
        self._format = apprise.NotifyFormat.TEXT
        self._types = {
            Severity.INFO: apprise.NotifyType.INFO,
            Severity.WARNING: apprise.NotifyType.WARNING,
            Severity.CRITICAL: apprise.NotifyType.FAILURE,
        }
        self._busy = False

    async def send(self, message: AlertMessage) -> None:
        """Have apprise tell it."""
        if self._busy:
            raise NotTaken("the try before hangs still")
        try:
            async with asyncio.timeout(SEND_S):
                taken = await self._in_thread(lambda: self._notify(message))
        except TimeoutError as error:
            raise NotTaken(f"apprise did not end within {SEND_S:g} s") from error
        if not taken:
            raise NotTaken("apprise says that it was not taken")

    async def close(self) -> None:
        """Nothing is kept."""

    def _notify(self, message: AlertMessage) -> bool:
        kind = self._types[message.severity]
        return bool(
            self._service.notify(body=message.text, title=title(message), notify_type=kind, body_format=self._format)
        )

    async def _in_thread(self, work: Callable[[], bool]) -> bool:
        """A daemon thread: the controller's end waits for no mail server."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[bool] = loop.create_future()

        def run() -> None:
            try:
                taken, failure = work(), None
            except Exception as error:  # noqa: BLE001 - handed to whoever waits, as a refusal
                taken, failure = False, NotTaken(f"apprise failed: {type(error).__name__}")
            self._busy = False
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(settle, taken, failure)

        def settle(taken: bool, failure: NotTaken | None) -> None:
            if answer.done():
                return
            if failure is None:
                answer.set_result(taken)
            else:
                answer.set_exception(failure)

        self._busy = True
        threading.Thread(target=run, name="apprise", daemon=True).start()
        return await answer


def redacted(text: str, url: str) -> str:
    """A text without anything that is secret of an address: all of it but its scheme and its host."""
    parts = urlsplit(url)
    secrets = [url, parts.path, parts.query, parts.fragment, parts.username, parts.password, *parts.path.split("/")]
    secrets += [value for _, value in parse_qsl(parts.query)]
    for secret in sorted({each for each in secrets if each and len(each) > 3}, key=len, reverse=True):
        text = text.replace(secret, "…")
    return text


def webhook_form(message: AlertMessage) -> tuple[bytes, dict[str, str]]:
    """The message itself, as JSON."""
    return codec.adapter(AlertMessage).dump_json(message), {"Content-Type": "application/json"}


def slack_form(message: AlertMessage) -> tuple[bytes, dict[str, str]]:
    """What an incoming webhook of Slack takes; what would be markup there is text."""
    text = "".join(SLACK_ESCAPES.get(each, each) for each in message.text)
    return _json({"text": text, "mrkdwn": False}), {"Content-Type": "application/json"}


def ntfy_form(message: AlertMessage) -> tuple[bytes, dict[str, str]]:
    """What a topic of ntfy takes: the text, and the rest in headers, which hold printable ASCII only."""
    over = all(each.state == "over" for each in message.alerts)
    shown = title(message).encode("ascii", "replace").decode()
    headers = {
        "Title": "".join(each if each.isprintable() else "?" for each in shown),
        "Priority": NTFY_PRIORITY[Severity.INFO if over else message.severity],
        "Tags": "white_check_mark" if over else "warning",
        "Content-Type": "text/plain; charset=utf-8",
    }
    return message.text.encode(), headers


FORMS: Mapping[str, Callable[[AlertMessage], tuple[bytes, dict[str, str]]]] = {
    "webhook": webhook_form,
    "slack": slack_form,
    "ntfy": ntfy_form,
}
PASSING = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS})


def _judge(status: int, retry_after: str | None) -> None:
    if 200 <= status < 300:
        return
    why = f"it answered with status {status}"
    if 300 <= status < 400:
        raise NotTaken(f"{why}; redirects are not followed, give the address where it leads", final=True)
    if status < 500 and status not in PASSING:
        raise NotTaken(why, final=True)
    after = retry_after if retry_after is not None and DIGITS.fullmatch(retry_after) else None
    raise NotTaken(why, after_s=None if after is None else min(float(after), RETRY_AFTER_MOST_S))


def _json(value: Any) -> bytes:
    return codec.adapter(dict[str, Any]).dump_json(value)
