"""One emulator with a cartridge in it: buttons in, memory and pictures out, from one state whenever it is asked for."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
from pyboy import PyBoy
from pyboy.utils import PyBoyException, WindowEvent

from hostler.workloads.gameboy.game import Game, Value
from hostler.workloads.gameboy.rom import Cartridge, NoCartridge, NoState, banked
from hostler.workloads.gameboy.stillness import Stand, stand_of

GAP_BYTES = 24
"""Values that lie nearer to each other are read at once: a read costs as much as that many bytes."""
Piece: TypeAlias = slice | tuple[int, slice]
"""Of the memory, as PyBoy is asked for it: addresses, or those of a bank."""
SHADES_SHIFT = 6
"""From 256 greys to 4."""

_PRESS: Final = {
    "up": WindowEvent.PRESS_ARROW_UP,
    "down": WindowEvent.PRESS_ARROW_DOWN,
    "left": WindowEvent.PRESS_ARROW_LEFT,
    "right": WindowEvent.PRESS_ARROW_RIGHT,
    "a": WindowEvent.PRESS_BUTTON_A,
    "b": WindowEvent.PRESS_BUTTON_B,
    "start": WindowEvent.PRESS_BUTTON_START,
}
_RELEASE: Final = {
    "up": WindowEvent.RELEASE_ARROW_UP,
    "down": WindowEvent.RELEASE_ARROW_DOWN,
    "left": WindowEvent.RELEASE_ARROW_LEFT,
    "right": WindowEvent.RELEASE_ARROW_RIGHT,
    "a": WindowEvent.RELEASE_BUTTON_A,
    "b": WindowEvent.RELEASE_BUTTON_B,
    "start": WindowEvent.RELEASE_BUTTON_START,
    "select": WindowEvent.RELEASE_BUTTON_SELECT,
}


class Layout:
    """Where values lie among the bytes that are read: pieces of the memory, one after the other."""

    def __init__(self, values: Sequence[Value]) -> None:
        self._found: list[tuple[int | None, slice]] = []
        for each in sorted(values, key=lambda value: (value.bank or 0, value.at)):
            bank, last = self._found[-1] if self._found else (None, slice(0, 0))
            if self._found and bank == each.bank and each.at - last.stop < GAP_BYTES:
                self._found[-1] = bank, slice(last.start, max(last.stop, each.at + each.size))
            else:
                self._found.append((each.bank, slice(each.at, each.at + each.size)))
        self.pieces: list[Piece] = [piece if bank is None else (bank, piece) for bank, piece in self._found]
        self.bytes = sum(piece.stop - piece.start for _, piece in self._found)
        widest = max((value.size for value in values), default=1)
        self._columns = np.array([[self._column(value, index) for index in range(widest)] for value in values])
        self._factors = np.array([[256**i if i < value.size else 0 for i in range(widest)] for value in values])

    def numbers(self, memory: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64]:
        """The values, `[machines, values]`, of what was read, `[machines, bytes]`."""
        if self._columns.shape[1] == 1:
            return memory.take(self._columns[:, 0], axis=1).astype(np.int64)
        found: npt.NDArray[np.int64] = (memory[:, self._columns] * self._factors).sum(axis=2)
        return found

    def _column(self, value: Value, index: int) -> int:
        before: int = 0
        for bank, piece in self._found:
            start, stop = int(piece.start), int(piece.stop)
            if bank == value.bank and start <= value.at < stop:
                return before + value.at - start + min(index, value.size - 1)
            before += stop - start
        raise AssertionError(value)


class Machine:
    """One emulator. Each action is a button, held for `game.skip` frames and on if it is the next one as well.

    Raises `SpecError` for a cartridge or a state that PyBoy cannot take.
    """

    def __init__(self, game: Game, cartridge: Cartridge, *, sound: bool | None = None) -> None:
        banked(cartridge, game.banks)
        self._pyboy = inserted(cartridge, sound=game.sound if sound is None else sound)
        self._pyboy.set_emulation_speed(0)
        self._skip = game.skip
        self._pieces = Layout(tuple(game.values.values())).pieces
        self._press = [_PRESS.get(each) for each in game.actions]
        self._release = [_RELEASE.get(each) for each in game.actions]
        self._held = -1
        self._start = self._booted(game, cartridge)
        self._first = self._drawn()
        self._is_first = True

    def reset(self) -> None:
        """To the state that episodes begin in, with those buttons up that were down when it was kept."""
        self._held, self._is_first = -1, True
        self._start.seek(0)
        self._pyboy.load_state(self._start)
        for each in _RELEASE.values():
            self._pyboy.send_input(each)

    def step(self, action: int, *, render: bool = False) -> None:
        """A button for the frames of a step; with `render`, the last of them is drawn."""
        if action != self._held:
            self._hold(action)
        self._pyboy.tick(self._skip, render, False)
        self._is_first = self._is_first and not render

    def memory(self) -> bytes:
        """The bytes where values lie, as `Layout` has them."""
        read = self._pyboy.memory
        return b"".join([bytes(read[piece]) for piece in self._pieces])

    def screen(self) -> npt.NDArray[np.uint8]:
        """What was drawn last, `[72, 80]`, in four greys from 0, black, to 3; at first what an episode begins with."""
        return self._picture[::2, ::2, 0] >> np.uint8(SHADES_SHIFT)

    def picture(self) -> npt.NDArray[np.uint8]:
        """What was drawn last, for people: `[144, 160, 3]`."""
        return self._picture[:, :, :3].copy()

    def stands(self) -> Stand | None:
        """Where it stands still for ever, as it seems; `None`: it does not. May be asked while it is played."""
        return stand_of(self._pyboy)

    def close(self) -> None:
        """Let go of it."""
        self._pyboy.stop(save=False)

    def state(self) -> bytes:
        """All of it, to be begun with another time."""
        kept = io.BytesIO()
        self._pyboy.save_state(kept)
        return kept.getvalue()

    @property
    def _picture(self) -> npt.NDArray[np.uint8]:
        """States have no picture in them: that of an episode's first is kept beside it."""
        seen: npt.NDArray[np.uint8] = self._first if self._is_first else self._pyboy.screen.ndarray
        return seen

    def _drawn(self) -> npt.NDArray[np.uint8]:
        """The picture of the state that episodes begin in, a frame later; it is in that state again."""
        self.reset()
        self._pyboy.tick(1, True, False)
        seen: npt.NDArray[np.uint8] = self._pyboy.screen.ndarray.copy()
        self.reset()
        return seen

    def _booted(self, game: Game, cartridge: Cartridge) -> io.BytesIO:
        if cartridge.state is not None:
            return io.BytesIO(self._loadable(cartridge.state))
        self._pyboy.tick(game.boot_frames, False, False)
        return io.BytesIO(self.state())

    def _loadable(self, state: bytes) -> bytes:
        """A state that can be loaded."""
        try:
            self._pyboy.load_state(io.BytesIO(state))
            return state
        except (PyBoyException, IndexError, KeyError, ValueError, OverflowError) as error:
            raise NoState(f"PyBoy cannot load the state: {error}; make it again, with this ROM") from error

    def _hold(self, action: int) -> None:
        released = None if self._held < 0 else self._release[self._held]
        if released is not None:
            self._pyboy.send_input(released)
        pressed = self._press[action]
        if pressed is not None:
            self._pyboy.send_input(pressed)
        self._held = action


def inserted(cartridge: Cartridge, *, sound: bool) -> PyBoy:
    """An emulator with that in it; what a battery would have kept is empty."""
    try:
        return PyBoy(
            io.BytesIO(cartridge.rom),
            window="null",
            sound_volume=0,
            sound_emulated=sound,
            cgb=cartridge.cgb,
            log_level="ERROR",
        )
    except (PyBoyException, IndexError, KeyError, ValueError) as error:
        raise NoCartridge(f"PyBoy cannot take the ROM: {type(error).__name__}: {error}") from error
