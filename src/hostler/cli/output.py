"""What jobs write, and what happens."""

from __future__ import annotations

import codecs
import json
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from hostler.cli.common import JobName, StateDir, client
from hostler.cli.entries import entry_line
from hostler.cli.show import clean_output, terminal_width
from hostler.model.errors import NotFound, UsageError

if TYPE_CHECKING:
    from hostler.client import Client, LogPiece

commands = typer.Typer()

POLL_S = 0.5
SHOWN = 50


@commands.command()
def logs(
    name: JobName,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the attempt has ended.")] = False,
    stream: Annotated[Literal["out", "err"], typer.Option(help="Which output.")] = "out",
    state_dir: StateDir = None,
) -> None:
    """Print what a job has written.

    That is what its newest attempt has, or the attempt named (as j17.2).

    In a pipe the bytes come as they are; on a terminal, control characters other than colours are made visible.

    \b
    Example:
      hostler logs j17 -f
      hostler logs j17.1 --stream err | tail
    """
    asked = client(state_dir)
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    for piece in _pieces(asked, _attempt(asked, name, follow), stream, follow):
        _write(piece.data, decoder)


@commands.command()
def events(
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what happens from now on.")] = False,
    after: Annotated[
        int | None, typer.Option(min=0, help=f"Begin after this entry; by default {SHOWN} before the newest.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document a line.")] = False,
    state_dir: StateDir = None,
) -> None:
    """Print the journal: what happened, entry by entry.

    A broken connection is taken up where it broke, without gap or doublet.

    \b
    Example:
      hostler events -f
      hostler events --after 0 --json > journal.jsonl
    """
    asked = client(state_dir)
    newest = asked.status()["seq"]
    begin = max(0, newest - SHOWN) if after is None else after
    if begin >= newest and not follow:
        return
    for entry in asked.events(begin):
        print(json.dumps(entry) if as_json else entry_line(entry, terminal_width()), flush=follow)
        if entry["seq"] >= newest and not follow:
            return


def _attempt(asked: Client, name: str, wait: bool) -> str:
    """The attempt that a job or an attempt is named by; with `wait`, the first one that there will be."""
    while True:
        try:
            job = asked.job(name)["job"]
        except NotFound:
            # An attempt is named after its job, which then must be there.
            asked.job(name.rpartition(".")[0] or name)
            return name
        if job["work"] == "sweep":
            raise UsageError(f"{job['id']} is a sweep and writes nothing; `hostler ledger show {job['id']}` shows it")
        if job["attempts"]:
            return job["attempt"] or _newest(asked, job["id"])
        if not wait:
            raise NotFound(f"{job['id']} has not been tried yet; `hostler explain {job['id']}` tells why")
        time.sleep(POLL_S)


def _newest(asked: Client, job: str) -> str:
    """The attempt that was put on a device last, as the story tells."""
    return next(
        str(entry["event"]["attempt"])
        for entry in reversed(list(asked.story(job)))
        if entry["event"]["kind"] == "attempt.leased"
    )


def _pieces(asked: Client, attempt: str, stream: str, follow: bool) -> Iterator[LogPiece]:
    offset = 0
    while True:
        piece = asked.log(attempt, stream, offset)
        if piece.offset > offset:
            print(f"({piece.offset - offset} bytes before this were dropped)", file=sys.stderr)
        yield piece
        offset = piece.offset + len(piece.data)
        if piece.data and offset < piece.size:
            continue
        if piece.ended or not follow:
            return
        time.sleep(POLL_S)


def _write(data: bytes, decoder: codecs.IncrementalDecoder) -> None:
    if sys.stdout.isatty():
        sys.stdout.write(clean_output(decoder.decode(data)))
        sys.stdout.flush()
        return
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
