"""Self-play of Beacons on one core: every board, the fast engine and the search; beside OpenSpiel's Python AlphaZero.

    python benchmarks/selfplay.py [--quick] [--json FILE]

Every figure comes from the real stage, `python -m hostler.workloads.alphazero selfplay`, as a process with one thread.
CPU-seconds are the process's from its start to its end, less its start-up: that of a stage which plays one game with
one simulation a move (the interpreter, imports, the network; what numba compiles is in its cache before). How the time
of a search divides into tree and network is told by the clock, in percent. Networks are untrained, of 32 channels and
3 blocks.

OpenSpiel's actor (peers/openspiel_peer.py) plays hex on 8 x 8 cells with as many simulations and a network of as many
parameters, one game at a time as it does; its start-up is taken off in the same way. A node is two stages side by side,
everything counted. --quick plays fewer games and leaves out the large boards, 3 and 4 players, and what is not needed
for a bar.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import safe_open

import peers_env
from common import Bar, Row, arguments, report
from hostler.workloads.alphazero.artifacts import MODEL, Artifacts
from hostler.workloads.beacons.configs import parameters
from hostler.workloads.beacons.game import make
from stages import Order, Ran, order, run, run_together, untrained

HERE = Path(__file__).resolve().parent
CONFIGS = ("hex8_2p", "square8_2p", "square19_2p", "hexagonal_2p", "hex8_3p", "hex8_4p")
QUICK_CONFIGS = ("hex8_2p", "square8_2p")
MAIN = "hex8_2p"
SIMULATIONS, CHANNELS, BLOCKS = 64, 32, 3
LARGE = 100  # cells from which a board counts as large
GAMES = {("gumbel", False): 32, ("gumbel", True): 2, ("heuristic", False): 4000, ("heuristic", True): 200}
NODE_GAMES = 64
ALONE_GAMES = 2
QUICK = 4  # how many times fewer games --quick plays
SLOTS = 2
PEER_S, QUICK_PEER_S = 45.0, 5.0
PEER_LIMIT_S = 900.0
PEER_BAR, NODE_BAR = 5.0, 100.0


@dataclass(frozen=True, slots=True)
class Measured:
    """A self-play; `cpu_s` without the start-up."""

    config: str
    engine: str
    at_once: int
    games: int
    positions: int
    cpu_s: float
    start_cpu_s: float
    search_s: float
    network_s: float

    @property
    def positions_per_s(self) -> float:
        """Positions per CPU-second."""
        return self.positions / self.cpu_s


@dataclass(frozen=True, slots=True)
class Node:
    """Two stages side by side, everything counted."""

    games: int
    wall_s: float
    cpu_s: float

    @property
    def games_per_h(self) -> float:
        """By the clock."""
        return 3600 * self.games / self.wall_s


@dataclass(frozen=True, slots=True)
class PeerLine:
    """What peers/openspiel_peer.py prints."""

    version: str
    game: str
    parameters: int
    games: int
    positions: int
    cpu_s: float
    start_cpu_s: float

    @property
    def positions_per_s(self) -> float:
        """Positions per CPU-second."""
        return self.positions / self.cpu_s


@dataclass
class Workplace:
    """A folder with artifacts, in which stages run; it remembers what was made and measured."""

    folder: Path
    models: dict[str, str] = field(default_factory=dict)
    starts: dict[str, float] = field(default_factory=dict)
    orders: int = 0

    @property
    def artifacts(self) -> Path:
        """Where segments and models go."""
        return self.folder / "artifacts"

    def measure(self, config: str, engine: str, games: int, at_once: int) -> Measured:
        """Play; what it cost without the start-up. SystemExit where that is nothing."""
        start_cpu_s = self._start(engine)
        ran = self._run(self.order(config, engine, games, at_once))
        spent = ran.cpu_s - start_cpu_s
        if spent <= 0:
            raise SystemExit(f"{games} games of {config} cost {ran.cpu_s:.2f} CPU-s, the start-up {start_cpu_s:.2f}")
        told = ran.result
        return Measured(config, engine, at_once, told["games"], told["positions"], spent, start_cpu_s,
                        told["search_s"], told["network_s"])  # fmt: skip

    def side_by_side(self, games: int) -> Node:
        """Play `games` in each of two stages at the same time."""
        orders = [self.order(MAIN, "gumbel", games, games) for _ in range(SLOTS)]
        ran = run_together(orders, self.artifacts, self.folder / "side by side")
        played = sum(each.result["games"] for each in ran)
        return Node(played, max(each.wall_s for each in ran), sum(each.cpu_s for each in ran))

    def order(self, config: str, engine: str, games: int, at_once: int, simulations: int = SIMULATIONS) -> Order:
        """An order of self-play; every one has a seed of its own."""
        self.orders += 1
        player = engine if engine == "heuristic" else f"{engine}-{simulations}@{self.model(config)}"
        options = {"parallel": at_once}
        return order("selfplay", config, self.orders, player=player, games=games, segment_games=games, options=options)

    def model(self, config: str) -> str:
        """An untrained model's SHA-256."""
        if config not in self.models:
            self.models[config] = untrained(config, CHANNELS, BLOCKS, self.artifacts)
        return self.models[config]

    def _start(self, engine: str) -> float:
        """CPU-seconds of a stage that plays next to nothing; one before it fills the cache of what is compiled."""
        if engine not in self.starts:
            twice = [self._run(self.order(MAIN, engine, 1, 1, simulations=1)).cpu_s for _ in range(2)]
            self.starts[engine] = twice[-1]
        return self.starts[engine]

    def _run(self, wanted: Order) -> Ran:
        return run(wanted, self.artifacts, self.folder / f"order {wanted['seed']}")


