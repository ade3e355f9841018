"""The right to lead: a journal with an epoch of one's own, and the core as that journal has it."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass

from hostler import __version__
from hostler.core import Core
from hostler.model.errors import StoreError, StoreFenced
from hostler.policy.leadership import RENEW_S, Tenure
from hostler.runtime.clock import Clock, monotonic
from hostler.runtime.hint import give_hint
from hostler.runtime.snapshots import recovered
from hostler.runtime.statedir import StateDir
from hostler.store import Claim, Journal, Leader, open_journal


@dataclass
class Term:
    """What a controller leads with."""

    journal: Journal
    core: Core
    epoch: int
    tenure: Tenure | None
    """How long it may act on what it has written; `None`: nobody else can come to the journal."""
    inherited: bool
    """Whether the one before had another state directory: what was its own store is not here."""
    lost: bool = False
    """Whether the journal has lost entries: nodes may know of jobs and attempts that were in them."""
    is_over: bool = False
    bridge: Bridge | None = None
    """Shows that we live until there is a writer that does."""

    def settled(self) -> None:
        """There is a writer now. A renewal that is under way is not waited for: the journal takes one at a time."""
        if self.bridge is not None:
            self.bridge.end()


class Bridge:
    """A thread that renews a lead while the controller is still being made: that may take longer than others wait."""

    def __init__(self, journal: Journal, tenure: Tenure) -> None:
        self._journal = journal
        self._tenure = tenure
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="hostler-lead", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Begin no more renewals."""
        self._over.set()

    def close(self) -> None:
        """The same, and wait for one that is under way."""
        self.end()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(RENEW_S):
            asked_at = monotonic()
            try:
                self._journal.renew()
            except StoreFenced:
                return  # the writer says so as soon as there is one
            except StoreError:
                continue  # the writer says so, where it lasts; until then the tenure runs out
            self._tenure.renewed(asked_at)


def begin(directory: StateDir, clock: Clock, on_damage: Callable[[str], None]) -> Term:
    """Lead, whoever leads: whoever did may write no more. Raises `StoreError`, `CorruptState`."""
    journal = open_journal(directory.place)
    try:
        core = recovered(journal, on_damage)
        term = take(directory, clock, journal, core, journal.leader(), certainly=True)
        core.replay(journal.read(after=core.state.seq))
        return term
    except BaseException:
        journal.close()
        raise


def take(
    directory: StateDir, clock: Clock, journal: Journal, core: Core, seen: Leader, *, certainly: bool = False
) -> Term:
    """Take over from the leader that was `seen`, or from any. What it wrote until now the core has to be told still.

    Nobody else writes from here on. Raises `StoreBusy` where that one has shown since that it lives, `StoreError`.
    """
    asked_at = monotonic()
    epoch = journal.begin_epoch(clock.now(), claim(directory), seen=None if certainly else seen)
    others = seen.epoch > 0 and seen.controller not in ("", directory.own_id())
    if not journal.shared:
        return Term(journal, core, epoch, None, others, lost=seen.lost)
    tenure = Tenure(asked_at)
    give_hint(journal)
    return Term(journal, core, epoch, tenure, others, lost=seen.lost, bridge=Bridge(journal, tenure))


def adopt_identity(directory: StateDir) -> None:
    """Go by the identity of a journal that several controllers lead in turn: their agents are the same."""
    if isinstance(directory.place, str):
        journal = open_journal(directory.place)
        try:
            directory.adopt(journal.identity(directory.identity()))
        finally:
            journal.close()


def claim(directory: StateDir) -> Claim:
    """Who we are, for the leader's row."""
    return Claim(version=__version__, controller=directory.own_id(), holder=f"{socket.gethostname()}:{os.getpid()}")


def end(term: Term, *, quietly: bool = False) -> StoreError | None:
    """Let others take over at once, and let go of the database; what went wrong with that does no harm.

    `quietly`: without a write, which the database may not take; others take over once the lease has run out.
    """
    if term.is_over:
        return None
    term.is_over = True
    if term.bridge is not None:
        term.bridge.close()
    try:
        if term.journal.shared and not quietly:
            term.journal.give_up()
    except StoreError as error:
        return error
    finally:
        term.journal.close()
    return None
