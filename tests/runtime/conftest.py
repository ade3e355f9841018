from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from hostler.backends.base import Backend
from hostler.model.inputs import Submit
from hostler.model.work import JobSpec, JobState, ScriptPayload
from hostler.runtime.clock import SteadyClock
from hostler.runtime.controller import Controller
from hostler.runtime.statedir import StateDir
from hostler.runtime.term import adopt_identity
from tests import postgres
from tests.journals import new_journal
from tests.patience import PATIENCE_S


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def directory(tmp_path: Path) -> StateDir:
    made = StateDir(tmp_path / "state")
    made.take()
    new_journal(made.path)
    return made


@pytest.fixture(scope="module")
def server() -> Iterator[postgres.Server]:
    if why := postgres.missing():
        pytest.skip(why)
    with postgres.running() as made:
        yield made


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.services)])
def anywhere(request: pytest.FixtureRequest, directory: StateDir) -> StateDir:
    """A state directory whose journal is in either database."""
    if request.param == "postgresql":
        directory.set_store(request.getfixturevalue("server").database())
        adopt_identity(directory)
    return directory


@asynccontextmanager
async def running(directory: StateDir, *backends: Backend, snapshot_every: int = 10**9) -> AsyncIterator[Controller]:
    """A controller at work on some backends."""
    by_name = {backend.name: backend for backend in backends}  # type: ignore[attr-defined]
    async with Controller(directory, "test", by_name, SteadyClock(), snapshot_every) as controller:
        yield controller


def script(name: str, *argv: str, **values: object) -> JobSpec:
    return JobSpec(name=name, key=name, payload=ScriptPayload(schema=1, argv=argv or ("true",)), **values)  # type: ignore[arg-type]


async def submit(controller: Controller, *specs: JobSpec) -> tuple[str, ...]:
    (answer,) = await controller.tell(Submit(specs=specs))
    if isinstance(answer, Exception):
        raise answer
    names: tuple[str, ...] = answer
    return names


async def until(condition: Callable[[], bool], what: str = "") -> None:
    """Wait until a condition holds; the bound is only there to end a test that has failed."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0)
            await asyncio.sleep(0.002)


async def until_state(controller: Controller, name: str, state: JobState) -> None:
    await until(lambda: controller.job(name).job.state is state)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What needs a PostgreSQL belongs to `make test-services`."""
    postgres.mark_services(items, Path(__file__).parent, {"server"})
