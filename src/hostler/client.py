"""The Python SDK: a running controller, over its HTTP interface.

::

    client = Client.from_state_dir(Path("~/.local/state/hostler").expanduser())
    (job,) = client.submit([{"name": "hello", "payload": {"kind": "script", "schema": 1, "argv": ["echo", "hello"]}}])
    for entry in client.events(after=0):
        print(entry["seq"], entry["event"]["kind"])

Answers are decoded JSON, field by field the views of `hostler.model.views` and `hostler.model.steering`;
docs/reference/openapi.json describes them. Nothing here imports more than the standard library, because every command
of the command line pays for it.
"""

from __future__ import annotations

import http.client
import json
import os
import ssl
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import partial
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import quote, urlencode, urlsplit

from hostler.model import errors
from hostler.model.errors import ControllerAbsent, HostlerError, LinkLost, LinkRefused, UsageError

View: TypeAlias = dict[str, Any]
"""A view of `hostler.model.views` as decoded JSON."""

API = "/api/v1"
TIMEOUT_S = 60.0
"""Longest silence of the controller; several heartbeats of an event stream fit into it."""
RECONNECT_S = (0.1, 0.2, 0.5, 1.0, 2.0, 2.0, 5.0, 5.0, 10.0)
"""Rests between attempts to take up a broken event stream; after the last one it is given up."""
PAGE = 1000


class Address(NamedTuple):
    """Where a controller answers, what it wants to be told, and what it is known by where it speaks TLS."""

    url: str
    token: str
    certificate: Path | None = None
    """File with its very certificate, whatever name that is for."""
    authority: Path | None = None
    """File with what vouches for its certificate (PEM); `None`: what this machine trusts."""


class LogPiece(NamedTuple):
    """A piece of an attempt's output; `offset` and `size` count bytes ever written."""

    offset: int
    data: bytes
    size: int
    ended: bool


