"""A Ray cluster by its dashboard's HTTP: jobs are submitted under an id, looked up, read and stopped; machines listed.

Written for Ray 2.60. That a submission id is there already, Ray answers with 500 and `already exists` in a traceback,
so that a submission is looked up before it is made, and after an answer that is not understood.
"""

from __future__ import annotations

import asyncio
import json
import math
import ssl
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import httpx2

from hostler.backends.channel import words
from hostler.backends.ray.errors import RayDown, RayRefused
from hostler.backends.ray.machines import Machine, Wants
from hostler.model.record import record

ANSWER_S = 20.0
"""A head whose GCS is dead takes requests and answers none."""
CONNECT_S = 5.0
WHOLE_S = 60.0
"""For an answer that goes on coming, byte by byte."""
BODY_MAX = 64 << 20
"""Bytes of an answer; a job's log may be as long as it likes."""
SAID_MAX = 400
LISTED_MAX = 10_000
OVER = frozenset({"SUCCEEDED", "FAILED", "STOPPED"})
STATUSES = OVER | {"PENDING", "RUNNING"}
EXISTS = "already exists"
HIDDEN = "…"
"""What stands where an answer repeats a secret."""
TOKEN_ADVICE = "give the cluster's token by `ray.token_file` or `ray.token_env` (`ray get-auth-token` shows it there)"  # noqa: S105


@record
class Door:
    """Where a cluster's dashboard answers, and how one shows oneself there."""

    address: str
    token: str | None = None
    ca: Path | None = None
    """Certificates that its own is believed by; `None`: those of the system."""

    def __repr__(self) -> str:
        """Without the token."""
        return f"Door({self.address!r})"


@record
class Job:
    """What Ray tells of a job."""

    id: str
    status: str
    """`PENDING`, `RUNNING`, or one of `OVER`."""
    message: str
    machine: str | None
    """Id of the machine it runs on; `None`: it has not begun."""
    exit_code: int | None
    error: str | None
    """The kind of its failure, as `JOB_SUPERVISOR_ACTOR_DIED`."""

    @property
    def over(self) -> bool:
        """Whether Ray will do nothing more for it."""
        return self.status in OVER


@record
class _Answer:
    """What came back, secrets hidden."""

    path: str
    status: int
    body: bytes
    location: str | None

    @property
    def text(self) -> str:
        """For people."""
        return self.body.decode(errors="replace")


