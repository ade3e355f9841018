"""A leader that stands still at any moment of its writing holds its row for no longer than a transaction may rest.

In libpq's pipeline, for one, a server that waits for more is not idle, and none of its time-outs counts: whoever was
stopped in there kept everybody else from leading for as long as it was stopped.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count

from sqlalchemy import Connection, text

from hostler.model.errors import StoreError, StoreFenced
from hostler.model.events import CopiesVerified, Entry, TroubleRecorded
from hostler.store import Batch, Claim, open_journal
from hostler.store.dialect import engine_of
from hostler.store.postgres import IDLE_MS
from tests import postgres

STOPS = 25
STANDS_S = 0.1
"""What was sent before the stop is over by then."""
FREE = "select count(*) from (select 1 from leader for update skip locked) as free"


def test_it_lets_go_of_its_row(server: postgres.Server) -> None:
    place = server.database()
    open_journal(place).close()
    held, ended = 0, [0]
    with writing(place) as writer, each_by_itself(place) as connection:
        for turn in range(STOPS):
            time.sleep(0.02 + 0.0007 * turn)
            writer.send_signal(signal.SIGSTOP)
            time.sleep(STANDS_S)
            held += lets_go(connection)
            ended.append(connection.execute(text("select max(seq) from journal")).scalar_one())
            writer.send_signal(signal.SIGCONT)
            assert writer.poll() is None, "it has ended"
    print(f"stopped {STOPS} times, {held} times while it held its row")
    assert ended[STOPS // 2] < ended[-1] > STOPS, "it writes no more"


def lets_go(connection: Connection) -> bool:
    """Whether the row was held; it is free after a while."""
    deadline, held = time.monotonic() + IDLE_MS / 1000 + 5.0, False
    while not connection.execute(text(FREE)).scalar_one():
        held = True
        assert time.monotonic() < deadline, "a leader that stands still holds its row"
        time.sleep(0.1)
    return held


@contextmanager
def each_by_itself(place: str) -> Iterator[Connection]:
    """A connection of which each statement is a transaction."""
    engine = engine_of(place)
    try:
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            yield connection
    finally:
        engine.dispose()


@contextmanager
def writing(place: str) -> Iterator[subprocess.Popen[str]]:
    """A process that leads, and writes as fast as it can."""
    command = [sys.executable, "-m", __name__, place]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ}) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "it leads\n"
            yield process
        finally:
            process.kill()


def write(place: str) -> None:
    """Appends of all kinds, one after the other; those that lost their connection come again."""
    journal = open_journal(place)
    journal.begin_epoch(time.time(), Claim("v"))
    print("it leads", flush=True)
    for seq in count(1):
        event = (
            CopiesVerified(place="here", artifacts=("0" * 64,)) if seq % 4 == 0 else TroubleRecorded(where="", what="")
        )
        again(partial(journal.append, [Batch(entries=[Entry(seq=seq, at=1.0, event=event)], jobs=())]))
        again(journal.renew)


def again(do: Callable[[], None]) -> None:
    """Until it works: whoever stood still may have lost its connection meanwhile."""
    while True:
        try:
            return do()
        except StoreFenced:
            raise
        except StoreError:
            time.sleep(0.05)


if __name__ == "__main__":
    write(sys.argv[1])
