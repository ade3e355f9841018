"""Every operation of the document has a method in both clients, and both say the same."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Coroutine, Iterator, Mapping
from pathlib import Path
from types import GeneratorType
from typing import Any

import pytest

from hostler.client import Address, AsyncClient, Client
from hostler.client.operations import Operations
from hostler.model import codec, inputs
from hostler.model.errors import HostlerError, NotFound
from hostler.model.files import FileRef
from hostler.model.groups import GroupSpec, SubmitGroup
from hostler.model.work import JobSpec, JobState, ScriptPayload
from hostler.snapshots.folder import take
from hostler.web.app import make_app
from tests.core.builders import ended, script
from tests.web.core_desk import TOKEN, CoreDesk, Window, door, window
from tests.web.worlds import ARTIFACT, FILES, RL, SCRIPT, SWEEP, WAITING, whole_world

LEFT = "what it left"
"""The key of a job that is done and left a file."""

READS: Mapping[str, tuple[Any, ...]] = {
    "status": (),
    "queue_status": (),
    "health": (),
    "fleet": (),
    "jobs": (["failed", "running"], 3, 2),
    "all_jobs": (["failed", "done"],),
    "named": ([WAITING, SCRIPT],),
    "groups": (0, 5),
    "group": ("g1",),
    "group_results": ("g1",),
    "files": (LEFT,),
    "job": (SCRIPT,),
    "story": (SWEEP,),
    "explain": (WAITING,),
    "rl": (RL,),
    "rl_curve": (RL,),
    "rl_picture": (RL, 1),
    "sweeps": (),
    "sweep": (SWEEP,),
    "ledger": (SWEEP,),
    "intervals": (SWEEP, ["done", "leased"]),
    "proof": (SWEEP,),
    "hits": (SWEEP, 1),
    "configs": (),
    "config": ("tiny_2p",),
    "history": ("tiny_2p",),
    "models": ("tiny_2p",),
    "datasets": ("tiny_2p",),
    "all_models": (),
    "all_datasets": (),
    "queue": (1,),
    "nodes": (),
    "node": ("other gpu",),
    "devices": (None, "vast", 1),
    "device": ("gpu/cuda0",),
    "explain_device": ("gpu/cuda0",),
    "quotas": (),
    "durations": (),
    "costs": (),
    "usage": ("hour", ["device", "work"], 0.0, None, {"work": "script"}),
    "bans": (["pause"],),
    "alerts": (),
    "alert_rules": (),
    "silences": (),
    "alert_targets": (),
    "tokens": (),
    "secrets": (),
    "disk": (),
    "disk_plan": (),
    "disk_tombstones": (),
    "audit": (),
    "entries": (7,),
    "artifacts": ("games", "tiny_2p"),
    "all_artifacts": (None, None, "games", "controller"),
    "artifact": (ARTIFACT[:12],),
    "lineage": (ARTIFACT, 2, 5),
    "replication": (),
}
WRITES: Mapping[str, Callable[[Any], Any]] = {
    "submit_jobs": lambda client: client.submit_jobs([codec.plain(script("new", key="new"))]),
    "submit_group": lambda client: client.submit_group(
        {"name": "more", "max_running": 1}, [codec.plain(script("of a group", parameters={"n": "1"}))], strict=False
    ),
    "cancel_group": lambda client: client.cancel_group("g1", "changed my mind"),
    "retry_group": lambda client: client.retry_group("g1", only_failed=False),
    "set_priority": lambda client: client.set_priority("new", 3),
    "cancel": lambda client: client.cancel("new", "changed my mind"),
    "retry": lambda client: client.retry(SCRIPT),
    "roll_back": lambda client: client.roll_back("tiny_2p", why="it was better"),
    "pause_config": lambda client: client.pause_config("tiny_2p", "games repeat", "ann", 60.0),
    "resume_config": lambda client: client.resume_config("tiny_2p"),
    "spawn": lambda client: client.spawn("tiny_2p", games=3, why="more"),
    "cordon": lambda client: client.cordon("gpu", "a fan"),
    "drain_node": lambda client: client.drain_node("gpu", now=True),
    "resume": lambda client: client.resume("gpu"),
    "cordon_device": lambda client: client.cordon_device("gpu/cuda0", why="a game", for_s=60.0),
    "drain_device": lambda client: client.drain_device("gpu/cuda0"),
    "resume_device": lambda client: client.resume_device("gpu/cuda0"),
    "acknowledge": lambda client: client.acknowledge("a1", note="on my way"),
    "test_alert": lambda client: client.test_alert("gpu_idle", 5.0),
    "silence": lambda client: client.silence("gpu_idle", for_s=60.0, why="a fan"),
    "unsilence": lambda client: client.unsilence("s1"),
    "create_token": lambda client: client.create_token("three", "operate", 60.0),
    "revoke_token": lambda client: client.revoke_token("three"),
    "set_secret": lambda client: client.set_secret("wandb", "a value of a test"),
    "remove_secret": lambda client: client.remove_secret("hf"),
    "verify_artifact": lambda client: client.verify_artifact(ARTIFACT, "controller"),
    "clean_disk": lambda client: client.clean_disk(["logs/j1.1/out"], who="ann"),
    "undo_cleaning": lambda client: client.undo_cleaning(["logs/j7.1/out"]),
    "drain": lambda client: client.drain(),
}
FORGOTTEN = {"retry", "pause_config", "cordon", "test_alert", "unsilence", "revoke_token", "undo_cleaning"}
"""One write of each kind of thing that may be gone or over when it is asked for again."""
OTHERS = {"metrics", "log", "output", "fetch", "send_snapshot", "send_folders"}
BY_HAND = {"events", "content"}
"""What is no request with an answer, but a stream: each client has its own."""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Window]:
    with window(furnished(tmp_path)) as made:
        yield made


def furnished(folder: Path) -> CoreDesk:
    """The world, and in a folder what one more job has left."""
    desk, content = whole_world(), FILES[0]
    driver, desk.results = desk.driver, folder / "results"
    payload = ScriptPayload(schema=1, argv=("true",), outputs=("*.bin",))
    (job,) = driver.submit(JobSpec(name="leaver", key=LEFT, payload=payload, priority=1000))
    driver.until(lambda: driver.state.jobs[job].attempt)  # type: ignore[attr-defined]
    attempt = f"{job}.1"
    driver.tell(ended(attempt))
    grouped = tuple(script("grouped", priority=-9, parameters={"n": str(n)}, after=(WAITING,)) for n in range(2))
    driver.tell(SubmitGroup(spec=GroupSpec(name="a group"), jobs=grouped))
    driver.tell(inputs.Cancel(job=driver.answers[0][1][0]))
    file = FileRef(path=f"{attempt}/a b.bin", size=len(content), sha256=ARTIFACT)
    driver.tell(inputs.Fetched(attempt=attempt, files=(file,)))
    assert driver.state.jobs[job].state is JobState.DONE
    (desk.results / attempt).mkdir(parents=True)
    (desk.results / attempt / "a b.bin").write_bytes(content)
    return desk


def address(served: Window) -> Callable[[], Address]:
    return lambda: Address(f"http://127.0.0.1:{served.port}", TOKEN)


def names() -> set[str]:
    """The methods that both clients have."""
    return {name for name, each in vars(Operations).items() if callable(each) and not name.startswith("_")}


def asked(served: Window) -> set[tuple[str, str]]:
    """Methods and paths that were asked for so far, by the metrics of the server itself."""
    text = served.get("/metrics").body.decode()
    found = re.findall(r'hostler_http_request_duration_seconds_count\{method="(\w+)",route="([^"]+)"', text)
    return {(method, route.replace(":path}", "}")) for method, route in found}


@functools.cache
def operations() -> frozenset[tuple[str, str]]:
    document = make_app(CoreDesk(), door()).openapi()
    return frozenset((method.upper(), path) for path, each in document["paths"].items() for method in each)


def ask_all(client: Client) -> Mapping[str, Any]:
    """Every reader, then every writer, as a program that waits asks them."""
    said = {name: _gathered(getattr(client, name)(*args)) for name, args in READS.items()}
    said["log"] = client.log(f"{client.job(SCRIPT)['job']['id']}.1", offset=-7)
    said["output"] = client.output(f"{client.job(SCRIPT)['job']['id']}.1", out=2)
    said |= {name: write(client) for name, write in WRITES.items()}
    assert b"".join(client.content(ARTIFACT)) == FILES[0]
    with tempfile.TemporaryDirectory() as folder:
        (row,) = client.fetch(LEFT, folder)
        assert copied(row) == FILES[0]
    snapshot = take(Path(__file__).parent, ("patience.py",))
    assert client.send_snapshot(snapshot) == snapshot.digest
    return {**said, "metrics": client.metrics()}


async def await_all(client: AsyncClient) -> Mapping[str, Any]:
    """The same, awaited."""
    said = {name: await _awaited(getattr(client, name)(*args)) for name, args in READS.items()}
    job = await client.job(SCRIPT)
    said["log"] = await client.log(f"{job['job']['id']}.1", offset=-7)
    said["output"] = await client.output(f"{job['job']['id']}.1", out=2)
    for name, write in WRITES.items():
        said[name] = await write(client)
    assert b"".join([each async for each in client.content(ARTIFACT)]) == FILES[0]
    with tempfile.TemporaryDirectory() as folder:
        (row,) = await client.fetch(LEFT, folder)
        assert copied(row) == FILES[0]
    snapshot = take(Path(__file__).parent, ("patience.py",))
    assert await client.send_snapshot(snapshot) == snapshot.digest
    return {**said, "metrics": await client.metrics()}


def copied(row: Mapping[str, Any]) -> bytes:
    """The content of a file that has come here."""
    assert row["copied"]
    return Path(row["file"]).read_bytes()


def _gathered(told: Any) -> Any:
    return list(told) if isinstance(told, GeneratorType) else told


async def _awaited(told: Any) -> Any:
    return await told if isinstance(told, Coroutine) else [each async for each in told]


def test_both_say_the_same_of_every_operation(world: Window, tmp_path: Path) -> None:
    assert names() == {*READS, *WRITES, *OTHERS}
    said = ask_all(Client(address(world)))
    assert asked(world) >= operations() - {("GET", "/api/v1/events")}

    async def other() -> Mapping[str, Any]:
        with window(furnished(tmp_path / "again")) as again:
            async with AsyncClient(address(again)) as client:
                told = await await_all(client)
                assert asked(again) >= operations() - {("GET", "/api/v1/events")}
                return told

    assert_same(said, asyncio.run(other()))


def assert_same(said: Mapping[str, Any], told: Mapping[str, Any]) -> None:
    """What the clients were answered; a token is another each time, and times of requests are."""
    secret = {"create_token": "token"}
    for name in READS.keys() | WRITES.keys() | {"log", "output"}:
        one, other = said[name], told[name]
        if name in secret:
            one, other = ({k: v for k, v in each.items() if k != secret[name]} for each in (one, other))
        assert one == other, name
        assert one or name in ("revoke_token",), f"{name} said nothing"


def test_events_are_a_method_of_both(world: Window) -> None:
    for name in BY_HAND:
        assert callable(getattr(Client, name))
        assert callable(getattr(AsyncClient, name))
    newest = world.desk.status().seq
    events = Client(address(world)).events(after=newest - 3)
    assert [next(events)["seq"] for _ in range(3)] == [newest - 2, newest - 1, newest]
    events.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize("shape", [Client, AsyncClient])
def test_methods_look_like_what_they_are(shape: type[Operations]) -> None:
    for name in names():
        method = getattr(shape, name)
        assert method.__doc__, name
        assert next(iter(inspect.signature(method).parameters)) == "self", name
    assert str(inspect.signature(Client(lambda: Address("", "")).job)).startswith("(name: 'str')")


def test_typed_shapes_cost_programs_nothing() -> None:
    """Nor does what only one of the clients needs."""
    code = (
        "import sys, hostler.client; print([m for m in sys.modules if 'shapes' in m or 'httpx' in m or 'asyncio' in m])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


class TestAgain:
    """Every write under a key: twice the same answer, and one effect."""

    @pytest.mark.parametrize("name", WRITES)
    def test_says_the_same_and_does_it_once(self, world: Window, name: str) -> None:
        prepare(world, name)
        client = Keyed(address(world))
        first, seq = WRITES[name](client), world.desk.status().seq
        if name == "create_token":
            with pytest.raises(HostlerError, match="told only then"):
                WRITES[name](client)
        else:
            assert steady(WRITES[name](client)) == steady(first)
        assert world.desk.status().seq == seq
        assert client.keys == ["one", "one"]

    @pytest.mark.parametrize(
        "name",
        [
            name if name in FORGOTTEN else pytest.param(name, marks=pytest.mark.long)
            for name in WRITES
            if name not in ("create_token", "submit_jobs")
        ],
    )
    def test_is_never_a_failure_of_ours(self, world: Window, name: str) -> None:
        """Also where meanwhile the thing itself is gone or over."""
        prepare(world, name)
        client = Keyed(address(world))
        WRITES[name](client)
        world.tell(*gone(world))
        with contextlib.suppress(NotFound):
            WRITES[name](client)
        assert world.desk.status().troubles == 0


def steady(said: Any) -> Any:
    """What was said without what changes as time goes by."""
    moving = {"data_age_s", "games_per_h", "next"}
    return {key: each for key, each in said.items() if key not in moving} if isinstance(said, dict) else said


def prepare(served: Window, name: str) -> None:
    """What has to be there already."""
    client = Client(address(served))
    if name in ("set_priority", "cancel"):
        WRITES["submit_jobs"](client)
    if name == "revoke_token":
        WRITES["create_token"](client)
    if name == "remove_secret":
        client.set_secret("hf", "to be removed")
        client.set_secret("wandb", "to be left")


def gone(served: Window) -> list[Any]:
    """Time goes by: silences and pauses end, tests of alerts are over and forgotten."""
    served.desk.driver.now += 80_000.0
    return [inputs.Tick(), inputs.LinkUp(node="lost", agent="a", incarnation=1, boot="b", attempts=(), chunks=())]


class Keyed(Client):
    """A client that asks everything under one key."""

    def __init__(self, locate: Callable[[], Address]) -> None:
        super().__init__(locate)
        self.keys: list[str] = []

    def _told(self, wanted: Any) -> Any:
        if not isinstance(wanted, float) and "Idempotency-Key" in wanted.headers:
            self.keys.append("one")
            wanted = wanted._replace(headers={"Idempotency-Key": "one"})
        return super()._told(wanted)
