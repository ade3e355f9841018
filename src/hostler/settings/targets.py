"""The `alerts` section of a fleet file: rules for the core, and targets with their secret addresses for the runtime."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from hostler.model.alerts import AlertRule, Severity
from hostler.model.errors import SettingsError
from hostler.settings.alerts import RULE_FIELDS, RULES, NotifyTarget
from hostler.settings.loading import Loaded

WEB = frozenset({"webhook", "slack", "ntfy"})


@dataclass(frozen=True, slots=True)
class Target:
    """Somewhere that alerts are told. `url` is secret: it appears in no text, log, journal or answer."""

    name: str
    kind: Literal["webhook", "slack", "ntfy", "apprise"]
    url: str = field(repr=False)
    least: Severity


@dataclass(frozen=True, slots=True)
class Telling:
    """Where alerts are told, and how patiently."""

    targets: tuple[Target, ...] = ()
    group_s: float = 10.0
    per_hour: int = 60
    give_up_s: float = 86_400.0


def alert_rules(loaded: Loaded) -> tuple[AlertRule, ...]:
    """The rules, those that are turned off as well."""
    return tuple(getattr(loaded.fleet.alerts.rules, name).rule() for name in RULES)


def alert_origins(loaded: Loaded) -> Mapping[str, Mapping[str, str]]:
    """By rule and field: where its value was set."""
    return {name: {part: loaded.origin(("alerts", "rules", name, part)) for part in RULE_FIELDS} for name in RULES}


def telling(loaded: Loaded, environ: Mapping[str, str]) -> Telling:
    """Where alerts are told. Raises `SettingsError` where an address cannot be read, or is none."""
    asked = loaded.fleet.alerts
    targets = tuple(_target(loaded, index, each, environ) for index, each in enumerate(asked.notify))
    return Telling(targets=targets, group_s=asked.group_s, per_hour=asked.per_hour, give_up_s=asked.give_up_s)


def _target(loaded: Loaded, index: int, asked: NotifyTarget, environ: Mapping[str, str]) -> Target:
    place = f"{loaded.tree.at(('alerts', 'notify', index))}: target {asked.name!r}"
    if asked.url_env is not None:
        url = environ.get(asked.url_env, "").strip()
        source = f"the variable {asked.url_env}"
    else:
        assert asked.url_file is not None
        path = loaded.base_dir / os.path.expanduser(asked.url_file)
        url, source = _first_line(path, place), str(path)
    fault = _fault(asked.kind, url)
    if fault is not None:
        raise SettingsError(f"{place}: {source} {fault}")
    return Target(name=asked.name, kind=asked.kind, url=url, least=asked.least)


def _first_line(path: Path, place: str) -> str:
    try:
        return path.read_text(encoding="utf-8").partition("\n")[0].strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise SettingsError(f"{place}: {path} cannot be read: {why}; put the address into its first line") from error


def _fault(kind: str, url: str) -> str | None:
    """What is wrong with an address, without a word of it."""
    if not url:
        return "holds no address"
    try:
        parts = urlsplit(url)
        fits = bool(parts.scheme) and (kind not in WEB or (parts.scheme in ("http", "https") and bool(parts.hostname)))
    except ValueError:
        fits = False
    wanted = "begins with http:// or https://" if kind in WEB else "is one that apprise understands"
    return None if fits else f"holds something that is no address; give one that {wanted}"