class RayRest:
    """The requests. All raise `RayDown` where there is no answer, and `RayRefused` where it is a no. No secret that was
    shown stands in what they return or raise, whatever the answer repeats."""

    def __init__(self, door: Door) -> None:
        self._door = door
        headers = {} if door.token is None else {"Authorization": f"Bearer {door.token}"}
        self._client = httpx2.AsyncClient(
            base_url=door.address,
            headers=headers,
            timeout=httpx2.Timeout(ANSWER_S, connect=CONNECT_S),
            verify=_trust(door.ca) if door.address.startswith("https:") else True,
            trust_env=False,
            follow_redirects=False,
        )

    async def close(self) -> None:
        """End its connections."""
        await self._client.aclose()

    async def version(self) -> str:
        """Of Ray."""
        told = (await self._json("GET", "/api/version")).get("ray_version")
        if not isinstance(told, str):
            raise RayDown(f"{self._door.address} does not say which Ray it is; does another server answer there?")
        return words(told, SAID_MAX)

    async def machines(self) -> list[Machine]:
        """All that the cluster knows of, dead ones too."""
        answer = await self._json("GET", "/api/v0/nodes", params={"detail": "1", "limit": str(LISTED_MAX)})
        try:
            return [_machine(row) for row in answer["data"]["result"]["result"]]
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise RayDown(f"its list of nodes cannot be understood: {words(answer, SAID_MAX)}") from error

    async def free(self) -> dict[str, float]:
        """What of the whole cluster nobody uses now, by the names of Ray; empty where it does not say."""
        answer = await self._json("GET", "/api/cluster_status")
        try:
            usage = answer["data"]["clusterStatus"]["loadMetricsReport"]["usage"]
            return {str(name): _amount(_amount(total) - _amount(used)) for name, (used, total) in usage.items()}
        except (KeyError, TypeError, ValueError, AttributeError):
            return {}

    async def job(self, name: str) -> Job | None:
        """What is known of a job; `None`: there is none of that id."""
        answer = await self._answer("GET", f"/api/jobs/{name}", none=True)
        if answer is None:
            return None
        told = self._decoded(answer)
        status = told.get("status")
        if not isinstance(status, str) or status not in STATUSES:
            raise RayDown(f"{self._door.address} tells no status of job {name}: {words(answer.text, SAID_MAX)}")
        return Job(
            id=name,
            status=status,
            message=words(told.get("message") or "", SAID_MAX),
            machine=told.get("driver_node_id"),
            exit_code=told.get("driver_exit_code"),
            error=told.get("error_type"),
        )

    async def submit(self, name: str, entrypoint: str, wants: Wants, runtime: Mapping[str, Any]) -> None:
        """Have a job run; one that is there under that id already is as good."""
        asked: dict[str, Any] = {"submission_id": name, "entrypoint": entrypoint, "runtime_env": dict(runtime)}
        asked["entrypoint_num_cpus"] = wants.cpus
        asked["entrypoint_num_gpus"] = wants.gpus
        if wants.memory_gb is not None:
            asked["entrypoint_memory"] = int(wants.memory_gb * 2**30)
        if wants.resources:
            asked["entrypoint_resources"] = dict(wants.resources)
        if wants.labels:
            asked["entrypoint_label_selector"] = dict(wants.labels)
        try:
            await self._answer("POST", "/api/jobs/", json=asked, hides=_secrets(runtime))
        except (RayDown, RayRefused) as error:
            if EXISTS not in str(error):
                raise

    async def stop(self, name: str) -> None:
        """Have a job stopped, gently for three seconds; one that is not there is no error. Does not wait for it."""
        await self._answer("POST", f"/api/jobs/{name}/stop", none=True)

    async def forget(self, name: str) -> None:
        """Take a job that is over off the cluster's list; one that is not there is no error."""
        await self._answer("DELETE", f"/api/jobs/{name}", none=True)

    async def logs(self, name: str) -> str:
        """What a job has said so far; empty where it has not begun, or its machine is gone."""
        answer = await self._answer("GET", f"/api/jobs/{name}/logs", none=True)
        return "" if answer is None else str(self._decoded(answer).get("logs") or "")

    async def has_package(self, package: str) -> bool:
        """Whether a package of that name is kept in the cluster."""
        return await self._answer("GET", f"/api/packages/gcs/{package}", none=True) is not None

    async def put_package(self, package: str, content: bytes) -> None:
        """Keep a package in the cluster, where jobs find it as `gcs://NAME`."""
        await self._answer("PUT", f"/api/packages/gcs/{package}", content=content)

    async def _json(self, method: str, path: str, **more: Any) -> dict[str, Any]:
        answer = await self._answer(method, path, **more)
        assert answer is not None
        return self._decoded(answer)

    async def _answer(
        self, method: str, path: str, *, none: bool = False, hides: Iterable[str] = (), **more: Any
    ) -> _Answer | None:
        """One request; `None`: what it asks for is not there, where that may be."""
        try:
            async with asyncio.timeout(WHOLE_S):
                answer = await self._sent(self._client.build_request(method, path, **more), path, hides)
        except httpx2.TimeoutException as error:
            raise RayDown(f"{self._door.address} does not answer within {ANSWER_S:g} s") from error
        except TimeoutError as error:
            raise RayDown(f"{self._door.address} comes to no end of its answer within {WHOLE_S:g} s") from error
        except (httpx2.HTTPError, OSError) as error:
            raise RayDown(f"{self._door.address} cannot be reached: {error or type(error).__name__}") from error
        if answer.status == 404 and none:
            return None
        _check(self._door, answer)
        return answer

    async def _sent(self, request: httpx2.Request, path: str, hides: Iterable[str]) -> _Answer:
        response = await self._client.send(request, stream=True)
        found = bytearray()
        try:
            async for piece in response.aiter_bytes():
                found += piece
                if len(found) > BODY_MAX:
                    raise RayDown(f"{self._door.address} answers {path} with more than {BODY_MAX >> 20} MiB")
        finally:
            await response.aclose()
        location = response.headers.get("location") if response.is_redirect else None
        secrets = [each for each in (self._door.token, *hides) if each]
        return _Answer(
            path=path,
            status=response.status_code,
            body=_hidden(bytes(found), secrets),
            location=None if location is None else _hidden(location.encode(), secrets).decode(),
        )

    def _decoded(self, answer: _Answer) -> dict[str, Any]:
        place = f"{self._door.address}{answer.path}"
        try:
            told = json.loads(answer.body)
        except (ValueError, RecursionError) as error:
            raise RayDown(f"{place} answers with no JSON: {words(answer.text[:80])}") from error
        if not isinstance(told, dict):
            raise RayDown(f"{place} answers with no JSON object: {words(answer.text[:80])}")
        return told


def _secrets(runtime: Mapping[str, Any]) -> list[str]:
    """What is given to a job alone: Ray repeats it where it complains of the request."""
    return [str(each) for each in runtime.get("env_vars", {}).values()]


def _hidden(body: bytes, secrets: Iterable[str]) -> bytes:
    for secret in secrets:
        body = body.replace(secret.encode(), HIDDEN.encode())
    return body


def _check(door: Door, answer: _Answer) -> None:
    if 200 <= answer.status < 300:
        return
    said = words(" ".join(answer.text.split())[-SAID_MAX:])
    if answer.status in (401, 403):
        shown = "no token was shown" if door.token is None else "the token that was shown counts for nothing there"
        raise RayRefused(f"{door.address} refuses: {said or answer.status} ({shown}); {TOKEN_ADVICE}")
    if answer.location is not None:
        where = words(answer.location, SAID_MAX)
        raise RayRefused(
            f"{door.address} sends elsewhere ({answer.status}), to {where}; give the dashboard's own address"
        )
    if answer.status in (400, 404, 405, 422):
        raise RayRefused(f"{door.address} refuses {answer.path}: {answer.status} {said}")
    raise RayDown(f"{door.address} fails at {answer.path}: {answer.status} {said}")


def _machine(row: Mapping[str, Any]) -> Machine:
    return Machine(
        id=str(row["node_id"]),
        ip=str(row["node_ip"]),
        alive=row["state"] == "ALIVE",
        total={str(name): _amount(amount) for name, amount in (row.get("resources_total") or {}).items()},
        labels={str(name): str(value) for name, value in (row.get("labels") or {}).items()},
        says=None if row.get("state_message") is None else words(row["state_message"], SAID_MAX),
        head=bool(row.get("is_head_node")),
    )


def _amount(told: Any) -> float:
    """A finite number. Raises `ValueError` for infinity, NaN and integers beyond a float."""
    try:
        amount = float(told)
    except OverflowError as error:
        raise ValueError("the amount is an integer too large for a float") from error
    if not math.isfinite(amount):
        raise ValueError(f"the amount is not finite: {told}")
    return amount


def _trust(ca: Path | None) -> ssl.SSLContext:
    """Raises `OSError` where there are no certificates."""
    return ssl.create_default_context(cafile=None if ca is None else str(ca))
