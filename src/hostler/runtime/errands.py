"""What takes long on a node: bringing it what work needs, and fetching what that left. Each in a task of its own."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from typing import Any, TypeAlias

import structlog

from hostler.backends.base import Backend, FetchesFiles, ReadsLogs, SuppliesFiles, may_pass
from hostler.backends.bounds import NodeFault
from hostler.backends.carrier import unchanged
from hostler.backends.wire import WORKER_GRACE_S
from hostler.model.codec import error_words
from hostler.model.commands import AttemptOrder, Clear, Collect, Keep, Secure
from hostler.model.errors import FilesError, LinkError, PartlyFetched
from hostler.model.files import Fetch, named_in
from hostler.model.inputs import Ended, Fetched, Input, Launched, Secured
from hostler.runtime.clock import Clock
from hostler.runtime.keptlogs import KeptLogs

Gather: TypeAlias = Callable[[Collection[str]], Awaitable[None]]
RESTS_S = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
CLOSING_S = WORKER_GRACE_S + 1.0
"""A folder that cannot be deleted is tried again after that: workers that were closed may write there as they end."""
NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})


class Errands:
    """The errands of one node. They end with the link: when it is up again the core asks anew for what is to be done.

    `post` gives inputs to the core; `trouble` records what keeps an errand from being done on this machine. `gather`
    has artifacts lie in the controller's own store, from where they are sent; it raises as `Gatherer.gather`.
    """

    def __init__(
        self,
        backend: Backend,
        clock: Clock,
        post: Callable[[Input], None],
        trouble: Callable[[str], None],
        logs: KeptLogs,
        gather: Gather,
        permitted: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._backend = backend
        self._clock = clock
        self._post = post
        self._trouble = trouble
        self._logs = logs
        self._gather = gather
        self._permitted = permitted or _at_once
        self._running: dict[str, asyncio.Task[None]] = {}
        self._keeping: asyncio.Task[None] | None = None
        self._closed: dict[str, set[str]] = {}
        self._log = structlog.get_logger()

    def launch(self, order: AttemptOrder) -> None:
        """Bring an attempt what it needs, then have it run."""
        self._start(order.id, lambda: self._launch(order))

    def collect(self, command: Collect) -> None:
        """Fetch what an attempt has left."""
        self.cancel([_early(command.attempt)])
        self._closed.pop(command.attempt, None)
        self._start(command.attempt, lambda: self._collect(command))

    def secure(self, command: Secure) -> None:
        """Fetch what an attempt that runs has closed, and what it closes meanwhile."""
        self._closed.setdefault(command.attempt, set()).update(command.artifacts)
        self._start(_early(command.attempt), lambda: self._secure(command.attempt))

    def tidy(self, commands: Sequence[Clear | Keep]) -> None:
        """Let go of what is not needed. What is not deleted now is after the next reconnect: nothing waits for it."""
        if isinstance(self._backend, SuppliesFiles):
            for command in commands:
                if isinstance(command, Clear):
                    self._begin(_tidying(command.attempt), self._tidy(self._backend, command))
                else:
                    self._keeping = self._begin("tidying", self._tidy(self._backend, command))

    async def tidied(self, sweep: str) -> None:
        """Wait until nothing under way deletes the folder of a sweep; one that is retried has the same folder."""
        tasks = (self._keeping, self._running.get(_tidying(sweep)))
        under_way = [task for task in tasks if task is not None]
        if under_way:
            await asyncio.wait(under_way)

    def cancel(self, attempts: list[str]) -> None:
        """What is done for these attempts is not wanted any more."""
        for name in attempts:
            task = self._running.pop(name, None)
            if task is not None:
                task.cancel()

    def cancel_all(self) -> None:
        """The link is down."""
        self.cancel(list(self._running))
        self._closed.clear()

    async def over(self, within_s: float) -> None:
        """Wait until nothing is under way any more, or for so long."""
        if self._running:
            await asyncio.wait(list(self._running.values()), timeout=within_s)

    def _start(self, attempt: str, work: Callable[[], Awaitable[None]]) -> None:
        if attempt not in self._running:
            self._begin(attempt, self._again(attempt, work))

    def _begin(self, name: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._running[name] = asyncio.create_task(work)
        task.add_done_callback(lambda _: self._over(name, task))
        return task

    def _over(self, attempt: str, task: asyncio.Task[None]) -> None:
        if self._running.get(attempt) is task:
            del self._running[attempt]
        if not task.cancelled() and (error := task.exception()) is not None:
            self._trouble(f"{attempt}: {error_words(error)}")

    async def _again(self, attempt: str, work: Callable[[], Awaitable[None]]) -> None:
        """Until it is done: a connection for files may break though that of the agent does not, a disk be full."""
        tries, told = 0, ""
        while True:
            try:
                await work()
                return
            except NodeFault as error:
                self._trouble(f"files of {attempt} cannot be brought or fetched: {error}; it is not tried again")
                return
            except LinkError as error:
                self._log.info("an errand is tried again", attempt=attempt, why=str(error))
                words = str(error) if tries >= len(RESTS_S) else told
            except OSError as error:
                words = f"{error} (on this machine){_advice(error)}"
            except Exception as error:  # noqa: BLE001 - recorded; nobody else would go on with it
                words = error_words(error)
            if words != told:
                self._trouble(f"files of {attempt} cannot be brought or fetched: {words}; it is tried again")
            await self._clock.sleep(RESTS_S[min(tries, len(RESTS_S) - 1)])
            tries, told = tries + 1, words

    async def _tidy(self, backend: SuppliesFiles, command: Clear | Keep) -> None:
        try:
            if isinstance(command, Clear):
                await self._clear(backend, command)
            else:
                await backend.keep(command.attempts, command.sweeps)
        except OSError as error:
            self._trouble(f"what has been said there cannot be kept here: {error}")
        except LinkError as error:
            self._log.info("not tidied", why=str(error))
        except FilesError as error:
            self._trouble(f"what is not needed there stays: {error}")

    async def _clear(self, backend: SuppliesFiles, command: Clear) -> None:
        """What it has said is kept here first: the node may be gone tomorrow."""
        if command.output and isinstance(backend, ReadsLogs):
            fault = await self._logs.keep(backend, command.attempt)
            if fault is not None:
                self._trouble(f"output of {command.attempt}: {fault}")
        await self._permitted()
        try:
            await backend.clear(command.attempt)
        except FilesError:
            await self._clock.sleep(CLOSING_S)
            await self._permitted()
            await backend.clear(command.attempt)

    async def _launch(self, order: AttemptOrder) -> None:
        try:
            supplied = await self._supplied(order)
        except Exception as error:  # recorded; a job must not wait for what nobody does any more
            if may_pass(error):
                raise
            self._note(f"what {order.id} needs cannot be sent", error)
            self._post(Ended(attempt=order.id, ended_at=self._clock.now(), reason="files", error=str(error)))
            return
        await self._permitted()  # it may have taken long to bring what it needs
        for refused in await self._backend.launch([supplied]):
            self._post(refused)
        self._post(Launched(attempts=(order.id,)))

    async def _supplied(self, order: AttemptOrder) -> AttemptOrder:
        """The order, when the node has what it needs."""
        if needed := named_in(order.inputs):
            await self._gather(needed)
        backend = self._backend
        if not isinstance(backend, SuppliesFiles):
            return order
        if self._keeping is not None:  # it must not delete what is laid out now
            await asyncio.wait({self._keeping})
        return await unchanged(lambda: backend.supply(order))

    async def _collect(self, command: Collect) -> None:
        name, backend = command.attempt, self._backend
        if not isinstance(backend, FetchesFiles):
            self._post(Fetched(attempt=name, error="files cannot be fetched from a node of this kind"))
            return
        try:
            files = await unchanged(lambda: backend.fetch(name, command.fetch, command.cwd))
        except PartlyFetched as error:
            self._post(Fetched(attempt=name, files=error.files, unfetched=str(error)))
            return
        except Exception as error:  # recorded; a job must not wait for what nobody does any more
            if may_pass(error):
                raise
            self._note(f"what {name} has left cannot be fetched", error)
            self._post(Fetched(attempt=name, error=str(error)))
            return
        self._post(Fetched(attempt=name, files=files))

    async def _secure(self, attempt: str) -> None:
        """In a place of its own: the end of the attempt may come meanwhile, and be fetched from the beginning."""
        backend = self._backend
        if not isinstance(backend, FetchesFiles):
            del self._closed[attempt]
            return
        while names := self._closed.get(attempt):
            await self._secure_some(backend, attempt, names, tuple(sorted(names)))
        self._closed.pop(attempt, None)

    async def _secure_some(self, backend: FetchesFiles, attempt: str, names: set[str], wanted: tuple[str, ...]) -> None:
        """Fetch these, and take them off `names`. One that cannot be fetched must not be the end of all others."""
        try:
            await unchanged(lambda: backend.fetch(_early(attempt), Fetch(artifacts=wanted), None))
        except FilesError as error:
            if len(wanted) > 1:
                middle = len(wanted) // 2
                await self._secure_some(backend, attempt, names, wanted[:middle])
                await self._secure_some(backend, attempt, names, wanted[middle:])
                return
            names.difference_update(wanted)  # what its end tells is fetched then
            self._trouble(f"what {attempt} has closed cannot be fetched while it runs: {error}")
            return
        names.difference_update(wanted)
        self._post(Secured(attempt=attempt, artifacts=wanted))

    def _note(self, what: str, error: Exception) -> None:
        """What is wrong with files, the job is told; anything else is a fault of this program or of the node's."""
        if not isinstance(error, FilesError):
            self._trouble(f"{what}: {error_words(error)}")


async def _at_once() -> None:
    """Nobody else can lead."""


def _tidying(name: str) -> str:
    return f"tidying after {name}"


def _early(attempt: str) -> str:
    """What is fetched of an attempt before its end goes by this name, and with it what has come of it."""
    return f"{attempt}/early"


def _advice(error: OSError) -> str:
    return "; make room there, or let `hostler disk plan` say what may go" if error.errno in NO_ROOM else ""
