"""What people are told of, and where: the rules of `model.alerts`, and targets whose addresses are secret."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, create_model, model_validator

from hostler.model.alerts import MEASURES, USUAL_ALERTS, AlertRule, Number, Severity
from hostler.model.work import Rest, Seconds
from hostler.policy import alerting
from hostler.settings.section import NodeName, Section

RULE_FIELDS: Mapping[str, str] = {
    "threshold": "From where on it is bad.",
    "over": "From where on it is good again; between the two an alert stays as it is.",
    "for_s": "How long it must be bad, in seconds; time in which it is not known does not count.",
    "window_s": "What it is measured over, in seconds.",
    "unknown_s": "After so many seconds not to know it is an alert itself; by default it never is.",
    "severity": "How soon somebody should look.",
    "target": "What you would like it to be; shown beside it.",
    "enabled": "Whether it is looked at.",
}


class RuleSettings(Section):
    """A rule; each has defaults of its own (`_made`)."""

    usual: ClassVar[AlertRule]
    threshold: Number
    over: Number
    for_s: Rest
    window_s: Seconds | None
    unknown_s: Rest | None
    severity: Severity
    target: Number | None
    enabled: bool

    @model_validator(mode="after")
    def _can_fire(self) -> Self:
        why = alerting.fault(self.rule())
        if why is not None:
            raise ValueError(f"{why}; nobody would ever be told, or for ever")
        return self

    def rule(self) -> AlertRule:
        """The rule that the core goes by."""
        usual = type(self).usual
        values = {name: getattr(self, name) for name in RULE_FIELDS}
        return AlertRule(
            name=usual.name,
            measures=usual.measures,
            comparison=usual.comparison,
            group=usual.group,
            **values,
        )


def _made(usual: AlertRule) -> type[RuleSettings]:
    """The settings of one rule, with its defaults."""
    base = RuleSettings.model_fields
    fields: dict[str, Any] = {
        name: (base[name].rebuild_annotation(), Field(default=getattr(usual, name), description=text))
        for name, text in RULE_FIELDS.items()
    }
    name = "".join(part.capitalize() for part in usual.name.split("_")) + "Rule"
    about = MEASURES[usual.measures]
    text = f"Fires {usual.comparison} its threshold: {about.meaning} ({about.unit})."
    made = create_model(name, __base__=RuleSettings, __doc__=text, **fields)
    made.usual = usual
    return made


RULES: Mapping[str, type[RuleSettings]] = {usual.name: _made(usual) for usual in USUAL_ALERTS}
if TYPE_CHECKING:
    AlertRules = Section
else:
    AlertRules = create_model(
        "AlertRules",
        __base__=Section,
        __doc__="The rules.",
        **{
            name: (made, Field(default=made.model_validate({}), description=made.__doc__))
            for name, made in RULES.items()
        },
    )


class NotifyTarget(Section):
    """Somewhere that alerts are told. Its address is a secret: it stands in a file, or in a variable."""

    name: NodeName
    """What people call it."""
    kind: Literal["webhook", "slack", "ntfy", "apprise"]
    """`webhook`: JSON of `docs/reference/alert.schema.json`; `slack`: an incoming webhook; `ntfy`: the address of a
    topic; `apprise`: any address that apprise understands, `mailto://...` say (extra `notify`)."""
    url_file: Annotated[str, Field(min_length=1)] | None = None
    """File whose first line is the address."""
    url_env: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")] | None = None
    """Environment variable that holds the address."""
    least: Severity = Severity.INFO
    """Nothing less severe is told there."""

    @model_validator(mode="after")
    def _has_one_address(self) -> Self:
        if (self.url_file is None) == (self.url_env is None):
            raise ValueError("give its address as exactly one of url_file and url_env; it is a secret")
        return self


class Alerts(Section):
    """What people are told of, and where."""

    rules: AlertRules = AlertRules()
    """The rules; `hostler alert rules` shows what they measure now."""
    notify: tuple[NotifyTarget, ...] = ()
    """Where alerts are told."""
    group_s: Rest = 10.0
    """Alerts of one group that come within so many seconds come in one message."""
    per_hour: Annotated[int, Field(ge=1, le=3600)] = 60
    """Messages to one target in an hour, at most; ten may come at once."""
    give_up_s: Seconds = 86_400.0
    """A message that was not taken for so long, in seconds, is given up."""

    @model_validator(mode="after")
    def _named_once(self) -> Self:
        counts = Counter(target.name for target in self.notify)
        twice = sorted(name for name, count in counts.items() if count > 1)
        if twice:
            raise ValueError(f"two targets are called {twice[0]!r}; give each a name of its own")
        return self
