"""What people should know: alerts, the rules they come from, silences, and where they are told."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Literal

from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

from hostler.model import codec
from hostler.model.access import LOCAL
from hostler.model.alert_views import AlertView, ProbeView, RuleView, SilenceView, TargetView
from hostler.model.alerts import SEVERITIES
from hostler.model.errors import NotFound
from hostler.model.inputs import AcknowledgeAlert, ProbeAlert, SilenceAlerts, UnsilenceAlerts
from hostler.model.record import record
from hostler.model.work import Seconds
from hostler.web.answers import Name, TheDesk, answer, load, owner, read_body, tell
from hostler.web.desk import Desk
from hostler.web.document import body_of
from hostler.web.paging import Paged, answer_page, cut
from hostler.web.routing import Routes

router = Routes(prefix="/alerts", tags=["alerts"])


@record
class AcknowledgeBody:
    """Who looks after an alert; without a name, whose token it is. The body may be left out."""

    who: str | None = None
    note: str | None = None


@record
class SilenceBody:
    """Which alerts are not told, for how long, by whose wish and why."""

    rule: str
    """The name of a rule; `*`: all of them."""
    subject: str | None = None
    """A subject or a pattern (`rig-*`); `null`: all."""
    for_s: Seconds
    why: str
    who: str | None = None
    """Without it, whose token it is."""


@record
class ProbeBody:
    """For how long the made-up measurement lasts; the body may be left out."""

    lasts_s: Seconds = 60.0


@router.get("", response_model=list[AlertView])
async def list_alerts(
    request: Request,
    desk: TheDesk,
    paging: Paged,
    state: Annotated[
        list[Literal["pending", "firing", "over"]] | None, Query(description="repeat for several; none takes all")
    ] = None,
    rule: Annotated[str | None, Query(description="only those of this rule")] = None,
) -> Response:
    """What fires, the newest first; then what may come to fire; then what is over, the one that ended last first."""
    found = [
        each for each in desk.alerts() if (not state or each.state in state) and (rule is None or each.rule == rule)
    ]
    return answer_page(request, list[AlertView], *cut(found, paging, lambda each: each.id or each.rule + each.subject))


@router.get("/rules", response_model=list[RuleView])
async def list_rules(request: Request, desk: TheDesk, paging: Paged) -> Response:
    """The rules, where their numbers come from, and what they measure now."""
    return answer_page(request, list[RuleView], *cut(desk.alert_rules(), paging, lambda each: each.rule.name))


@router.post(
    "/rules/{name}/test",
    response_model=ProbeView,
    status_code=201,
    openapi_extra=body_of("ProbeBody", required=False),
)
async def try_rule(desk: TheDesk, name: Name, request: Request) -> Response:
    """Let a rule measure something that crosses its threshold, marked as a test: it is told like any other alert."""
    given = load(ProbeBody, await read_body(request) or b"{}")
    made = await tell(request, ProbeAlert(rule=name, lasts_s=given.lasts_s))
    alert = _alert(desk, made)
    rule = next((each for each in desk.alert_rules() if each.rule.name == name), None)
    if rule is None:
        raise NotFound(f"there is no rule {name!r} any more; `hostler alert rules` lists them")
    heard = () if alert.silence is not None else tuple(each.name for each in desk.targets() if _hears(each, alert))
    return answer(ProbeView, ProbeView(alert=alert, rule=rule, told=heard), HTTPStatus.CREATED)


@router.get("/silences", response_model=list[SilenceView])
async def list_silences(request: Request, desk: TheDesk, paging: Paged) -> Response:
    """Alerts that are not told for a while."""
    return answer_page(request, list[SilenceView], *cut(desk.silences(), paging, lambda each: each.id))


@router.post("/silences", response_model=SilenceView, status_code=201, openapi_extra=body_of("SilenceBody"))
async def silence(desk: TheDesk, request: Request) -> Response:
    """Do not tell of some alerts for a while. They fire and are listed all the same, and are told when it is over."""
    given = load(SilenceBody, await read_body(request))
    who = owner(request, given.who) or LOCAL
    wish = SilenceAlerts(rule=given.rule, subject=given.subject, for_s=given.for_s, why=given.why, who=who)
    name = await tell(request, wish)
    return answer(SilenceView, _silence(desk, name), HTTPStatus.CREATED)


@router.delete("/silences/{name}", response_model=SilenceView)
async def unsilence(
    desk: TheDesk,
    name: Name,
    request: Request,
    who: Annotated[str | None, Query(min_length=1, max_length=256, description="without it, whose token it is")] = None,
) -> Response:
    """End a silence before its time; answers with it as it was."""
    before = next((each for each in desk.silences() if each.id == name), None)
    ended = await tell(request, UnsilenceAlerts(silence=name, who=owner(request, who) or LOCAL))
    # Where it was asked for before there is none any more, and the journal has it.
    return answer(SilenceView, before or codec.adapter(SilenceView).validate_python(ended))


@router.get("/targets", response_model=list[TargetView])
async def list_targets(request: Request, desk: TheDesk, paging: Paged) -> Response:
    """Where alerts are told, and how that goes."""
    return answer_page(request, list[TargetView], *cut(desk.targets(), paging, lambda each: each.name))


@router.post("/{name}/acknowledge", response_model=AlertView, openapi_extra=body_of("AcknowledgeBody", required=False))
async def acknowledge(desk: TheDesk, name: Name, request: Request) -> Response:
    """Say that somebody looks after an alert; answers with it as it stands now."""
    given = load(AcknowledgeBody, await read_body(request) or b"{}")
    await tell(request, AcknowledgeAlert(alert=name, who=owner(request, given.who) or LOCAL, note=given.note))
    return answer(AlertView, _alert(desk, name))


def _alert(desk: Desk, name: str) -> AlertView:
    found = next((each for each in desk.alerts() if each.id == name), None)
    if found is None:
        raise NotFound(f"there is no alert {name!r}, or it was over so long ago that it is not kept any more")
    return found


def _silence(desk: Desk, name: str) -> SilenceView:
    found = next((each for each in desk.silences() if each.id == name), None)
    if found is None:
        raise NotFound(f"there is no silence {name!r}, or it is over; `hostler alert silences` lists them")
    return found


def _hears(target: TargetView, alert: AlertView) -> bool:
    return SEVERITIES.index(alert.severity) >= SEVERITIES.index(target.least)
