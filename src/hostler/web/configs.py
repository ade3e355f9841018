"""Training configs: where their loops stand, how they came there, and the way back to an earlier model."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from hostler.model.inputs import RollBack
from hostler.model.record import record
from hostler.model.views import ConfigHistory, ConfigView, ModelView
from hostler.web.answers import Name, TheDesk, answer, load, read_body, tell
from hostler.web.document import body_of

router = APIRouter(prefix="/configs", tags=["configs"])


@record
class RollBackBody:
    """Which model becomes current again, and why; the body may be left out."""

    model: Annotated[str, Field(pattern=r"^[0-9a-f]{1,64}$")] | None = None
    """Its SHA-256 or the beginning of it; without one, the model that was current before."""
    why: str = "asked for"


@router.get("", response_model=list[ConfigView])
async def list_configs(desk: TheDesk) -> Response:
    """All training configs, those that are retired too."""
    return answer(list[ConfigView], desk.configs())


@router.get("/{name}", response_model=ConfigView)
async def show_config(desk: TheDesk, name: Name) -> Response:
    """A training config in numbers."""
    return answer(ConfigView, desk.config(name))


@router.get("/{name}/history", response_model=ConfigHistory)
async def tell_history(desk: TheDesk, name: Name) -> Response:
    """How a training config came to where it is: models, datasets, ratings, hours of self-play."""
    return answer(ConfigHistory, desk.history(name))


@router.get("/{name}/models", response_model=list[ModelView])
async def list_models(desk: TheDesk, name: Name) -> Response:
    """All models of a training config, oldest first, with what became of them and why."""
    return answer(list[ModelView], desk.models(name))


@router.post("/{name}/rollback", response_model=ConfigView, openapi_extra=body_of("RollBackBody", required=False))
async def roll_back(desk: TheDesk, name: Name, request: Request) -> Response:
    """Make an earlier model the current one again; answers with the config as it stands now."""
    given = load(RollBackBody, await read_body(request) or b"{}")
    await tell(desk, RollBack(config=name, model=given.model, why=given.why))
    return answer(ConfigView, desk.config(name))
