"""Training configs: where their loops stand, how they came there, and the way back to an earlier model."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from typing import Annotated, Literal

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from hostler.model.inputs import PauseConfig, ResumeConfig, RollBack, Spawn
from hostler.model.numbers import Some
from hostler.model.record import record
from hostler.model.views import ConfigHistory, ConfigView, DatasetView, JobView, ModelView
from hostler.model.work import CONSTRAINTS_MAX, NAME_MAX, Seconds, WorkKind
from hostler.web.answers import Name, TheDesk, answer, load, owner, read_body, tell
from hostler.web.document import body_of
from hostler.web.fleet import Words
from hostler.web.paging import Paged, Paging, answer_page, cut
from hostler.web.routing import Routes

router = Routes(prefix="/configs", tags=["configs"])
everywhere = Routes(tags=["configs"])
"""What is asked for of all configs."""


@record
class RollBackBody:
    """Which model becomes current again, and why; the body may be left out."""

    model: Annotated[str, Field(pattern=r"^[0-9a-f]{1,64}$")] | None = None
    """Its SHA-256 or the beginning of it; without one, the model that was current before."""
    why: str = "asked for"


@record
class PauseBody:
    """Why nothing new is ordered for a config, who says so, and for how long."""

    why: Words
    who: Words | None = None
    for_s: Seconds | None = None
    """At most 30 days; a day where it is left out."""


@record
class ResumeConfigBody:
    """Who says that a config orders again; the body may be left out."""

    who: Words | None = None


@record
class SpawnBody:
    """Which job is ordered beyond what the loop orders by itself; the body may be left out."""

    stage: Literal["selfplay", "training", "evaluation", "export"] = "selfplay"
    games: Annotated[Some, Field(strict=True)] | None = None
    """Of self-play; as many as the settings say where it is left out."""
    nodes: Annotated[tuple[Words, ...], Field(max_length=CONSTRAINTS_MAX)] = ()
    """Nodes that the job may run on; none named: those that its stage may."""
    why: Words | None = None
    who: Words | None = None
    key: Annotated[str, Field(min_length=1, max_length=NAME_MAX)] | None = None
    """Idempotency key of the job."""


@router.get("", response_model=list[ConfigView])
async def list_configs(request: Request, desk: TheDesk, paging: Paged) -> Response:
    """Training configs, those that are retired too."""
    return answer_page(request, list[ConfigView], *cut(desk.configs(), paging, lambda each: each.name))


@router.get("/{name}", response_model=ConfigView)
async def show_config(desk: TheDesk, name: Name) -> Response:
    """A training config in numbers."""
    return answer(ConfigView, desk.config(name))


@router.get("/{name}/history", response_model=ConfigHistory)
async def tell_history(desk: TheDesk, name: Name) -> Response:
    """How a training config came to where it is: models, datasets, ratings, hours of self-play."""
    return answer(ConfigHistory, desk.history(name))


@router.get("/{name}/models", response_model=list[ModelView])
async def list_models(request: Request, desk: TheDesk, paging: Paged, name: Name) -> Response:
    """Models of a training config, oldest first, with what became of them and why."""
    return _models(request, desk.models(name), paging)


@router.get("/{name}/datasets", response_model=list[DatasetView])
async def list_datasets(request: Request, desk: TheDesk, paging: Paged, name: Name) -> Response:
    """Datasets of a training config, oldest first, with what the quality gate said of their games."""
    return _datasets(request, desk.datasets(name), paging)


@everywhere.get("/models", response_model=list[ModelView])
async def list_all_models(request: Request, desk: TheDesk, paging: Paged) -> Response:
    """Models of one training config after the other, oldest first."""
    return _models(request, desk.models(), paging)


@everywhere.get("/datasets", response_model=list[DatasetView])
async def list_all_datasets(request: Request, desk: TheDesk, paging: Paged) -> Response:
    """Datasets of one training config after the other, oldest first."""
    return _datasets(request, desk.datasets(), paging)


@router.post("/{name}/rollback", response_model=ConfigView, openapi_extra=body_of("RollBackBody", required=False))
async def roll_back(desk: TheDesk, name: Name, request: Request) -> Response:
    """Make an earlier model the current one again; answers with the config as it stands now."""
    given = load(RollBackBody, await read_body(request) or b"{}")
    await tell(request, RollBack(config=name, model=given.model, why=given.why))
    return answer(ConfigView, desk.config(name))


@router.post("/{name}/pause", response_model=ConfigView, openapi_extra=body_of("PauseBody"))
async def pause_config(desk: TheDesk, name: Name, request: Request) -> Response:
    """Order nothing new for a config for a while; what runs runs on. Once more replaces reason and time."""
    given = load(PauseBody, await read_body(request))
    await tell(request, PauseConfig(config=name, why=given.why, who=owner(request, given.who), for_s=given.for_s))
    return answer(ConfigView, desk.config(name))


@router.post("/{name}/resume", response_model=ConfigView, openapi_extra=body_of("ResumeConfigBody", required=False))
async def resume_config(desk: TheDesk, name: Name, request: Request) -> Response:
    """Order for a config again; one that is not paused stays as it is."""
    given = load(ResumeConfigBody, await read_body(request) or b"{}")
    await tell(request, ResumeConfig(config=name, who=owner(request, given.who)))
    return answer(ConfigView, desk.config(name))


@router.post(
    "/{name}/spawn", response_model=JobView, status_code=201, openapi_extra=body_of("SpawnBody", required=False)
)
async def spawn(desk: TheDesk, name: Name, request: Request) -> Response:
    """Order one more job of a config now, beyond what its loop orders by itself; answers with the job."""
    given = load(SpawnBody, await read_body(request) or b"{}")
    stage, why, who = WorkKind(given.stage), given.why, owner(request, given.who)
    wanted = Spawn(config=name, stage=stage, games=given.games, nodes=given.nodes, why=why, who=who, key=given.key)
    job = await tell(request, wanted)
    return answer(JobView, (await desk.having(job)).job().job, HTTPStatus.CREATED)


def _models(request: Request, rows: Sequence[ModelView], paging: Paging) -> Response:
    return answer_page(request, list[ModelView], *cut(rows, paging, lambda each: f"{each.config} {each.number}"))


def _datasets(request: Request, rows: Sequence[DatasetView], paging: Paging) -> Response:
    return answer_page(request, list[DatasetView], *cut(rows, paging, lambda each: f"{each.config} {each.sha256}"))