def address_in(state_dir: Path) -> Address:
    """The address that a running controller left in its state directory. Raises `ControllerAbsent`."""
    try:
        left = json.loads((state_dir / "controller.json").read_bytes())
        token = (state_dir / "token").read_text().strip()
        url, pid, certificate = str(left["url"]), int(left["pid"]), left.get("certificate")
    except FileNotFoundError as error:
        raise _absent(state_dir, f"there is no {Path(error.filename).name} in it") from error
    except OSError as error:
        raise _absent(state_dir, f"{error.filename} cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise _absent(state_dir, f"its controller.json cannot be understood ({error!r})") from error
    if not _is_alive(pid):
        raise _absent(state_dir, f"process {pid}, which had it, has ended")
    return Address(url, token, None if certificate is None else Path(certificate))


def address_from(environ: Mapping[str, str]) -> Address:
    """The address that `$HOSTLER_URL`, `$HOSTLER_TOKEN` and, for its certificate, `$HOSTLER_CA` give.

    Raises `UsageError` where they do not make one.
    """
    url, token, authority = (environ.get(f"HOSTLER_{name}", "").strip() for name in ("URL", "TOKEN", "CA"))
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path.strip("/"):
        raise UsageError(f"$HOSTLER_URL is {url!r}; it should be as https://fleet.example.org:8765")
    if not token:
        raise UsageError(
            f"$HOSTLER_URL is {url}, and $HOSTLER_TOKEN is not set; whoever runs that controller makes one with "
            "`hostler token create NAME`"
        )
    return Address(url, token, authority=Path(authority).expanduser() if authority else None)


class Client:
    """A controller, asked over HTTP. Names of jobs may be ids or keys.

    Raises the error that the controller answers with, `ControllerAbsent` where none runs, and `LinkLost` where it
    stopped answering: what was asked may have been done then, and under a key may safely be asked again.
    """

    def __init__(self, locate: Callable[[], Address], *, timeout_s: float = TIMEOUT_S) -> None:
        """`locate` is asked before every request: a restarted controller may answer elsewhere."""
        self._locate = locate
        self._timeout_s = timeout_s

    @classmethod
    def from_state_dir(cls, path: Path, *, timeout_s: float = TIMEOUT_S) -> Client:
        """The controller that holds this state directory, whichever it is at each request."""
        return cls(partial(address_in, path), timeout_s=timeout_s)

    @classmethod
    def from_environment(cls, environ: Mapping[str, str], *, timeout_s: float = TIMEOUT_S) -> Client:
        """The controller that `$HOSTLER_URL` and `$HOSTLER_TOKEN` name, on any machine."""
        return cls(partial(address_from, environ), timeout_s=timeout_s)

    def status(self) -> View:
        """The fleet in numbers: `Status`."""
        return self._get("/status")

    def queue_status(self) -> View:
        """What waits, what has devices, and how fast it goes: `QueueStatus`."""
        return self._get("/queue/status")

    def health(self) -> View:
        """What came to an end of late, and what each part of the controller last did: `Health`."""
        return self._get("/daemons/health")

    def jobs(self, states: Sequence[str] = (), after: int = 0, limit: int = 100) -> View:
        """A page of jobs: `items` (`JobView`) and `next`, the `after` of the following page or `None`."""
        return self._get("/jobs", state=list(states), after=after, limit=limit)

    def all_jobs(self, states: Sequence[str] = (), after: int = 0) -> Iterator[View]:
        """Every job beyond number `after`, in order of submission: `JobView`."""
        return self._pages("/jobs", after, state=list(states))

    def submit(self, specs: Sequence[Mapping[str, Any]], key: str | None = None) -> tuple[str, ...]:
        """Submit jobs (`JobSpec` as JSON), all or none; returns their ids in order.

        Whoever asks the same again under the same idempotency `key`, within a day, gets the ids of the first time.
        """
        return tuple(self._post("/jobs", list(specs), key)["ids"])

    def job(self, name: str) -> View:
        """Everything about one job: `JobDetail`."""
        return self._get(f"/jobs/{_part(name)}")

    def story(self, name: str) -> list[View]:
        """What happened to a job: `Entry` by `Entry`."""
        return self._get_list(f"/jobs/{_part(name)}/story")

    def explain(self, name: str) -> View:
        """Why a job waits, or runs where it runs: `Explanation`."""
        return self._get(f"/jobs/{_part(name)}/explain")

    def cancel(self, name: str, reason: str | None = None) -> View:
        """End a job; returns its `JobView`. Raises `Conflict` where it is over already."""
        return self._post(f"/jobs/{_part(name)}/cancel", {} if reason is None else {"reason": reason})

    def retry(self, name: str) -> View:
        """Try a failed or cancelled job again; returns its `JobView`."""
        return self._post(f"/jobs/{_part(name)}/retry", None)

    def set_priority(self, name: str, priority: int) -> View:
        """Rank a job anew; returns its `JobView`."""
        return self._post(f"/jobs/{_part(name)}/priority", {"priority": priority})

    def sweeps(self) -> list[View]:
        """All sweeps: `SweepView`."""
        return self._get_list("/sweeps")

    def sweep(self, name: str) -> View:
        """A sweep's coverage: `SweepView`."""
        return self._get(f"/sweeps/{_part(name)}")

    def ledger(self, name: str) -> View:
        """A sweep's ledger, interval by interval: `LedgerView`."""
        return self._get(f"/sweeps/{_part(name)}/ledger")

    def proof(self, name: str) -> View:
        """A sweep's ledger, folded again from the journal: `LedgerProof`."""
        return self._get(f"/sweeps/{_part(name)}/proof")

    def hits(self, name: str, after: int = 0) -> Iterator[View]:
        """Accepted hits of a sweep beyond the first `after`, in order of acceptance: `HitView`."""
        return self._pages(f"/sweeps/{_part(name)}/hits", after)

    def configs(self) -> list[View]:
        """All training configs: `ConfigView`."""
        return self._get_list("/configs")

    def config(self, name: str) -> View:
        """A training config in numbers: `ConfigView`."""
        return self._get(f"/configs/{_part(name)}")

    def history(self, name: str) -> View:
        """How a training config came to where it is: `ConfigHistory`."""
        return self._get(f"/configs/{_part(name)}/history")

    def models(self, name: str) -> list[View]:
        """All models of a training config, oldest first: `ModelView`."""
        return self._get_list(f"/configs/{_part(name)}/models")

    def roll_back(self, name: str, model: str | None = None, why: str | None = None) -> View:
        """Make an earlier model (by its SHA-256 or the beginning of it; without one, the one before) current again.

        Returns the `ConfigView`. Raises `NotFound` where there is no such model, and `Conflict` where it is current.
        """
        return self._post(f"/configs/{_part(name)}/rollback", _given(model=model, why=why))

    def pause_config(self, name: str, why: str, who: str | None = None, for_s: float | None = None) -> View:
        """Order nothing new for a training config for a while, a day where it is not said; returns its `ConfigView`."""
        return self._post(f"/configs/{_part(name)}/pause", _given(why=why, who=who, for_s=for_s))

    def resume_config(self, name: str, who: str | None = None) -> View:
        """Order for a training config again; returns its `ConfigView`."""
        return self._post(f"/configs/{_part(name)}/resume", _given(who=who))

    def spawn(
        self,
        name: str,
        *,
        stage: str | None = None,
        games: int | None = None,
        why: str | None = None,
        who: str | None = None,
        key: str | None = None,
    ) -> View:
        """Order one more job of a training config now, self-play where no `stage` is named; returns its `JobView`.

        Raises `Conflict` where it cannot be ordered now, or there are as many such jobs as there may be.
        """
        given = _given(stage=stage, games=games, why=why, who=who, key=key)
        return self._post(f"/configs/{_part(name)}/spawn", given)

    def queue(self, limit: int = 100) -> list[View]:
        """What goes next, at most 1000 rows: `QueueRow`."""
        return self._get_list("/queue", limit=limit)

    def nodes(self) -> list[View]:
        """All nodes with their devices: `NodeView`."""
        return self._get_list("/nodes")

    def cordon(self, name: str, why: str | None = None, who: str | None = None) -> View:
        """Put nothing new on a node, whoever says so and why; returns its `NodeView`. Once more does no harm."""
        return self._post(f"/nodes/{_part(name)}/cordon", _given(why=why, who=who))

    def drain_node(self, name: str, why: str | None = None, who: str | None = None, *, now: bool = False) -> View:
        """The same, and it is told when the node is empty; with `now`, what runs there is asked to go."""
        return self._post(f"/nodes/{_part(name)}/drain", _given(why=why, who=who, now=now))

    def resume(self, name: str, who: str | None = None) -> View:
        """Put work on a node again; returns its `NodeView`."""
        return self._post(f"/nodes/{_part(name)}/resume", _given(who=who))

    def explain_device(self, name: str) -> View:
        """Why a device does what it does, or nothing: `DeviceExplanation`."""
        return self._get(f"/devices/{_part(name)}/explain")

    def quotas(self) -> View:
        """Shares of device time, target against achieved: `QuotaView`."""
        return self._get("/quotas")

    def durations(self) -> View:
        """Learnt durations, and how good predictions were: `Durations`."""
        return self._get("/durations")

    def costs(self) -> View:
        """What work that is over has used up: `CostView`."""
        return self._get("/costs")

    def bans(self) -> list[View]:
        """Everything that is held back or put first for a while: `BanView`."""
        return self._get_list("/bans")

    def alerts(self, states: Sequence[str] = (), rule: str | None = None, limit: int = 1000) -> list[View]:
        """What fires, may come to fire (`pending`) or did (`over`), the newest of each first: `AlertView`."""
        return self._get_list("/alerts", **_given(state=list(states), rule=rule, limit=limit))

    def alert_rules(self) -> list[View]:
        """The rules of alerts, where their numbers come from, and what they measure now: `RuleView`."""
        return self._get_list("/alerts/rules")

    def acknowledge(self, alert: str, who: str, note: str | None = None) -> View:
        """Somebody looks after an alert; returns its `AlertView`. Raises `Conflict` where it is over."""
        return self._post(f"/alerts/{_part(alert)}/acknowledge", _given(who=who, note=note))

    def test_alert(self, rule: str, lasts_s: float | None = None) -> View:
        """Let a rule fire, marked as a test: `ProbeView`. Raises `Conflict` where it cannot."""
        return self._post(f"/alerts/rules/{_part(rule)}/test", _given(lasts_s=lasts_s))

    def silences(self) -> list[View]:
        """Alerts that are not told for a while: `SilenceView`."""
        return self._get_list("/alerts/silences")

    def silence(self, rule: str, *, for_s: float, why: str, who: str, subject: str | None = None) -> View:
        """Do not tell of a rule's alerts (`*`: of any) for so long; returns the `SilenceView`."""
        asked = _given(rule=rule, subject=subject, for_s=for_s, why=why, who=who)
        return self._post("/alerts/silences", asked)

    def unsilence(self, silence: str, who: str) -> View:
        """End a silence; returns it as it was."""
        with self._ask("DELETE", f"/alerts/silences/{_part(silence)}", {"who": who}) as response:
            view: View = json.loads(_read(response))
        return view

    def alert_targets(self) -> list[View]:
        """Where alerts are told, and how that goes: `TargetView`."""
        return self._get_list("/alerts/targets")

    def tokens(self) -> list[View]:
        """All tokens that were made and not revoked: `TokenView`."""
        return self._get_list("/tokens")

    def create_token(self, name: str, scope: str = "read", lifetime_s: float | None = None) -> View:
        """Make a token: `TokenMade`, which tells it this once."""
        return self._post("/tokens", _given(name=name, scope=scope, lifetime_s=lifetime_s))

    def revoke_token(self, name: str) -> list[View]:
        """Let nobody in by a token any more; returns those that are left: `TokenView`."""
        return self._delete(f"/tokens/{_part(name)}")

    def audit(self) -> Iterator[View]:
        """Who asked for what, newest first: `AuditView`."""
        before: int | str | None = None
        while True:
            page = self._get("/audit", limit=PAGE, **_given(before=before))
            yield from page["items"]
            before = page["next"]
            if before is None:
                return

    def log(self, attempt: str, stream: str = "out", offset: int = 0, limit: int = 1 << 20) -> LogPiece:
        """A piece of what an attempt wrote to `out` or `err`; a negative offset counts from the end."""
        query = {"stream": stream, "offset": offset, "limit": limit}
        with self._ask("GET", f"/attempts/{_part(attempt)}/log", query) as response:
            data, about = _read(response), response.headers
        ended = about["Hostler-Log-Ended"] == "true"
        return LogPiece(int(about["Hostler-Log-Offset"]), data, int(about["Hostler-Log-Size"]), ended)

    def events(self, after: int | None = None, *, sleep: Callable[[float], None] = time.sleep) -> Iterator[View]:
        """Journal entries beyond number `after` (`None`: from now on) as they happen, without end: `Entry`.

        A broken stream is taken up where it broke, without gap or doublet, also from a restarted controller; the
        error is raised when `RECONNECT_S` is used up without a word from one.
        """
        known, failures = after, 0
        while True:
            try:
                for number, entry in self._stream(known):
                    known, failures = number, 0
                    if entry is not None:
                        yield entry
            except (LinkLost, ControllerAbsent):
                if failures == len(RECONNECT_S):
                    raise
            sleep(RECONNECT_S[min(failures, len(RECONNECT_S) - 1)])
            failures += 1

    def drain(self) -> None:
        """Ask the controller to put nothing new on any device and to leave; what runs on nodes runs on."""
        self._post("/controller/drain", None)

    def _pages(self, path: str, after: int, **query: Any) -> Iterator[View]:
        cursor: int | str | None = after
        while cursor is not None:
            page = self._get(path, **query, after=cursor, limit=PAGE)
            yield from page["items"]
            cursor = page["next"]

    def _stream(self, after: int | None) -> Iterator[tuple[int, View | None]]:
        """Numbers and entries; the first number comes without an entry, it tells where the stream begins."""
        headers = {} if after is None else {"Last-Event-ID": str(after)}
        with self._ask("GET", "/events", headers=headers) as response:
            while frame := _frame(response):
                if "id" in frame:
                    yield int(frame["id"]), json.loads(frame["data"]) if "data" in frame else None

    def _get(self, path: str, **query: Any) -> View:
        with self._ask("GET", path, query) as response:
            view: View = json.loads(_read(response))
        return view

    def _get_list(self, path: str, **query: Any) -> list[View]:
        with self._ask("GET", path, query) as response:
            views: list[View] = json.loads(_read(response))
        return views

    def _post(self, path: str, value: Any, key: str | None = None) -> View:
        view: View = self._write("POST", path, None if value is None else json.dumps(value).encode(), key)
        return view

    def _delete(self, path: str) -> list[View]:
        views: list[View] = self._write("DELETE", path, None, None)
        return views

    def _write(self, method: str, path: str, body: bytes | None, key: str | None) -> Any:
        """Ask for something; once more if the connection broke: under its key it is done once, and that is known."""
        headers = {"Idempotency-Key": key or os.urandom(16).hex()}
        try:
            return self._write_once(method, path, body, headers)
        except LinkLost as lost:
            time.sleep(RECONNECT_S[0])
            try:
                return self._write_once(method, path, body, headers)
            except ControllerAbsent:
                raise lost from None

    def _write_once(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> Any:
        with self._ask(method, path, body=body, headers=headers) as response:
            return json.loads(_read(response))

    @contextmanager
    def _ask(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any] | None = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Iterator[HTTPResponse]:
        """An answer that is a success, its body yet to be read."""
        address = self._locate()
        target = API + path + ("?" + urlencode(query, doseq=True) if query else "")
        with closing(_connection(address, self._timeout_s)) as connection:
            known = {**(headers or {}), "Authorization": f"Bearer {address.token}"}
            with closing(_exchange(connection, address.url, method, target, body, known)) as response:
                if response.status >= 400:
                    raise _told(address.url, response.status, _read(response))
                yield response


def _connection(address: Address, timeout_s: float) -> HTTPConnection:
    parts = urlsplit(address.url)
    if parts.scheme != "https":
        return HTTPConnection(parts.netloc, timeout=timeout_s)
    try:
        return HTTPSConnection(parts.netloc, timeout=timeout_s, context=_tls(address))
    except (OSError, ValueError) as error:
        raise LinkRefused(
            f"{address.certificate or address.authority} cannot be read as a certificate (PEM): {error}"
        ) from error


def _tls(address: Address) -> ssl.SSLContext:
    """How the controller is known: by its very certificate, or by its name and whoever vouches for that."""
    if address.certificate is None:
        made = ssl.create_default_context(cafile=address.authority)
    else:
        end = "-----END CERTIFICATE-----"
        own = address.certificate.read_text()
        made = ssl.create_default_context(cadata=own[own.index("-----BEGIN CERT") :].partition(end)[0] + end)
        made.check_hostname = False
    # Without this only a root could vouch for itself; a certificate from elsewhere may stand for itself, too.
    made.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return made


def _exchange(
    connection: HTTPConnection, url: str, method: str, target: str, body: bytes | None, headers: Mapping[str, str]
) -> HTTPResponse:
    try:
        try:
            connection.request(method, target, body, headers)
        except (BrokenPipeError, ConnectionResetError):
            # A body that is too large is not read to its end; why, stands in the answer.
            if connection.sock is None:
                raise
        return connection.getresponse()
    except ConnectionRefusedError as error:
        raise ControllerAbsent(
            f"nothing answers at {url}; the controller may be starting or hang: wait a moment, "
            "or end its process and start it again with `hostler up FLEET.yaml`"
        ) from error
    except ssl.SSLCertVerificationError as error:
        raise LinkRefused(
            f"{url} shows a certificate that nothing here vouches for: {error.verify_message}; if it is the right one, "
            "name a file with it, or with what vouches for it, in $HOSTLER_CA"
        ) from error
    except (OSError, HTTPException) as error:
        raise _lost(url, error) from error


def _read(response: HTTPResponse) -> bytes:
    try:
        return response.read()
    except (OSError, HTTPException) as error:
        raise _lost("the controller", error) from error


def _part(name: str) -> str:
    return quote(name, safe="")


def _given(**fields: Any) -> dict[str, Any]:
    """A body without what is `None`."""
    return {name: value for name, value in fields.items() if value is not None}


def _frame(response: HTTPResponse) -> dict[str, str]:
    """The fields of one server-sent event; a comment is an event without them, the end an empty one."""
    fields: dict[str, str] = {}
    try:
        while line := response.readline().rstrip(b"\n"):
            name, _, value = line.decode().partition(": ")
            fields[name or "comment"] = value
    except http.client.IncompleteRead:
        return {}
    except (OSError, HTTPException) as error:
        raise _lost("the controller", error) from error
    return fields


def _told(url: str, status: int, body: bytes) -> HostlerError:
    """The error that the controller answered with."""
    try:
        problem = json.loads(body)
        name, message = str(problem["error"]), str(problem["message"])
    except (ValueError, KeyError, TypeError):
        return LinkRefused(f"{url} answered with status {status} and {body[:80]!r}; it is no Hostler controller")
    shape = getattr(errors, name, None)
    if isinstance(shape, type) and issubclass(shape, HostlerError):
        return shape(message)
    return LinkRefused(f"the controller at {url} refused ({status} {name}): {message}")


def _lost(where: str, error: Exception) -> LinkLost:
    return LinkLost(f"{where} stopped answering ({error!r}); whether it did what was asked is not known")


def _absent(state_dir: Path, why: str) -> ControllerAbsent:
    return ControllerAbsent(
        f"no controller is running for the state directory {state_dir}: {why}; start one with `hostler up FLEET.yaml`"
    )


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
