"""One node, kept connected: its reports go to the pump, the pump's commands go to it, in order."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, TypeAlias

import structlog

from hostler.backends.base import (
    Backend,
    HangsUp,
    KeepsFolders,
    KeepsReports,
    LetsGo,
    ListsWork,
    ProvesDevices,
    ReadsDevices,
    Releases,
    Report,
    RunsChunks,
    SuppliesFiles,
)
from hostler.backends.bounds import NodeFault
from hostler.model.codec import error_words
from hostler.model.commands import (
    AttemptOrder,
    Clear,
    CloseWorker,
    Collect,
    Discard,
    Keep,
    Launch,
    Lend,
    LetGo,
    ListWork,
    NodeCommand,
    Prove,
    ReadDevices,
    Recall,
    Secure,
    Stop,
    Trim,
)
from hostler.model.errors import HostlerError, LinkError
from hostler.model.files import named_in
from hostler.model.inputs import Ended, Input, Launched, LinkDown, Reported, Trouble
from hostler.policy.leadership import Tenure
from hostler.policy.retry import SECRET
from hostler.runtime.clock import Clock, monotonic
from hostler.runtime.errands import Errands, Gather
from hostler.runtime.keptlogs import KeptLogs
from hostler.runtime.pump import Pump

Secrets: TypeAlias = Callable[[Mapping[str, str]], dict[str, str]]
"""The values of variables by the names of their secrets. Raises `HostlerError` where one cannot be had."""
SETTLE_S = 5.0
"""How long what is under way on a node is waited for when the controller leaves."""
PERMIT_S = 0.1
FAULT_REST_S = (0.5, 5.0, 15.0, 30.0, 60.0)
"""Rests after a node broke a limit or could not be understood, beside the usual ones."""
FAULTS_FORGOTTEN_S = 600.0
REST_S = (0.2, 0.5, 1.0, 2.0, 5.0, 10.0)


class Link:
    """Keeps one backend observed and carries commands to it.

    A command for a node that cannot be reached is dropped: when the link is up again the core derives anew, from the
    node's inventory, what the node should be told.
    """

    def __init__(
        self,
        name: str,
        backend: Backend,
        pump: Pump,
        clock: Clock,
        logs: KeptLogs,
        gather: Gather,
        tenure: Tenure | None = None,
        secrets: Secrets | None = None,
    ) -> None:
        self._secrets = secrets
        self.name = name
        self.backend = backend
        self._pump = pump
        self._clock = clock
        self._tenure = tenure
        self._waiting: list[NodeCommand] = []
        self._receipt = 0
        self._wake = asyncio.Event()
        self._released = False
        self._faults = 0
        self._faulty_at = -math.inf
        self._errands = Errands(backend, clock, self._post, self._note, logs, gather, self._permitted)
        self._log = structlog.get_logger().bind(node=name)

    def give(self, commands: Sequence[NodeCommand]) -> None:
        """Have commands carried out, in order."""
        self._waiting.extend(commands)
        self._wake.set()

    async def run(self, epoch: int) -> None:
        """Observe and carry commands until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._observe(epoch))
                tasks.create_task(self._carry())
        finally:
            self._errands.cancel_all()

    def hang_up(self) -> None:
        """Break the link; it is taken up again as soon as this controller may act."""
        if isinstance(self.backend, HangsUp):
            self.backend.hang_up()

    async def release(self) -> None:
        """Let what idles on the node end, and do not connect anew: that would start it again. Raises `LinkError`."""
        self._released = True
        await self._errands.over(SETTLE_S)
        if isinstance(self.backend, Releases):
            await self.backend.release()

    async def _observe(self, epoch: int) -> None:
        failures = 0
        while not self._released:
            await self._permitted()
            try:
                async for report in self.backend.observe(epoch):
                    failures = 0
                    self._take(report)
            except NodeFault as error:
                self._note(f"its link was closed: {error}")
                self._lost(str(error))
                await self._clock.sleep(self._fault_rest_s())
            except LinkError as error:
                self._lost(str(error))
            except Exception as error:  # noqa: BLE001 - recorded; a node that talks nonsense must not end the controller
                self._note(error_words(error))
                self._lost(f"what it says cannot be understood: {error_words(error)}")
            rest = REST_S[min(failures, len(REST_S) - 1)]
            failures += 1
            # Jitter, so that a hundred nodes behind one router do not come back in one instant.
            await self._clock.sleep(rest * random.uniform(0.5, 1.0))  # noqa: S311

    def _fault_rest_s(self) -> float:
        """How long a node is left alone that broke a limit or cannot be understood: longer each time."""
        now = self._clock.now()
        self._faults = 0 if now > self._faulty_at + FAULTS_FORGOTTEN_S else self._faults + 1
        self._faulty_at = now
        return FAULT_REST_S[min(self._faults, len(FAULT_REST_S) - 1)]

    def _take(self, report: Report) -> None:
        receipt = report.receipt
        self._post(*report.inputs, done=None if receipt is None else lambda _: self._acknowledge(receipt))

    def _post(self, *given: Input, done: Callable[[Sequence[Any]], None] | None = None) -> None:
        """Give inputs as those of this node; the core takes what concerns the node's own work."""
        self._pump.post(*(Reported(node=self.name, given=each) for each in given), done=done)

    def _acknowledge(self, receipt: int) -> None:
        self._receipt = receipt
        self._wake.set()

    def _note(self, what: str) -> None:
        self._post(Trouble(where=f"node {self.name}", what=what))

    def _lost(self, why: str) -> None:
        self._receipt = 0
        self._errands.cancel_all()
        self._log.warning("link down", why=why)
        self._post(LinkDown(node=self.name, why=why))

    async def _carry(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            try:
                await self._carry_all()
            except LinkError as error:
                self._log.info("dropped, the link is down", why=str(error))
            except Exception as error:  # noqa: BLE001 - recorded; what one node cannot do must not end the controller
                self._note(f"it was told in vain: {error_words(error)}; it is connected to anew")
                await self._clock.sleep(REST_S[-1])
                if isinstance(self.backend, HangsUp):
                    self.backend.hang_up()

    async def _carry_all(self) -> None:
        commands, self._waiting = self._waiting, []
        receipt, self._receipt = self._receipt, 0
        for key, group in groupby(commands, key=_same_call):
            await self._permitted()
            await self._carry_group(key[0], list(group))
        # Last: a node must not have forgotten an attempt when an older order for it arrives.
        await self._permitted()
        if receipt and isinstance(self.backend, KeepsReports):
            await self.backend.acknowledge(receipt)

    async def _permitted(self) -> None:
        """Wait while another controller may have taken over: what was decided before may not be what it wants.

        Agents refuse an old leader by themselves; queues of clusters do not. One that was overtaken ends here.
        """
        while self._tenure is not None and not self._tenure.holds(monotonic()):
            await self._clock.sleep(PERMIT_S)

    async def _carry_group(self, kind: type, group: Sequence[Any]) -> None:
        backend = self.backend
        if kind is Launch:
            await self._launch([command.order for command in group])
        elif kind is Collect:
            for command in group:
                self._errands.collect(command)
        elif kind is Secure:
            for command in group:
                self._errands.secure(command)
        elif kind is Stop:
            self._errands.cancel([command.attempt for command in group])
            await backend.stop([command.attempt for command in group], group[0].reason)
        elif kind is Prove and isinstance(backend, ProvesDevices):
            await backend.prove([command.order for command in group])
        elif kind is ReadDevices and isinstance(backend, ReadsDevices):
            await backend.read_devices()
        elif kind is ListWork and isinstance(backend, ListsWork):
            await backend.list_work()
        elif kind is LetGo and isinstance(backend, LetsGo):
            await backend.let_go()
        elif kind is Discard and isinstance(backend, KeepsFolders):
            await backend.discard([command.attempt for command in group])
        elif kind in (Clear, Keep):
            self._errands.tidy(group)
        elif isinstance(backend, RunsChunks):
            await self._carry_chunks(backend, kind, group)

    async def _launch(self, orders: Sequence[AttemptOrder]) -> None:
        """What needs nothing brought goes at once, all together."""
        if any(order.secrets for order in orders):
            orders = [each for order in orders if (each := await self._disclosed(order)) is not None]
            await self._permitted()
        apart = isinstance(self.backend, SuppliesFiles) and self.backend.apart
        ready = []
        for order in orders:
            if apart or order.snapshot is not None or named_in(order.inputs):
                self._errands.launch(order)
            else:
                ready.append(order)
        if ready:
            refused = await self.backend.launch(ready)
            self._post(Launched(attempts=tuple(order.id for order in ready)), *refused)

    async def _disclosed(self, order: AttemptOrder) -> AttemptOrder | None:
        """The order with the values of its secrets; `None`: one of them is missing, and the attempt has ended so."""
        if not order.secrets or self._secrets is None:
            return order
        try:
            return replace(order, secret_values=await asyncio.to_thread(self._secrets, order.secrets))
        except HostlerError as error:
            ended = Ended(attempt=order.id, ended_at=self._clock.now(), reason=SECRET, error=str(error))
            self._post(Launched(attempts=(order.id,)), ended)
            return None

    async def _carry_chunks(self, backend: RunsChunks, kind: type, group: Sequence[Any]) -> None:
        if kind is Lend:
            sweep = group[0].worker.sweep
            if sweep is not None:
                await self._errands.tidied(sweep)
            self._post(*await backend.lend(group[0].worker, [command.chunk for command in group]))
        else:
            await _carry_ends(backend, kind, group)


async def hang_up_in_time(tenure: Tenure, links: Mapping[str, Link], clock: Clock) -> None:
    """Until cancelled: keep no link while another controller may lead.

    A node that hears of an old one would keep what it has beyond its lease, and the new one gives that to others.
    """
    while True:
        await clock.sleep(PERMIT_S)
        if not tenure.holds(monotonic()):
            for link in links.values():
                link.hang_up()


async def _carry_ends(backend: RunsChunks, kind: type, group: Sequence[Any]) -> None:
    if kind is Recall:
        await backend.recall([command.chunk for command in group], group[0].reason)
    elif kind is Trim:
        await backend.trim({command.chunk: command.stop for command in group})
    elif kind is CloseWorker:
        for command in group:
            await backend.close_worker(command.worker)


def _same_call(command: NodeCommand) -> tuple[Any, ...]:
    """Neighbouring commands with the same key go out as one request."""
    if isinstance(command, Lend):
        return Lend, command.worker.id
    if isinstance(command, Stop | Recall):
        return type(command), command.reason
    return (type(command),)
