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
from typing import Any

from sqlalchemy import Connection, event, text

from hostler.model.errors import StoreError, StoreFenced, StoreLost
from hostler.model.events import CopiesVerified, Entry, TroubleRecorded
from hostler.store import Batch, Claim, Journal, open_journal
from hostler.store.dialect import engine_of
from hostler.store.postgres import IDLE_MS
from tests import postgres
from tests.patience import PATIENCE_S

STOPS = 25
STANDS_S = 0.1
"""What was sent before the stop is over by then."""
ROW_HELD, ENDED = "the row is held\n", "the transaction was ended\n"
"""What a writer prints that stops itself in the middle of a transaction: before that, and once it goes on."""
FREE = "select count(*) from (select 1 from leader for update skip locked) as free"


def test_it_lets_go_of_its_row(server: postgres.Server) -> None:
    """Wherever the stops hit it: whether it holds its row then is chance."""
    place = server.database()
    open_journal(place).close()
    held = 0
    with writing(place) as writer, each_by_itself(place) as connection:
        for turn in range(STOPS):
            goes_on(writer, connection)
            time.sleep(0.0007 * turn)
            writer.send_signal(signal.SIGSTOP)
            time.sleep(STANDS_S)
            held += lets_go(connection)
            writer.send_signal(signal.SIGCONT)
        goes_on(writer, connection)
    print(f"stopped {STOPS} times, {held} times while it held its row")


def test_a_transaction_that_holds_its_row_is_ended(server: postgres.Server) -> None:
    """The writer stops itself between two statements of an append, of which the first has taken the row."""
    place = server.database()
    open_journal(place).close()
    with writing(place, "stop") as writer, each_by_itself(place) as connection:
        assert writer.stdout is not None
        assert writer.stdout.readline() == ROW_HELD
        until_stopped(writer)
        lets_go(connection)
        writer.send_signal(signal.SIGCONT)
        # It is ended only by PostgreSQL, and only if it stood still for `IDLE_MS`: the row was not free before.
        assert writer.stdout.readline() == ENDED
        assert writer.wait(PATIENCE_S) == 0
        assert newest(connection) is None, "what it had written is gone with its transaction"


def until_stopped(writer: subprocess.Popen[str]) -> None:
    """Wait until a writer has stopped itself."""
    end = time.monotonic() + PATIENCE_S
    while os.waitid(os.P_PID, writer.pid, os.WSTOPPED | os.WNOHANG | os.WNOWAIT) is None:
        assert time.monotonic() < end, "it does not stop"
        time.sleep(0.01)


def goes_on(writer: subprocess.Popen[str], connection: Connection) -> None:
    """Wait until it has written something more than there is now."""
    end, before = time.monotonic() + PATIENCE_S, newest(connection)
    while newest(connection) == before:
        assert writer.poll() is None, "it has ended"
        assert time.monotonic() < end, "it writes no more"
        time.sleep(0.01)


def newest(connection: Connection) -> int | None:
    found: int | None = connection.execute(text("select max(seq) from journal")).scalar_one()
    return found


def lets_go(connection: Connection) -> bool:
    """Whether the row was held; it is free after a while."""
    deadline, held = time.monotonic() + IDLE_MS / 1000 + PATIENCE_S, False
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
def writing(place: str, *how: str) -> Iterator[subprocess.Popen[str]]:
    """A process that leads, and writes as fast as it can; with `stop` it writes once, and stops itself meanwhile."""
    command = [sys.executable, "-m", __name__, place, *how]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ}) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "it leads\n"
            yield process
        finally:
            process.kill()


def led(place: str) -> Journal:
    """A journal whose newest epoch this process has begun."""
    journal = open_journal(place)
    again(lambda: journal.begin_epoch(time.time(), Claim("v")))
    print("it leads", flush=True)
    return journal


def write(place: str) -> None:
    """Appends of all kinds, one after the other; those that lost their connection come again."""
    journal = led(place)
    for seq in count(1):
        again(partial(journal.append, [batch(seq, of_many_statements=seq % 4 == 0)]))
        again(journal.renew)


def batch(seq: int, *, of_many_statements: bool) -> Batch:
    verified, trouble = CopiesVerified(place="here", artifacts=("0" * 64,)), TroubleRecorded(where="", what="")
    return Batch(entries=[Entry(seq=seq, at=1.0, event=verified if of_many_statements else trouble)], jobs=())


def write_and_stop(place: str) -> None:
    """An append that stops this process once it holds the leader's row; say what came of it."""
    journal, stops = led(place), [signal.SIGSTOP]

    def stop(_connection: Connection, _cursor: Any, statement: str, *_: Any) -> None:
        if "update leader" in statement.lower() and stops:
            print(ROW_HELD, end="", flush=True)
            os.kill(os.getpid(), stops.pop())

    event.listen(journal._engine, "after_cursor_execute", stop)
    try:
        journal.append([batch(1, of_many_statements=True)])
    except StoreLost:
        print(ENDED, end="", flush=True)


def again(do: Callable[[], object]) -> None:
    """Until it works: whoever stood still may have lost its connection meanwhile."""
    while True:
        try:
            do()
            return
        except StoreFenced:
            raise
        except StoreError:
            time.sleep(0.05)


if __name__ == "__main__":
    (write_and_stop if sys.argv[2:] else write)(sys.argv[1])
