"""`hostler up`: one controller in the foreground, from its settings to its exit status."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TextIO, cast

import structlog
from fastapi import FastAPI

from hostler import __version__
from hostler.backends.base import Backend
from hostler.backends.local import LocalNode
from hostler.model.errors import SettingsError, StoreFenced, StoreLost
from hostler.model.inputs import Configure, Declare, Submit, Tick
from hostler.model.units import duration, printable
from hostler.runtime import door
from hostler.runtime.clock import Clock, SteadyClock
from hostler.runtime.controller import Controller
from hostler.runtime.dialin import answering, switchboard
from hostler.runtime.introduction import Introduction, open_attempts
from hostler.runtime.logfile import LogFile
from hostler.runtime.loops import every
from hostler.runtime.nodes import reaching
from hostler.runtime.places import Places, located
from hostler.runtime.pump import refused
from hostler.runtime.report import Reporter
from hostler.runtime.standby import Standby
from hostler.runtime.statedir import StateDir
from hostler.runtime.term import Term, adopt_identity, end
from hostler.runtime.welcome import BELOW, LINES_MAX, where_lines
from hostler.settings import (
    Loaded,
    Telling,
    alert_origins,
    config_specs,
    load,
    replication_rules,
    rules,
    specs,
    store_specs,
    telling,
)
from hostler.snapshots.reserve import GB, RESERVE
from hostler.store import Leader
from hostler.web.app import make_app, make_ready
from hostler.web.door import Door
from hostler.web.server import Served, serve

EXIT_DONE, EXIT_UNDONE = 0, 1
SUMMED_UP = 100_000
NOTICE_S = 1.0
CLOCK_NOTED_S = 60.0
TURN_S = 30.0
UNWRITTEN_S = 2.5
"""How long a controller that is told to end waits for its journal to take what it holds,"""
LOOK_S = 0.2
LAST_S = 2.0
"""and how long it may take to leave after that: what hangs in a call of the database is left to the system."""
READY_AFTER_S = 20.0
"""What visitors would wait for is made that long after the start, a second's work: a controller has more urgent things
to do at first, and many a one is gone by then. Whoever comes before waits for what they look at."""


def run(
    fleet_file: Path | None,
    *,
    state_dir: Path | None = None,
    host: str | None = None,
    port: int | None = None,
    until_idle: bool = False,
    out: TextIO | None = None,
) -> int:
    """Run a controller until it is told to stop or, with `until_idle`, until nothing is left to do.

    Returns 0 if everything that was asked for is done (without `until_idle`: if it was stopped in good order), 1
    otherwise. Raises `SettingsError`, `StoreError` and other `HostlerError`s before anything runs.
    """
    loaded = load(fleet_file, os.environ, _overrides(state_dir, host, port))
    _refuse_virtual(loaded)
    door.tls(loaded)  # what is wrong with it is told before anything runs
    asked = Submit(specs=specs(loaded)), Declare(configs=config_specs(loaded, until_idle=until_idle))
    told = telling(loaded, os.environ)
    _withhold(loaded)
    directory = StateDir(loaded.state_dir)
    directory.take()
    try:
        directory.note_starting()
        directory.note_store(loaded.fleet.store)
        return asyncio.run(_run(loaded, directory, *asked, told, until_idle, out or sys.stdout))
    finally:
        directory.release()


def _refuse_virtual(loaded: Loaded) -> None:
    """Raise `SettingsError` at the first node that nobody can start anything on."""
    for index, node in enumerate(loaded.fleet.nodes):
        if node.backend == "virtual":
            place = loaded.tree.at(("nodes", index, "backend"))
            raise SettingsError(
                f"{place}: node {node.name!r} is virtual, which `hostler plan` and `hostler sim` take into account but "
                "nothing can be started on; take it out, or write how it is reached (`backend: local`, `ssh`, `dialin`)"
            )


def _withhold(loaded: Loaded) -> None:
    """Keep what is secret of our environment from what we start: jobs inherit that, and may print it."""
    for target in loaded.fleet.alerts.notify:
        if target.url_env is not None:
            os.environ.pop(target.url_env, None)


def _overrides(state_dir: Path | None, host: str | None, port: int | None) -> Mapping[str, Any]:
    given = {"state_dir": None if state_dir is None else str(state_dir), "api.host": host, "api.port": port}
    return {name: value for name, value in given.items() if value is not None}


async def _run(
    loaded: Loaded, directory: StateDir, asked: Submit, loops: Declare, told: Telling, until_idle: bool, out: TextIO
) -> int:
    clock = SteadyClock()
    with LogFile(directory.log_file) as log:
        _log_to(log)
        aside = directory.set_aside_strangers()
        if aside is not None:
            print(f"hostler: there were agents, but no journal; what they left is in {aside}", file=out)
        directory.note_fleet(loaded.path)
        adopt_identity(directory)
        shared = isinstance(directory.place, str)
        turn = partial(_turn, loaded, directory, clock, out)
        term = await turn() if shared else None
        while True:
            if shared and term is None:
                return EXIT_DONE
            try:
                return await _lead(loaded, directory, (asked, loops), told, until_idle, out, clock, term)
            except (StoreFenced, BaseExceptionGroup) as error:
                overtaken = _overtaken(error)
                if overtaken is None:
                    raise
                structlog.get_logger().warning("overtaken", by=str(overtaken), with_all=repr(error))
                print(f"hostler: {overtaken}", file=out, flush=True)
            finally:
                gc.unfreeze()  # what was set aside for one that led would never be let go
                if term is not None:
                    await asyncio.to_thread(end, term)
            term = await _once_back(turn, clock, out)


async def _once_back(turn: Callable[[], Awaitable[Term | None]], clock: Clock, out: TextIO) -> Term | None:
    """Another turn of one that was overtaken: a database that is away is waited for, as it is by those who stand by."""
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().remove_signal_handler(number)  # they were for the controller that led
    told = False
    while True:
        try:
            return await turn()
        except StoreLost as error:
            if not told:
                print(f"hostler: {error}", file=out, flush=True)
            told = True
        await clock.sleep(NOTICE_S)


async def _turn(loaded: Loaded, directory: StateDir, clock: Clock, out: TextIO) -> Term | None:
    """Stand by until it is our turn to lead, at once where nobody does; `None`: told to end before that."""
    async with Standby(
        directory,
        loaded.fleet.name,
        clock,
        places=_places(loaded, directory, {}),
        copies=replication_rules(loaded),
        alert_origins=alert_origins(loaded),
    ) as standby:
        term = await standby.look()
        if term is not None:
            return term
        local = _local(loaded)
        if local is not None:
            term = await standby.turn(unless_led=True)
            if term is None:
                raise _refusal_of_local(loaded, local, standby.leader)
            return term
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, standby.drain)
        async with _listening(loaded, directory, standby, clock, None, door.door(loaded, directory, clock)) as served:
            where = door.url(loaded, served.port)
            print(f"hostler: standing by for {standby.leader.shown}; API (read-only) {where}", file=out, flush=True)
            term = await standby.turn()
            if term is not None:  # it sets others once it serves; until then it ends as any program does
                for number in (signal.SIGTERM, signal.SIGINT):
                    loop.remove_signal_handler(number)
            return term


def _refusal_of_local(loaded: Loaded, index: int, leader: Leader) -> SettingsError:
    """What is said of a node that would be another machine as soon as another controller leads."""
    place, name = loaded.tree.at(("nodes", index, "backend")), loaded.fleet.nodes[index].name
    return SettingsError(
        f"{place}: {leader.shown} leads, and node {name!r} is local, so it would be another machine once this "
        "controller leads; let all controllers reach it by `backend: ssh`, or give this one a `store` of its own"
    )


def _local(loaded: Loaded) -> int | None:
    """Which node is this machine itself, if one is."""
    return next((at for at, node in enumerate(loaded.fleet.nodes) if node.backend == LocalNode.kind), None)


def _overtaken(error: BaseException) -> StoreFenced | None:
    """What says that another controller leads by now, if anything of this does."""
    if isinstance(error, StoreFenced):
        return error
    if not isinstance(error, BaseExceptionGroup):
        return None
    return next(filter(None, map(_overtaken, error.exceptions)), None)


async def _lead(
    loaded: Loaded,
    directory: StateDir,
    asked: tuple[Submit, Declare],
    told: Telling,
    until_idle: bool,
    out: TextIO,
    clock: SteadyClock,
    term: Term | None,
) -> int:
    RESERVE.bytes = int(loaded.fleet.limits.reserve_gb * GB)
    calls = switchboard(loaded, directory)
    entry = door.door(loaded, directory, clock)
    async with (
        reaching(loaded, directory, calls, clock) as reached,
        Controller(
            directory,
            loaded.fleet.name,
            reached.nodes,
            clock,
            loaded.fleet.journal.snapshot_every,
            reached.retired,
            telling=told,
            alert_origins=alert_origins(loaded),
            places=_places(loaded, directory, reached.nodes),
            copies=replication_rules(loaded),
            keeping=loaded.fleet.retention.keeping(),
            compact=loaded.fleet.journal.compacting(),
            keep_usage_s=loaded.fleet.journal.keep_usage_s,
            log_bytes=loaded.fleet.limits.log_bytes,
            shared_jobs=door.shared_jobs(loaded),
            term=term,
        ) as controller,
        answering(loaded, directory, calls, controller.record) as called,
        _listening(loaded, directory, controller, clock, called, entry) as served,
    ):
        _keep_time(clock, controller, directory)
        code = None if entry.codes is None else entry.codes.issue()
        held = open_attempts(controller)
        await controller.answer_at(door.public_url(loaded, served.port))
        _set_memory_aside()
        patient = term is not None  # a database comes back, and nobody else may be there to lead meanwhile
        await _tell(controller, Configure(rules=rules(loaded)), patient=patient)
        before = controller.newest_job
        names = await _submit(controller, asked[0], patient=patient)
        loops = await asyncio.to_thread(controller.secrets().protect_loops, asked[1].configs)
        await _tell(controller, replace(asked[1], configs=loops), patient=patient)
        first = where_lines(
            __version__, loaded.fleet.name, loaded.path, door.url(loaded, served.port), code, directory.path / "token"
        )
        show = Reporter(controller, out, clock, loaded.fleet.name, first)
        introduction = Introduction(controller, show, held, LINES_MAX - BELOW - len(first))
        await _serve_until_over(controller, show, introduction, until_idle)
        if controller.hurried:
            return EXIT_UNDONE
        if until_idle:
            await show.summary(names or [job.id for job in controller.jobs(None, 0, SUMMED_UP)])
        return await _exit_status(controller, names, before if names else 0, until_idle)


def _keep_time(clock: SteadyClock, controller: Controller, directory: StateDir) -> None:
    """Let time go on from the newest entry where the clock of this machine is behind it."""
    try:
        ahead_s = clock.reach(controller.newest_at, directory.clock_file)
    except OSError as error:
        controller.record("clock", f"{directory.clock_file} cannot be written: {error.strerror}")
        return
    if ahead_s > CLOCK_NOTED_S:
        controller.record(
            "clock",
            f"the newest entry of the journal is {duration(ahead_s)} ahead of this machine's clock: one of them was "
            "wrong. Times are shown as the journal has them; what lasts for a while lasts as long as it should",
        )


def _places(loaded: Loaded, directory: StateDir, nodes: Mapping[str, Backend]) -> Places:
    asked = loaded.fleet.replication
    own = directory.artifacts
    fleet = loaded.fleet.name
    return located(store_specs(loaded), own, asked.domain, fleet=fleet, nodes=nodes, away_s=asked.away_s)


def _set_memory_aside() -> None:
    """Let no search for garbage walk through what is there now: the program itself, and the state as it was recovered.

    Such a search stops everything, and takes the longer the more there is; it begins when many things are made anew, as
    when many people come at once.
    """
    gc.collect()
    gc.freeze()


@asynccontextmanager
async def _listening(
    loaded: Loaded, directory: StateDir, controller: Controller | Standby, clock: Clock, called: str | None, entry: Door
) -> AsyncIterator[Served]:
    """Answer HTTP, and say where in the state directory; there, too, where nodes call."""
    door.refuse_without_tokens(loaded, controller.tokens())
    asked = loaded.fleet.api
    app = make_app(controller, entry, trails=controller.trails)
    served = await serve(app, asked.host, asked.port, door.tls(loaded), door.admission(loaded))
    about = {"url": door.url(loaded, served.port), "certificate": None, "pid": os.getpid(), "started_at": clock.now()}
    if (certificate := door.certificate(loaded)) is not None:
        about["certificate"] = str(certificate)
    directory.announce({**about, "dialin": called})
    readying = asyncio.create_task(_make_ready(app, clock))
    try:
        yield served
    finally:
        directory.withdraw()
        readying.cancel()
        await asyncio.wait({readying})
        await served.close()
        if not readying.cancelled():
            readying.result()


async def _make_ready(app: FastAPI, clock: Clock) -> None:
    await clock.sleep(READY_AFTER_S)
    await asyncio.to_thread(make_ready, app)


async def _submit(controller: Controller, asked: Submit, *, patient: bool) -> tuple[str, ...]:
    """Submit what the fleet file asks for; what was submitted before, under the same keys, stays as it is."""
    if not asked.specs:
        return ()
    # A secret that is missing is no fault yet: it can be set as soon as the controller runs.
    kept = await asyncio.to_thread(partial(controller.secrets().protect, asked.specs, named_later=True))
    answers = await controller.tell(replace(asked, specs=kept), patient=patient)
    refusal = refused(answers)
    if refusal is not None:
        raise refusal
    names: tuple[str, ...] = answers[0]
    return names


async def _tell(controller: Controller, said: Configure | Declare, *, patient: bool) -> None:
    """Bring the rules, or the training configs, to what the fleet file says."""
    refusal = refused(await controller.tell(said, patient=patient))
    if refusal is not None:
        raise refusal


async def _serve_until_over(
    controller: Controller, show: Reporter, introduction: Introduction, until_idle: bool
) -> None:
    """Run, showing progress; the first SIGTERM or SIGINT drains, the second leaves at once."""
    loop = asyncio.get_running_loop()
    leave = asyncio.Event()

    def on_signal() -> None:
        if controller.is_draining or ending.done():
            leave.set()
        else:
            show.say("draining: nothing new is started; once more to leave at once (what runs, runs on)")
            controller.drain()
            watching.add(loop.create_task(_leave_if_unwritten(controller, show, leave)))

    watching = set[asyncio.Task[None]]()
    ending = loop.create_task(controller.ended(until_idle=until_idle))
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)
    with show:
        leaving = loop.create_task(leave.wait())
        beside = {loop.create_task(_show(controller, show, introduction))}
        done, pending = await asyncio.wait({ending, leaving}, return_when=asyncio.FIRST_COMPLETED)
        await _cancelled(*pending, *beside)
    for task in done:
        task.result()
    try:
        if not leave.is_set():
            await _unless(leave, controller.copied())
        if not leave.is_set():
            await _unless(leave, controller.release_nodes())
        if not leave.is_set():
            await _unless(leave, _all_written(controller))
        if not leave.is_set():
            await _unless(leave, controller.answered())
    finally:
        await _cancelled(*watching)
    if leave.is_set() and not controller.hurried and not await controller.written_within(UNWRITTEN_S):
        _hurry(controller, show)


async def _leave_if_unwritten(controller: Controller, show: Reporter, leave: asyncio.Event) -> None:
    """Leave at once where the journal cannot be written: the end that draining waits for would never come."""
    while await controller.written_within(UNWRITTEN_S):
        await SteadyClock().sleep(LOOK_S)
    _hurry(controller, show)
    leave.set()


def _hurry(controller: Controller, show: Reporter) -> None:
    why = "" if controller.store_trouble is None else f": {controller.store_trouble}"
    show.say(printable(f"the journal cannot be written{why}; leaving without what it lacks", 400))
    controller.hurry()
    last = threading.Timer(LAST_S, os._exit, (EXIT_UNDONE,))
    last.daemon = True
    last.start()


async def _all_written(controller: Controller) -> None:
    """What is shown as done must be in the journal; an answer comes only once everything before it is."""
    await controller.tell(Tick())


async def _show(controller: Controller, show: Reporter, introduction: Introduction) -> None:
    """Show the nodes, then how things stand, and what keeps the controller from its work."""
    await introduction.show()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(_loop(controller, show.interval_s, "display", show.show))
        tasks.create_task(_loop(controller, NOTICE_S, "notices", Notices(controller, show).look))


async def _unless(event: asyncio.Event, work: Coroutine[Any, Any, None]) -> None:
    """Do this; once the event is set, no more of it."""
    doing, waiting = asyncio.ensure_future(work), asyncio.ensure_future(event.wait())
    try:
        done, _ = await asyncio.wait({doing, waiting}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await _cancelled(doing, waiting)
    if doing in done:
        doing.result()


async def _cancelled(*tasks: asyncio.Future[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _loop(controller: Controller, interval_s: float, name: str, work: Callable[[], Awaitable[None]]) -> Any:
    return every(interval_s, name, work, clock=SteadyClock(), timeout_s=TURN_S, on_failure=controller.record)


class Notices:
    """Says once what keeps the controller from its work, and once that it is over."""

    def __init__(self, controller: Controller, show: Reporter) -> None:
        self._controller = controller
        self._show = show
        self._told: set[str] = set()

    async def look(self) -> None:
        """Compare with what was said."""
        troubles = self._controller.troubles()
        for trouble in troubles:
            if trouble not in self._told:
                self._show.say(f"trouble: {printable(trouble, 400)}")
        for over in self._told.difference(troubles):
            self._show.say(f"over: {printable(over, 100)}")
        self._told = set(troubles)


async def _exit_status(controller: Controller, names: Sequence[str], since: int, until_idle: bool) -> int:
    return EXIT_UNDONE if until_idle and await controller.undone(names, since) else EXIT_DONE


def _log_to(file: LogFile) -> None:
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.JSONRenderer(),
        ],
        logger_factory=structlog.WriteLoggerFactory(cast(TextIO, file)),
        cache_logger_on_first_use=False,
    )
