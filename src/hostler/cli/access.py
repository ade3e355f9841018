"""Who may come in, and who asked for what."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Literal

from hostler.cli.common import Json, StateDir, client
from hostler.cli.declarations import Argument, Option
from hostler.cli.show import Column, clean, duration, maybe, paragraph, say, say_json, table
from hostler.model.errors import UsageError

if TYPE_CHECKING:
    from hostler.client import View


UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_SPAN = re.compile(r"([0-9]{1,9})([smhdw])")

TokenArgument = Annotated[str, Argument(metavar="NAME", help="Whose it is: letters, digits, dots, dashes.")]
TOKEN_COLUMNS = (
    Column("NAME"),
    Column("SCOPE"),
    Column("OWNER", yields=True),
    Column("MADE", right=True),
    Column("LEFT", right=True),
)
AUDIT_COLUMNS = (
    Column("ENTRY", right=True),
    Column("WHEN"),
    Column("WHO", yields=True),
    Column("WHAT", yields=True),
)


def create(
    name: TokenArgument,
    scope: Annotated[
        Literal["read", "operate", "admin"],
        Option(help="read: look; operate: submit, cancel and steer, too; admin: everything."),
    ] = "read",
    expires: Annotated[
        str | None,
        Option(metavar="SPAN", help="How long it is good for, as 12h or 30d; by default until it is revoked."),
    ] = None,
    owner: Annotated[
        str | None,
        Option(metavar="USER", help="Whose jobs are submitted with it; by default yours, as your own token has it."),
    ] = None,
    as_json: Json = False,
    state_dir: StateDir = None,
) -> None:
    """Make a token and print it, this once: nobody can tell it again.

    On another machine it goes into $HOSTLER_TOKEN, with the controller's address in $HOSTLER_URL.

    Example:
      hostler token create prometheus
      hostler token create ci --scope operate --expires 30d
      hostler token create anna-laptop --scope operate --owner anna
    """
    lifetime_s = None if expires is None else _seconds(expires)
    made = client(state_dir).create_token(name, scope, lifetime_s, owner=owner)
    if as_json:
        say_json(made)
        return
    print(made["token"])
    left = made["about"]["expires_at"]
    until = "until it is revoked" if left is None else f"for {expires}"
    print(f"{name} may {scope}, {until}; this is told once", file=sys.stderr)


def list_tokens(as_json: Json = False, state_dir: StateDir = None) -> None:
    """List tokens that were made and not revoked; MADE is how long ago.

    The token of the state directory is none of them: it is called `local`, may do everything, and whoever can read its
    file has it.

    Example:
      hostler token list
    """
    tokens = client(state_dir).tokens()
    if as_json:
        say_json(tokens)
        return
    now = time.time()
    say(table(TOKEN_COLUMNS, [_token_row(each, now) for each in tokens]) if tokens else ["no tokens have been made"])


def revoke(name: TokenArgument, as_json: Json = False, state_dir: StateDir = None) -> None:
    """Let nobody in by a token any more: requests, sessions of browsers and open streams end.

    With --json the tokens that are left are told.

    Example:
      hostler token revoke ci
    """
    left = client(state_dir).revoke_token(name)
    if as_json:
        say_json(left)
        return
    print(f"{clean(name)} is revoked")


def audit(
    limit: Annotated[int, Option(min=1, help="How many.")] = 50,
    who: Annotated[str | None, Option(help="Only of this one: a token's name, `local`, `proxy/NAME`.")] = None,
    as_json: Json = False,
    state_dir: StateDir = None,
) -> None:
    """Tell who asked for what: everything that changed something, newest first.

    ENTRY is its place in the journal; what followed at once stands right before it (`hostler events`).

    Example:
      hostler token audit
      hostler token audit --who ci --json | jq '.[].what'
    """
    told = client(state_dir).audit()
    found = list(islice((each for each in told if who is None or each["who"] == who), limit))
    if as_json:
        say_json(found)
        return
    say(_audit_lines(found))


def _seconds(span: str) -> float:
    match = _SPAN.fullmatch(span.strip())
    if match is None or int(match[1]) == 0:
        raise UsageError(f"--expires {span!r} is no span of time; write a number and s, m, h, d or w, as 30d")
    return float(int(match[1]) * UNITS[match[2]])


def _token_row(each: View, now: float) -> tuple[str, ...]:
    left = "expired" if each["expired"] else "for ever"
    if each["left_s"] is not None and not each["expired"]:
        left = duration(each["left_s"])
    made = duration(max(now - each["created_at"], 0.0))
    return clean(each["name"]), each["scope"], clean(each["owner"] or "-"), made, left


def _audit_lines(found: Sequence[View]) -> Iterator[str]:
    if not found:
        yield from paragraph("nobody has asked for anything yet")
        return
    yield from table(AUDIT_COLUMNS, [_audit_row(each) for each in found])


def _audit_row(each: View) -> tuple[str, ...]:
    at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(each["at"]))
    return str(each["seq"]), at, clean(maybe(each["who"])), clean(each["what"])
