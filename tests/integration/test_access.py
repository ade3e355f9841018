"""Real controllers and whoever comes to them: over TLS, after restarts, with requests that broke off."""

from __future__ import annotations

import datetime
import http.client
import ipaddress
import json
import os
import random
import re
import ssl
import threading
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from hostler.client import Address, Client, address_in
from hostler.core.snapshot import FORMAT
from hostler.model.errors import HostlerError, LinkError, LinkRefused
from hostler.model.events import Entry, TroubleRecorded
from hostler.store import Batch, open_journal
from tests.integration.conftest import PATIENCE_S, Fleet, Hostler, HostlerIn, a_fleet, command, until
from tests.livefolders import contents_below

HELLO = [{"name": "hello", "payload": {"kind": "script", "schema": 1, "argv": ["true"]}}]
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


CLIENT_SECRET, HOOK_SECRET = "c" * 43, "h" * 43


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """A certificate for `localhost` that vouches for itself, and its key."""
    return make_certificate(tmp_path / "tls.pem", tmp_path / "tls.key")


@pytest.fixture(scope="module")
def tls_fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """A fleet whose controller is reached by TLS, tells a target that answers nothing, and has secrets around it."""
    path = tmp_path_factory.mktemp("tls")
    make_certificate(path / "tls.pem", path / "tls.key")
    notify = [{"name": "team", "kind": "webhook", "url_env": "HOOK_URL"}]
    settings = {"api": {"certificate": "tls.pem", "key": "tls.key"}, "alerts": {"notify": notify, "group_s": 0}}
    with a_fleet(path, **settings) as made:
        yield made


@pytest.fixture
def tls(tls_fleet: Fleet) -> Fleet:
    """The same, with a controller that runs."""
    if tls_fleet.controller is None or tls_fleet.controller.poll() is not None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("HOSTLER_TOKEN", CLIENT_SECRET)
            patch.setenv("HOOK_URL", f"http://127.0.0.1:9/{HOOK_SECRET}")
            tls_fleet.start()
    return tls_fleet


def make_certificate(file: Path, key_file: Path) -> tuple[Path, Path]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(key, hashes.SHA256())
    )
    file.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    key_file.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return file, key_file


class Visit:
    """Somebody with a browser's manners, but none of its help."""

    def __init__(self, fleet: Fleet, **headers: str) -> None:
        self.headers = headers
        left = json.loads((fleet.state / "controller.json").read_bytes())
        self._parts = urlsplit(left["url"])
        trusted = left["certificate"]
        self._tls = None if trusted is None else ssl.create_default_context(cafile=trusted)

    def ask(self, method: str, path: str, body: bytes | None = None, **headers: str) -> tuple[int, Any, bytes]:
        """One request; status, headers, body."""
        if self._tls is None:
            connection = http.client.HTTPConnection(self._parts.netloc, timeout=PATIENCE_S)
        else:
            connection = http.client.HTTPSConnection(self._parts.netloc, timeout=PATIENCE_S, context=self._tls)
        connection.request(method, path, body, {**self.headers, **headers})
        answer = connection.getresponse()
        read = answer.read()
        connection.close()
        return answer.status, answer.headers, read

    def log_in(self, token: str) -> int:
        """Keep the cookie of a session."""
        status, headers, _ = self.ask("POST", "/login", urlencode({"token": token}).encode(), **FORM)
        self.cookie = headers.get("Set-Cookie", "")
        self.headers = {**self.headers, "Cookie": self.cookie.partition(";")[0]}
        return status


