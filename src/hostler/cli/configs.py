"""Settings of a fleet file: each value, and where it comes from."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from hostler.cli.common import Json
from hostler.cli.declarations import Argument
from hostler.cli.show import UNKNOWN, Column, compact, say, say_json, table

if TYPE_CHECKING:
    from hostler.settings import Setting

COLUMNS = (Column("SETTING"), Column("VALUE", yields=True), Column("FROM", yields=True))


def show(
    fleet_file: Annotated[
        Path | None, Argument(metavar="FILE", help="A fleet file (YAML); without one, what `hostler up` alone uses.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show each setting of a fleet file, and where its value comes from: the file, the environment, or the default.

    --json has the meaning of each setting, too. `hostler check` shows what is wrong.

    Example:
      hostler config show fleet.yaml
    """
    from hostler.settings import describe, load

    settings = describe(load(fleet_file, os.environ))
    if as_json:
        say_json(settings_json(settings))
    else:
        say(settings_lines(settings))


def settings_json(settings: Sequence[Setting]) -> list[dict[str, Any]]:
    """Settings for programs."""
    return [{**_plain(each), "doc": each.doc} for each in settings]


def settings_lines(settings: Sequence[Setting]) -> Iterator[str]:
    """Settings for people, as a table."""
    plain = [_plain(each) for each in settings]
    yield from table(COLUMNS, [(each["path"], compact(each["value"]), each["origin"] or UNKNOWN) for each in plain])


def _plain(setting: Setting) -> dict[str, Any]:
    from hostler.model.codec import plain

    return {"path": setting.path, "value": plain(setting.value), "origin": setting.origin}