def main() -> None:
    """Run the command line described above."""
    options = arguments(__doc__)
    quick = options.quick
    peers = list(_peers(peers_env.ensure("peers-alphazero"), quick))
    with tempfile.TemporaryDirectory(prefix="hostler-selfplay-") as folder:
        place = Workplace(Path(folder))
        measured = list(_boards(place, quick))
        ours = next(each for each in measured if (each.config, each.engine) == (MAIN, "gumbel"))
        alone = None if quick else place.measure(MAIN, "gumbel", ALONE_GAMES, 1)
        node = place.side_by_side(NODE_GAMES // QUICK if quick else NODE_GAMES)
        size = count_parameters(place.artifacts, place.model(MAIN))
    rows = [*map(engine_row, measured), *peer_rows([ours, *([alone] if alone else [])], size, peers), node_row(node)]
    report("selfplay", rows, bars(ours, peers[0][1], node), options.json)


def engine_row(measured: Measured) -> Row:
    """One engine on one board. An engine without a search has neither search nor network."""
    searching = measured.search_s + measured.network_s
    return {
        "config": measured.config,
        "engine": f"{measured.engine}-{SIMULATIONS}" if searching else measured.engine,
        "games": measured.games,
        "at once": measured.at_once,
        "games/h and core": 3600 * measured.games / measured.cpu_s,
        "positions/s and core": measured.positions_per_s,
        "CPU ms/position": 1000 * measured.cpu_s / measured.positions,
        "tree %": 100 * measured.search_s / searching if searching else None,
        "network %": 100 * measured.network_s / searching if searching else None,
        "start-up CPU-s": measured.start_cpu_s,
    }


def peer_rows(ours: Sequence[Measured], size: int, peers: Sequence[tuple[str, PeerLine]]) -> Iterator[Row]:
    """Everybody's positions per CPU-second, and how many times those of each peer the first of ours are."""
    fast = ours[0].positions_per_s
    for each in ours:
        yield _system("Hostler", each.config, size, each, each.at_once, fast)
    for name, line in peers:
        yield _system(name.format(line.version), line.game, line.parameters, line, 1, fast)


def node_row(node: Node) -> Row:
    """The node in numbers."""
    return {
        "node": f"{SLOTS} stages of {MAIN}, gumbel-{SIMULATIONS}, start-up counted",
        "games": node.games,
        "wall s": node.wall_s,
        "CPU-s": node.cpu_s,
        "games/h": node.games_per_h,
        "games/CPU-h": 3600 * node.games / node.cpu_s,
    }


def bars(ours: Measured, peer: PeerLine, node: Node) -> list[Bar]:
    """What issue 3 asks for."""
    times = ours.positions_per_s / peer.positions_per_s
    return [
        Bar("positions per CPU-second, times OpenSpiel's AlphaZero's", times, PEER_BAR, ">="),
        Bar(f"games/h of a node, {MAIN}, {SIMULATIONS} simulations", node.games_per_h, NODE_BAR, ">="),
    ]


def count_parameters(artifacts: Path, model: str) -> int:
    """How many a published model has."""
    path = Artifacts(artifacts).path(model, MODEL)
    with safe_open(path, framework="numpy") as weights:
        return sum(int(np.prod(weights.get_slice(name).get_shape())) for name in weights.keys())  # noqa: SIM118


def _boards(place: Workplace, quick: bool) -> Iterator[Measured]:
    for config in QUICK_CONFIGS if quick else CONFIGS:
        large = len(make(**parameters(config)).graph) > LARGE
        for engine in ("heuristic", "gumbel"):
            games = GAMES[engine, large] // (QUICK if quick else 1)
            measured = place.measure(config, engine, games, min(games, 64))
            print(f"{config} {engine}: {measured}", file=sys.stderr, flush=True)
            yield measured


def _peers(python: Path, quick: bool) -> Iterator[tuple[str, PeerLine]]:
    """OpenSpiel as it is and, unless it is to be quick, with its network compiled."""
    limit_s = QUICK_PEER_S if quick else PEER_S
    yield "OpenSpiel {} AlphaZero", _peer(python, limit_s)
    if not quick:
        yield "OpenSpiel {} AlphaZero, its network compiled by us", _peer(python, limit_s / 2, "--compiled")


def _peer(python: Path, limit_s: float, *options: str) -> PeerLine:
    script = HERE / "peers" / "openspiel_peer.py"
    command = [str(python), str(script), f"--simulations={SIMULATIONS}", f"--cpu-seconds={limit_s}", *options]
    ended = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=True,
                           timeout=PEER_LIMIT_S)  # fmt: skip
    line = PeerLine(**json.loads(ended.stdout.splitlines()[-1]))
    print(f"OpenSpiel{' '.join(['', *options])}: {line}", file=sys.stderr, flush=True)
    return line


def _system(name: str, game: str, size: int, figures: Any, at_once: int, fast: float) -> Row:
    return {
        "system": name,
        "game": game,
        "simulations": SIMULATIONS,
        "parameters": size,
        "games at once": at_once,
        "positions": figures.positions,
        "CPU-s": figures.cpu_s,
        "positions/CPU-s": figures.positions_per_s,
        "start-up CPU-s": figures.start_cpu_s,
        "Hostler's first is times": fast / figures.positions_per_s,
    }


if __name__ == "__main__":
    main()