def test_tls_from_end_to_end(
    tls: Fleet, tmp_path: Path, hostler_in: HostlerIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = tls
    address = address_in(fleet.state)
    assert address.url.startswith("https://127.0.0.1:")
    (job,) = fleet.client.submit_jobs(HELLO)
    fleet.state_of(job, "done")
    made = hostler_in(tmp_path, "token", "create", "cli", "--scope", "operate", "--state-dir", str(fleet.state))
    for name in [each for each in os.environ if each.startswith("HOSTLER_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOSTLER_URL", address.url.replace("127.0.0.1", "localhost"))
    monkeypatch.setenv("HOSTLER_TOKEN", made.out.strip())
    said = hostler_in(tmp_path, "jobs")
    assert (said.status, "HOSTLER_CA" in said.err) == (1, True)
    monkeypatch.setenv("HOSTLER_CA", str(fleet.path / "tls.pem"))
    assert hostler_in(tmp_path, "jobs").status == 0
    other, _ = make_certificate(tmp_path / "other.pem", tmp_path / "other.key")
    monkeypatch.setenv("HOSTLER_CA", str(other))
    assert hostler_in(tmp_path, "jobs").status == 1
    with pytest.raises(LinkRefused, match="cannot be read as a certificate"):
        Client(lambda: Address(address.url, "x", authority=fleet.file)).status()
    with pytest.raises(LinkError):
        Client(lambda: Address(address.url.replace("https", "http"), made.out.strip())).status()
    visit = Visit(fleet)
    assert visit.log_in(made.out.strip()) == 303
    assert "; Secure" in visit.cookie
    assert visit.ask("GET", "/status")[0] == 200


@pytest.mark.parametrize(
    ("api", "told"),
    [
        ({"host": "0.0.0.0"}, "plain text"),
        ({"host": "0.0.0.0", "certificate": "tls.pem", "key": "tls.key"}, "hostler token create"),
        ({"certificate": "tls.key"}, "cannot be used"),
        ({"certificate": "nowhere.pem"}, "nowhere.pem"),
    ],
)
def test_a_door_that_would_stand_open_is_not_opened(
    fleet: Fleet, hostler: Hostler, certificate: tuple[Path, Path], api: dict[str, Any], told: str
) -> None:
    fleet.settle(api=api)
    said = hostler(fleet, "up", "--state-dir", str(fleet.state), "--port", "0", "--until-idle", str(fleet.file))
    assert said.status == 2
    assert told in said.err
    assert not (fleet.state / "controller.json").exists()


def test_tokens_and_sessions_outlive_a_controller(living: Fleet) -> None:
    fleet = living
    kept, gone = (fleet.client.create_token(name, "operate")["token"] for name in ("kept", "gone"))
    fleet.client.revoke_token("gone")
    visit, over = Visit(fleet), Visit(fleet)
    assert visit.log_in(kept) == over.log_in(kept) == 303
    (csrf,) = set(re.findall(rb'data-csrf="([0-9a-f]{64})"', over.ask("GET", "/pages/fleet")[2]))
    assert over.ask("POST", "/logout", b"csrf=" + csrf, **FORM)[0] == 303
    fleet.kill()
    fleet.start()
    assert {each["name"] for each in fleet.client.tokens()} & {"kept", "gone"} == {"kept"}
    after = Visit(fleet, **visit.headers)
    assert after.ask("GET", "/status")[0] == 200
    assert Visit(fleet, **over.headers).ask("GET", "/status")[0] == 401, "a session that was ended stays so"
    assert Visit(fleet, Authorization=f"Bearer {kept}").ask("GET", "/status")[0] == 200
    assert Visit(fleet, Authorization=f"Bearer {gone}").ask("GET", "/status")[0] == 401


def test_job_of_another_person_is_changed_by_its_owner_alone(
    living: Fleet, tmp_path: Path, hostler_in: HostlerIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = living
    url = address_in(fleet.state).url
    tokens = {}
    for name in ("anna", "ben"):
        asked = ("token", "create", name, "--scope", "operate", "--owner", name, "--state-dir", str(fleet.state))
        tokens[name] = hostler_in(tmp_path, *asked).out.strip()
    anna = Client(lambda: Address(url, tokens["anna"]))
    (job,) = anna.submit_jobs([{"name": "long", "argv": ["sleep", "600"], "device": "cpu"}])
    monkeypatch.setenv("HOSTLER_URL", url)
    monkeypatch.setenv("HOSTLER_TOKEN", tokens["ben"])
    said = hostler_in(tmp_path, "cancel", job)
    assert (said.status, f"{job} belongs to anna" in said.err) == (1, True)
    assert hostler_in(tmp_path, "jobs", "--mine").out == "no jobs\n"
    fleet.kill()
    fleet.start()  # owners and the rule that follows from them outlive a controller
    url = address_in(fleet.state).url
    monkeypatch.setenv("HOSTLER_URL", url)
    assert hostler_in(tmp_path, "job", "priority", job, "3").status == 1
    monkeypatch.setenv("HOSTLER_TOKEN", tokens["anna"])
    assert job in hostler_in(tmp_path, "jobs", "--mine").out
    assert re.search(r"^owner +anna$", hostler_in(tmp_path, "job", "show", job).out, re.MULTILINE)
    assert hostler_in(tmp_path, "cancel", job).status == 0
    for name in tokens:
        fleet.client.revoke_token(name)


@pytest.mark.parametrize("turns", [1, pytest.param(3, marks=pytest.mark.long)])
def test_a_submission_that_a_kill_breaks_off_is_done_once(living: Fleet, turns: int) -> None:
    fleet, chance = living, random.Random(7)
    jobs, asked = len(list(fleet.client.all_jobs())), len(list(fleet.client.audit()))
    for number in range(turns):
        asking = threading.Thread(target=ask_quietly, args=(fleet, f"key-{number}-of-{turns}"))
        asking.start()
        time.sleep(chance.uniform(0, 0.03))
        fleet.kill()
        asking.join()
        fleet.start()
        first = fleet.client.submit_jobs(HELLO, f"key-{number}-of-{turns}")
        assert fleet.client.submit_jobs(HELLO, f"key-{number}-of-{turns}") == first
        assert len(list(fleet.client.all_jobs())) == jobs + number + 1
    oldest_first = list(fleet.client.audit())[::-1]
    assert [row["what"] for row in oldest_first[asked:]] == ["submit_jobs"] * turns


def ask_quietly(fleet: Fleet, key: str) -> None:
    """Submit; what becomes of it is seen later."""
    try:
        fleet.client.submit_jobs(HELLO, key)
    except HostlerError:
        return


def test_no_secret_is_left_anywhere(tls: Fleet) -> None:
    fleet = tls
    local = (fleet.state / "token").read_text().strip()
    made = fleet.client.create_token("ci", "operate")["token"]
    wrong, lost = "w" * 43, "l" * 43
    visit = Visit(fleet)
    assert visit.log_in(made) == 303
    cookie = visit.headers["Cookie"].partition("=")[2]
    csrf = "0" * 64
    Visit(fleet).log_in(wrong)
    Visit(fleet, Authorization=f"Bearer {lost}").ask("GET", "/status")
    visit.ask("POST", "/api/v1/jobs", b"[]", **{"X-CSRF-Token": csrf})
    Visit(fleet, Authorization=f"Bearer {made}").ask("POST", "/api/v1/jobs", b"{nonsense")
    posted = Visit(fleet, Authorization=f"Bearer {made}").ask("POST", "/api/v1/jobs", json.dumps(HELLO).encode())
    (job,) = json.loads(posted[2])["ids"]
    fleet.state_of(job, "done")
    said = fleet.python("import os; print(dict(os.environ))")
    fleet.state_of(said, "done")
    assert b"HOSTLER_ATTEMPT" in fleet.client.log(f"{said}.1").data
    fleet.client.test_alert("gpu_idle", 60.0)
    until(lambda: fleet.client.alert_targets()[0]["trouble"], "a target that takes nothing")
    shown = b"".join(everything_shown(fleet, local, job, f"{said}.1"))
    fleet.client.revoke_token("ci")
    fleet.client.drain()
    assert fleet.ended() == 0
    key_lines = [line for line in (fleet.path / "tls.key").read_text().splitlines() if not line.startswith("-----")]
    secrets = {
        "the owner's token": local,
        "a token that was made": made,
        "a wrong token": wrong,
        "another wrong token": lost,
        "a client's token": CLIENT_SECRET,
        "the address of a target": HOOK_SECRET,
        "a cookie": cookie,
        "the key of cookies": (fleet.state / "session.key").read_text().strip(),
        "the key of the certificate": key_lines[0],
    }
    places = {**dict(everything_written(fleet)), "what was shown": shown}
    found = [(what, place) for what, text in secrets.items() for place, data in places.items() if text.encode() in data]
    assert any(place.startswith("snapshot") for place in places)
    own = {("the owner's token", "token"), ("the key of cookies", "session.key")}
    assert set(found) == own


def everything_shown(fleet: Fleet, token: str, job: str, attempt: str) -> Iterator[bytes]:
    """What every path says that can be read."""
    visit = Visit(fleet, Authorization=f"Bearer {token}")
    document = json.loads(visit.ask("GET", "/api/v1/openapi.json")[2])
    for path, operations in document["paths"].items():
        if "get" in operations and not path.endswith("/events"):
            status, headers, body = visit.ask("GET", path.replace("{name}", job).replace("{attempt}", attempt))
            assert status < 500
            yield str(headers).encode() + body
    yield visit.ask("GET", "/login")[2] + visit.ask("GET", "/status")[2]


def everything_written(fleet: Fleet) -> Iterator[tuple[str, bytes]]:
    """Every file of the state directory, what is packed in it too, and what the controller has printed."""
    journal = open_journal(fleet.state)
    for snapshot in journal.snapshots():
        yield f"snapshot {snapshot.seq}", zlib.decompress(snapshot.data[len(FORMAT) :])
    journal.close()
    for file, data in contents_below(fleet.state):
        yield str(file.relative_to(fleet.state)), data
    yield "up.log", (fleet.path / "up.log").read_bytes()


def test_an_open_stream_ends_when_its_token_is_revoked(living: Fleet) -> None:
    fleet = living
    token = fleet.client.create_token("ci")["token"]
    url = address_in(fleet.state).url
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=PATIENCE_S)
    connection.request("GET", "/api/v1/events", headers={"Authorization": f"Bearer {token}"})
    stream = connection.getresponse()
    assert stream.readline().startswith(b"id: ")
    fleet.client.revoke_token("ci")
    ended = threading.Event()

    def read() -> None:
        stream.read()
        ended.set()

    threading.Thread(target=read, daemon=True).start()
    until(lambda: fleet.client.submit_jobs(HELLO) and ended.wait(0.3), "the end of the stream")
    connection.close()


def test_token_expires_in_time_though_a_clock_was_ahead(fleet: Fleet) -> None:
    """A controller was started once with a clock 400 days ahead, then with the right one."""
    fleet.start()
    fleet.kill()
    journal = open_journal(fleet.state)
    last = max(entry.seq for entry in journal.read())
    at = time.time() + 400.5 * 86400.0  # half a day more than is shown: a start takes a while
    ahead = Entry(seq=last + 1, at=at, event=TroubleRecorded(where="test", what="a clock ahead"))
    journal.append([Batch(entries=[ahead], jobs=())])
    journal.close()
    fleet.start()
    said = command("token", "create", "ci", "--expires", "2s", "--state-dir", fleet.state)
    assert said.status == 0, said
    url, token = address_in(fleet.state).url, said.out.strip()
    short = Client(lambda: Address(url, token))
    (listed,) = json.loads(command("token", "list", "--json", "--state-dir", fleet.state).out)
    assert listed["left_s"] <= 2.0
    until(lambda: refused(short), "the end of the token")
    (row,) = command("token", "list", "--state-dir", fleet.state).out.splitlines()[1:]
    assert row.split()[-1] == "expired"
    troubles = command("events", "--after", str(last), "--json", "--state-dir", fleet.state).out
    assert "400d" in troubles
    assert "ahead of this machine's clock" in troubles


def refused(asked: Client) -> bool:
    try:
        asked.jobs()
    except HostlerError as error:
        return "token" in str(error)
    return False
