"""What `hostler up` shows: a live view on a terminal, plain lines without one, a summary at the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from io import TextIOWrapper
from types import TracebackType
from typing import TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from hostler.model.units import duration, printable, quantity, share
from hostler.model.views import ConfigView, HitView, JobDetail, Status, SweepView
from hostler.model.work import JobState, StagePayload, WorkKind
from hostler.runtime.clock import Clock
from hostler.web.desk import Desk

LIVE_S = 0.25
LINE_S = 5.0
FAILURES_SHOWN = 10
HITS_SHOWN = 5
NAME_WIDTH = 20


class Reporter:
    """Shows a controller at work. A context manager: what is shown live is taken down when the block is left."""

    def __init__(self, desk: Desk, out: TextIO, clock: Clock, fleet: str, first: Sequence[str]) -> None:
        """`first` are the lines that are shown at the beginning."""
        self._desk = desk
        self._clock = clock
        self._fleet = fleet
        self._first = first
        if isinstance(out, TextIOWrapper):
            # A terminal that cannot write a name must not end the controller.
            out.reconfigure(errors="backslashreplace")
        self._console = _Screen(file=out, highlight=False, markup=False, soft_wrap=not out.isatty())
        self._live: Live | None = None
        self._started = clock.now()
        self._last_line = ""

    def __enter__(self) -> Reporter:
        if self._console.is_terminal:
            self._live = Live(console=self._console, auto_refresh=False, transient=True)
            self._live.start()
        for line in self._first:
            self.say(line)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def say(self, text: str) -> None:
        """One line, above what is shown live."""
        # Whoever reads this may be gone, or its disk be full; that must not end the controller.
        with suppress(OSError):
            self._console.print(text)

    @property
    def interval_s(self) -> float:
        """How often `show` should be called."""
        return LIVE_S if self._live is not None else LINE_S

    async def show(self) -> None:
        """Show where things stand."""
        if self._live is not None:
            with suppress(OSError):
                self._live.update(self._view(), refresh=True)
        else:
            self._say_line()

    async def summary(self, names: Sequence[str]) -> None:
        """What became of the jobs `names`: sweeps with their hits, scripts in numbers, every failure with its why."""
        every = [(await self._desk.having(name)).job() for name in names]
        details = [detail for detail in every if not isinstance(detail.spec.payload, StagePayload)]
        configs = self._desk.configs()
        self.say(f"\n{self._fleet}: {self._outcome(details, configs)} in {duration(self._clock.now() - self._started)}")
        for detail in details:
            if detail.sweep is not None:
                self._say_sweep(detail, await self._desk.hits(detail.job.id, 0, HITS_SHOWN))
        self._say_scripts([detail for detail in details if detail.sweep is None])
        for config in configs:
            self._say_config(config)
        status = self._desk.status()
        if status.refused or status.troubles:
            self.say(f"  {status.refused} results refused, {status.troubles} troubles; `hostler events` tells of each")

    def _outcome(self, details: Sequence[JobDetail], configs: Sequence[ConfigView]) -> str:
        done = sum(detail.job.state is JobState.DONE for detail in details)
        parts = [f"{done} of {len(details)} jobs are done"] if done < len(details) else []
        for state, words in (("missed", "missed their goal"), ("open", "are not at their goal")):
            count = sum(config.state == state for config in configs)
            parts += [f"{count} of {len(configs)} configs {words}"] if count else []
        return ", ".join(parts) or "everything is done"

    def _say_config(self, config: ConfigView) -> None:
        """What became of a training config; how the current model came to be current is its own story."""
        self.say(f"  {_name(config.name)} {config.state} ({config.next}): {_config_numbers(config)}")
        current = [model for model in self._desk.models(config.name) if model.current]
        for model in current:
            self.say(f"      current is model {model.number}, {model.sha256[:12]}: {printable(model.why or '', 200)}")

    def _say_sweep(self, detail: JobDetail, hits: Sequence[HitView]) -> None:
        sweep = detail.sweep
        assert sweep is not None
        self.say(
            f"  {_name(sweep.name)} {sweep.state}: {share(sweep.done, sweep.total)} of [{sweep.start}, {sweep.stop}) "
            f"in {sweep.chunks_done} chunks, {duration(sweep.device_s)} of devices; {_hit_count(sweep)}"
        )
        for hit in hits:
            self.say(f"      found {hit.at}{_rest_of(hit.data)}")
        if sweep.hits > len(hits):
            self.say(f"      and {sweep.hits - len(hits)} more: hostler sweep hits {sweep.job}")
        self._say_failure(detail)

    def _say_scripts(self, details: Sequence[JobDetail]) -> None:
        if not details:
            return
        done = sum(detail.job.state is JobState.DONE for detail in details)
        again = sum(max(detail.job.attempts - 1, 0) for detail in details)
        retried = f", {again} attempts more than jobs" if again else ""
        self.say(f"  scripts: {done} of {len(details)} done{retried}")
        undone = [detail for detail in details if detail.job.state is not JobState.DONE]
        for detail in undone[:FAILURES_SHOWN]:
            self._say_failure(detail)
        if len(undone) > FAILURES_SHOWN:
            self.say(f"      and {len(undone) - FAILURES_SHOWN} more: hostler jobs --state failed")

    def _say_failure(self, detail: JobDetail) -> None:
        if detail.job.state is not JobState.DONE:
            why = printable(detail.job.why or self._desk.explain(detail.job.id).summary, 300)
            self.say(f"      {detail.job.id} {_name(detail.job.name)} {detail.job.state}: {why}")

    def _say_line(self) -> None:
        """A plain line, if it says something new."""
        status = self._desk.status()
        parts = [_counts(status), *(_sweep_text(sweep) for sweep in status.sweeps)]
        parts += [f"{_name(config.name)} {_config_numbers(config)}" for config in self._open_configs()]
        line = "; ".join(parts)
        if line != self._last_line:
            self._last_line = line
            self.say(f"{duration(self._clock.now() - self._started):>8}  {line}")

    def _view(self) -> RenderableType:
        status = self._desk.status()
        elapsed = duration(self._clock.now() - self._started)
        busy = f"{status.devices_busy} of {status.devices} devices busy"
        head = Text(f"{elapsed}  {_counts(status)}  {busy}", style="bold", overflow="ellipsis", no_wrap=True)
        running = self._desk.jobs(frozenset({JobState.RUNNING}), 0, 50)
        scripts = [f"{job.name} on {job.device}" for job in running if job.work is not WorkKind.SWEEP]
        lines = [Text(f"  {printable(text, 76)}", style="dim") for text in scripts[:6]]
        loops = [Text(f"  {_name(config.name)} {_config_numbers(config)}") for config in self._open_configs()[:12]]
        return Group(head, _sweep_table(status.sweeps), *loops, *lines)

    def _open_configs(self) -> Sequence[ConfigView]:
        return [config for config in self._desk.configs() if config.state == "open"]


class _Screen(Console):
    def on_broken_pipe(self) -> None:
        """Rich would end the whole program; that is for `say` to judge."""
        raise BrokenPipeError("nobody reads the output any more")


def _sweep_table(sweeps: Sequence[SweepView]) -> Table:
    table = Table.grid(padding=(0, 1))
    for sweep in sweeps[:10]:
        bar = ProgressBar(total=1.0, completed=sweep.done / sweep.total, width=20)
        table.add_row(Text("  " + _name(sweep.name)), bar, Text(_sweep_numbers(sweep)))
    return table


def _sweep_text(sweep: SweepView) -> str:
    return f"{_name(sweep.name)} {_sweep_numbers(sweep)}"


def _sweep_numbers(sweep: SweepView) -> str:
    left = f", {duration(sweep.left_s)} left" if sweep.left_s is not None else ""
    hits = f", {sweep.hits} hits" if sweep.hits else ""
    return f"{share(sweep.done, sweep.total)}, {quantity(sweep.per_s, '/s')}{left}{hits}"


def _config_numbers(config: ConfigView) -> str:
    """A training config in a line: generation, strength, games, what comes next."""
    generation = "no model yet" if config.generation is None else f"model {config.generation}"
    rating = config.rating
    elo = "" if rating is None else f", Elo {rating.elo:.0f} [{rating.low:.0f}, {rating.high:.0f}]"
    games = f", {config.games} games" + ("" if config.games_per_h is None else f" ({config.games_per_h:.0f}/h)")
    return f"{generation}{elo}{games}" + _progress(config)


def _progress(config: ConfigView) -> str:
    if config.trial is None or config.trial.llr is None:
        return ", training" if WorkKind.TRAINING in config.stages else ""
    trial = config.trial
    return f", candidate: {trial.groups} groups, LLR {trial.llr:.1f} of {trial.upper:.1f}"


def _counts(status: Status) -> str:
    groups = {
        "waiting": (JobState.PENDING,),
        "running": (JobState.LEASED, JobState.LAUNCHING, JobState.RUNNING, JobState.COLLECTING),
        "done": (JobState.DONE,),
        "failed": (JobState.FAILED,),
        "cancelled": (JobState.CANCELLED,),
    }
    counts = {word: sum(status.jobs[state] for state in states) for word, states in groups.items()}
    return ", ".join(f"{count} {word}" for word, count in counts.items() if count) or "no jobs yet"


def _hit_count(sweep: SweepView) -> str:
    chance = sweep.expected_by_chance
    return f"{sweep.hits} hits" + ("" if chance is None else f" ({chance:.2g} expected by chance)")


def _rest_of(data: Mapping[str, object]) -> str:
    rest = ", ".join(f"{key} {value}" for key, value in data.items() if key != "at")
    return f" ({printable(rest, 60)})" if rest else ""


def _name(name: str) -> str:
    return printable(name, NAME_WIDTH)
