"""Copies between the controller and the agent, byte for byte, until one of them hangs up."""

from __future__ import annotations

import select
import socket
import ssl

_COPY_BYTES = 1 << 18
_FAREWELL_S = 5.0


class Bridge:
    """Two connected sockets, of which it has sole use. One thread, because a TLS stream bears no two at once.

    Nothing more is read from a side while the other one does not take what has been read.
    """

    def __init__(self, controller: ssl.SSLSocket, agent: socket.socket) -> None:
        self._controller = controller
        self._agent = agent
        self._up = memoryview(b"")
        """On its way to the controller."""
        self._down = memoryview(b"")
        """On its way to the agent."""
        self._agent_ended = False
        self._controller_ended = False
        self._write_waits_for = select.POLLOUT
        self._read_waits_for = select.POLLIN
        controller.setblocking(False)
        agent.setblocking(False)

    def run(self) -> None:
        """Copy until the end; both are closed then. Raises OSError where a connection breaks."""
        with self._controller, self._agent:
            while not self._is_over():
                # Each as far as it goes: what has moved may have made room for another.
                if not any(
                    [self._read_controller(), self._write_agent(), self._read_agent(), self._write_controller()]
                ):
                    self._sleep()
            if not self._controller_ended:
                self._hang_up()

    def _is_over(self) -> bool:
        """What one side has said before it hung up, the other one is still told."""
        return (self._agent_ended and not self._up) or (self._controller_ended and not self._down)

    def _read_controller(self) -> bool:
        if self._down or self._controller_ended:
            return False
        try:
            data = self._controller.recv(_COPY_BYTES)
        except ssl.SSLWantReadError:
            self._read_waits_for = select.POLLIN
            return False
        except ssl.SSLWantWriteError:
            self._read_waits_for = select.POLLOUT
            return False
        self._down, self._controller_ended = memoryview(data), not data
        return True

    def _write_agent(self) -> bool:
        if not self._down:
            return False
        try:
            self._down = self._down[self._agent.send(self._down) :]
        except BlockingIOError:
            return False
        return True

    def _read_agent(self) -> bool:
        if self._up or self._agent_ended:
            return False
        try:
            data = self._agent.recv(_COPY_BYTES)
        except BlockingIOError:
            return False
        self._up, self._agent_ended = memoryview(data), not data
        return True

    def _write_controller(self) -> bool:
        if not self._up:
            return False
        try:
            self._up = self._up[self._controller.send(self._up) :]
        except ssl.SSLWantWriteError:
            self._write_waits_for = select.POLLOUT
            return False
        except ssl.SSLWantReadError:
            self._write_waits_for = select.POLLIN
            return False
        return True

    def _sleep(self) -> None:
        waiting = select.poll()
        controller = 0 if self._down or self._controller_ended else self._read_waits_for
        agent = 0 if self._up or self._agent_ended else select.POLLIN
        wanted = (
            (self._controller, controller | (self._write_waits_for if self._up else 0)),
            (self._agent, agent | (select.POLLOUT if self._down else 0)),
        )
        for peer, events in wanted:
            if events:  # one that nothing is wanted of would wake it again and again by having hung up
                waiting.register(peer, events)
        waiting.poll()

    def _hang_up(self) -> None:
        """Say that nothing more comes, and hear the controller out: closing at once could undo what was just sent."""
        self._controller.settimeout(_FAREWELL_S)
        self._controller.shutdown(socket.SHUT_WR)
        while self._controller.recv(_COPY_BYTES):
            pass
