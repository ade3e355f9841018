"""Self-play of OpenSpiel's Python AlphaZero on hex(board_size=8), one actor, one thread: one line of JSON.

It is what the actor of open_spiel.python.algorithms.alpha_zero does, by its own functions: its model, its evaluator
with its cache of positions, its MCTS bots, its games with noise and temperature; without the processes around it.
Start-up is everything up to and including a game with two simulations a move, the first of which evaluates the root:
imports, the network, and what is compiled at first use. Then it plays until the limit of CPU time; positions of a game
cut short count.

--compiled is not theirs: the network is compiled as a whole by JAX and answers with NumPy arrays, as a user who cares
could make it. It tells how much of the distance that is.
"""

import argparse
import json
import os
import tempfile
import time
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any

GAME = "hex(board_size=8)"
WIDTH, DEPTH = 24, 3
API = "nnx"  # of its two the default, and here the faster by far
SETTINGS: dict[str, Any] = {
    # What an actor reads; the figures are those of OpenSpiel's own example.
    "uct_c": 1.41,
    "policy_alpha": 1.0,
    "policy_epsilon": 0.25,
    "temperature": 1.0,
    "temperature_drop": 2,
    "learning_rate": 1e-3,
    "weight_decay": 1e-4,
    "decouple_weight_decay": False,
    # What only its learner and its evaluators read.
    "train_batch_size": 128,
    "replay_buffer_size": 8192,
    "replay_buffer_reuse": 4,
    "max_steps": 1,
    "checkpoint_freq": 1,
    "actors": 1,
    "evaluators": 0,
    "evaluation_window": 1,
    "eval_levels": 1,
}
ONE_THREAD = {
    "JAX_PLATFORMS": "cpu",
    "OMP_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
}


class LimitReached(Exception):
    """The CPU time is spent."""


class Meter:
    """Counts positions against a limit of CPU-seconds."""

    def __init__(self, limit_s: float) -> None:
        self.positions = 0
        self._began, self._limit_s = time.process_time(), limit_s

    @property
    def cpu_s(self) -> float:
        """CPU-seconds since the beginning, of all threads."""
        return time.process_time() - self._began

    def check(self) -> None:
        """Raises LimitReached."""
        if self.cpu_s >= self._limit_s:
            raise LimitReached

    def count(self) -> None:
        """One position more."""
        self.positions += 1


class MeteredBot:
    """A bot whose searches are counted, and which begins none after the limit."""

    def __init__(self, bot: Any, meter: Meter) -> None:
        self._bot, self._meter = bot, meter

    def mcts_search(self, state: Any) -> Any:
        """The bot's own."""
        self._meter.check()
        root = self._bot.mcts_search(state)
        self._meter.count()
        return root


class Actor:
    """OpenSpiel's actor, taken to pieces: a game, a model, an evaluator, and bots for as many simulations as wished."""

    def __init__(self, folder: Path, compiled: bool) -> None:
        import pyspiel  # type: ignore[import-not-found]
        from open_spiel.python.algorithms.alpha_zero import alpha_zero  # type: ignore[import-not-found]
        from open_spiel.python.algorithms.alpha_zero.evaluator import (  # type: ignore[import-not-found]
            AlphaZeroEvaluator,
        )
        from open_spiel.python.utils import file_logger  # type: ignore[import-not-found]

        self._theirs = alpha_zero
        self._game = pyspiel.load_game(GAME)
        self._config = alpha_zero.Config(
            game=GAME, path=str(folder), max_simulations=1, nn_model="resnet", nn_width=WIDTH, nn_depth=DEPTH,
            nn_api_version=API, observation_shape=self._game.observation_tensor_shape(),
            output_size=self._game.num_distinct_actions(), verbose=False, quiet=True, **SETTINGS,
        )  # fmt: skip
        self._model = alpha_zero._init_model_from_config(self._config)
        if compiled:
            compile_network(self._model)
        self._evaluator = AlphaZeroEvaluator(self._game, self._model)
        self._logger = file_logger.FileLogger(str(folder), "actor", True)

    @property
    def parameters(self) -> int:
        """Of its network."""
        return int(self._model.num_trainable_variables)

    def play(self, simulations: int, meter: Meter) -> int:
        """Play one game; how many positions it had. Raises LimitReached."""
        config = self._config.replace(max_simulations=simulations)
        bots = [MeteredBot(self._theirs._init_bot(config, self._game, self._evaluator, False), meter) for _ in range(2)]
        played = self._theirs._play_game(self._logger, 1, self._game, bots, config.temperature, config.temperature_drop)
        return len(played.states)


def compile_network(model: Any) -> None:
    """Let the model infer by one compiled function, and answer with NumPy."""
    import jax  # type: ignore[import-not-found]
    import jax.numpy as jnp  # type: ignore[import-not-found]
    import numpy as np
    from flax import nnx  # type: ignore[import-not-found]

    state = model._state

    @jax.jit
    def network(params: Any, batch_stats: Any, observation: Any, legal: Any) -> Any:
        whole = nnx.merge(state.graphdef, params, batch_stats)
        whole.eval()
        logits, value = whole(observation)
        return value, jax.nn.softmax(jnp.where(legal, logits, jnp.finfo(jnp.float32).min))

    def inference(observation: Any, legals_mask: Any) -> Any:
        legal = np.asarray(legals_mask, np.bool_)
        value, policy = network(state.params, state.batch_stats, np.asarray(observation, np.float32), legal)
        return float(value), np.asarray(policy)

    model.inference = inference


def main() -> None:
    """Play and print the line."""
    options = _arguments()
    os.environ.update(ONE_THREAD)
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        actor = Actor(Path(folder), options.compiled)
        actor.play(2, Meter(float("inf")))
        start_cpu_s = time.process_time()
        games, meter = 0, Meter(options.cpu_seconds)
        try:
            while True:
                actor.play(options.simulations, meter)
                games += 1
        except LimitReached:
            cpu_s = meter.cpu_s
    line = {"version": version("open_spiel"), "game": GAME, "parameters": actor.parameters, "games": games}
    print(json.dumps({**line, "positions": meter.positions, "cpu_s": cpu_s, "start_cpu_s": start_cpu_s}))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--simulations", type=int, default=64)
    parser.add_argument("--cpu-seconds", type=float, default=60.0, help="CPU time to play for")
    parser.add_argument("--compiled", action="store_true", help="with the network compiled, which is not theirs")
    return parser.parse_args()


if __name__ == "__main__":
    main()
