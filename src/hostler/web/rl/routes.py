"""What a job that learns by reinforcement told of itself."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Path
from starlette.requests import Request
from starlette.responses import Response

from hostler.model.rl_views import RlDetail, RlPointView
from hostler.web.answers import Name, answer
from hostler.web.rl.trainings import Trainings
from hostler.web.routing import Routes
from hostler.workloads.gameboy.shown import ENVS_MAX

router = Routes(prefix="/rl", tags=["rl"])

PNG: dict[int | str, dict[str, Any]] = {200: {"content": {"image/png": {}}, "description": "The picture"}}


async def _trainings(request: Request) -> Trainings:
    found: Trainings = request.app.state.trainings
    return found


TheTrainings = Annotated[Trainings, Depends(_trainings)]


@router.get("/{name}", response_model=RlDetail)
async def show_rl(trainings: TheTrainings, name: Name) -> Response:
    """What a job with `work_as: rl` told in its output: its rate, rewards, places and troubles.

    Read from the end of the standard output of its last attempt, where lines are skipped that are not what they should
    be. What was not told is `null`. Where the output cannot be read, `fault` says why.
    """
    return answer(RlDetail, await trainings.detail(name))


@router.get("/{name}/curve", response_model=list[RlPointView])
async def show_curve(trainings: TheTrainings, name: Name) -> Response:
    """How it went: a point for each of its lines, or for one of several, some hundreds in all, the oldest first."""
    return answer(list[RlPointView], await trainings.curve(name))


@router.get("/{name}/pictures/{env}", response_class=Response, responses=PNG)
async def show_picture(trainings: TheTrainings, name: Name, env: Annotated[int, Path(ge=0, lt=ENVS_MAX)]) -> Response:
    """The last picture of an environment, a PNG whose signature, size and sums were checked."""
    found = await trainings.picture(name, env)
    return Response(found.png, media_type="image/png")
