"""What is the best that could be done, and what is each class of devices worth?

A linear programme over (group of work, class of devices), solved by HiGHS through `highspy` (extra `opt`). It gives the
shares of the best plan, the bound that nothing can exceed, the price of each class (the dual value of its capacity:
what one more device of it would bring), and which quotas cannot be met, and why. Without the solver there is a rough
guess of the prices and nothing else.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field
from importlib.util import find_spec
from math import inf
from typing import Any, TypeAlias

from hostler.model.planning import Demand, Instance, Plan, QuotaRow
from hostler.model.record import entity

TIGHT = 1e-6
"""Amounts below this are rounding of the solver."""
STRONG = 10.0
"""How many times the best work a device could do a missed quota device, or a share of the backlog, counts."""

Key: TypeAlias = tuple[str, ...]
"""The name of a row or a block of columns of the programme; what a basis is kept under."""
Names: TypeAlias = tuple[str, ...]
"""What the columns of a block are called; a column is the block's key and that."""


def available() -> bool:
    """Whether the solver is installed."""
    return find_spec("highspy") is not None


def solve(instance: Instance, time_limit_s: float = 1.0) -> Plan:
    """The best plan, from scratch. Raises `ImportError` without the solver."""
    return Solver().solve(instance, time_limit_s)


def plan_without_solver(instance: Instance) -> Plan | None:
    """Prices alone: the mean relative speed of each class, weighted by work where it is known. `None`: no work fits."""
    weights = {demand.name: demand.work or 0.0 for demand in instance.demands}
    if not any(weights.values()):
        weights = dict.fromkeys(weights, 1.0)
    means = {
        cls: sum(weights[demand.name] * _rates(demand).get(cls, 0.0) for demand in instance.demands)
        for cls in instance.classes
    }
    if not any(means.values()):
        return None
    return _no_plan("no solver", _normal(means), None)


class Solver:
    """Solves one instance after the other, each starting from where the last one ended."""

    def __init__(self) -> None:
        import highspy

        self._names: Any = highspy
        self._highs: Any = self._names.Highs()
        for option, value in (("output_flag", False), ("threads", 1), ("parallel", "off"), ("solver", "simplex")):
            self._highs.setOptionValue(option, value)
        self._used: list[Key] = []
        """Columns in use in the last solution."""
        self._rows: dict[Key, bool] = {}
        """Rows of the last programme, and whether they left something over."""

    def solve(self, instance: Instance, time_limit_s: float = 1.0) -> Plan:
        """The best plan. The same instances in the same order give the same plans unless time runs out."""
        model = _modelled(instance)
        self._pass(model)
        # HiGHS counts the time of all runs of one object together.
        before_s = float(self._highs.getRunTime())
        self._highs.setOptionValue("time_limit", before_s + time_limit_s)
        self._highs.run()
        seconds = float(self._highs.getRunTime()) - before_s
        status = self._highs.getModelStatus()
        if status != self._names.HighsModelStatus.kOptimal:
            self._used, self._rows = [], {}
            guess = plan_without_solver(instance)
            words = str(self._highs.modelStatusToString(status)).lower()
            return _no_plan(words, {} if guess is None else guess.prices, seconds)
        found = self._highs.getSolution()
        used, duals = model.used(found.col_value), dict(zip(model.rows, found.row_dual, strict=True))
        self._used = list(used)
        self._rows = {key: abs(dual) < TIGHT for key, dual in duals.items()}
        return _plan(instance, used, duals, seconds)

    def _pass(self, model: _Model) -> None:
        columns, rows = len(model.gains), len(model.rows)
        by_row, maximise = int(self._names.MatrixFormat.kRowwise), int(self._names.ObjSense.kMaximize)
        self._highs.passModel(
            columns,
            rows,
            len(model.factors),
            by_row,
            maximise,
            0.0,
            model.gains,
            [0.0] * columns,
            model.mosts,
            model.lows,
            model.highs,
            model.starts,
            model.indices,
            model.factors,
            [0] * columns,  # none of them integral
        )
        if self._rows:
            self._highs.setBasis(self._old_basis(model))

    def _old_basis(self, model: _Model) -> Any:
        """What the last solution says about the columns and rows that are still there; new columns are out of use.

        Read off the solution: HiGHS has its basis as one object for every column, which takes as long as solving, and
        its short list of what is basic ends the process where there was nothing to solve.
        """
        names, basis = self._names, self._names.HighsBasis()
        status = names.HighsBasisStatus
        statuses = [status.kLower] * len(model.gains)
        for name in self._used:
            number = model.number(name)
            if number is not None:
                statuses[number] = status.kBasic
        basis.col_status = statuses
        basis.row_status = [
            status.kBasic if self._rows.get(key, True) else status.kUpper if low == -inf else status.kLower
            for key, low in zip(model.rows, model.lows, strict=True)
        ]
        # It need not be square any more; HiGHS mends it.
        basis.alien, basis.valid = True, True
        return basis


@entity
class _Model:
    """The programme in the solver's form: maximise `gains` within the rows; all columns at least 0."""

    blocks: dict[Key, tuple[int, Names]] = field(default_factory=dict)
    """The columns, in order: the number of the first one of each block, and what they are called."""
    keys: list[Key] = field(default_factory=list)
    firsts: list[int] = field(default_factory=list)
    gains: list[float] = field(default_factory=list)
    mosts: list[float] = field(default_factory=list)
    rows: list[Key] = field(default_factory=list)
    lows: list[float] = field(default_factory=list)
    highs: list[float] = field(default_factory=list)
    starts: list[int] = field(default_factory=lambda: [0])
    indices: list[int] = field(default_factory=list)
    factors: list[float] = field(default_factory=list)

    def block(self, key: Key, called: Names, gains: Iterable[float], most: float = inf) -> range:
        """Add columns; their numbers."""
        first = len(self.gains)
        self.blocks[key] = first, called
        self.keys.append(key)
        self.firsts.append(first)
        self.gains.extend(gains)
        self.mosts.extend([most] * len(called))
        return range(first, len(self.gains))

    def name(self, number: int) -> Key:
        """What the column with this number is called."""
        key = self.keys[bisect_right(self.firsts, number) - 1]
        first, called = self.blocks[key]
        return *key, called[number - first]

    def number(self, name: Key) -> int | None:
        """The number of the column of this name, if there is one."""
        first, called = self.blocks.get(name[:-1], (0, ()))
        return first + called.index(name[-1]) if name[-1] in called else None

    def used(self, values: Sequence[float]) -> dict[Key, float]:
        """The values of columns that are in use."""
        return {self.name(number): value for number, value in enumerate(values) if value > TIGHT}

    def least_row(self, key: Key, least: float, entries: Iterable[tuple[int, float]]) -> None:
        """Add a row: the sum of columns times factors is no less than that."""
        self.rows.append(key)
        self.lows.append(least)
        self.highs.append(inf)
        entries = list(entries)
        self.indices.extend([index for index, _ in entries])
        self.factors.extend([factor for _, factor in entries])
        self.starts.append(len(self.indices))

    def sum_row(self, key: Key, most: float, columns: Collection[int]) -> None:
        """Add a row: these columns together are no more than that."""
        self.rows.append(key)
        self.lows.append(-inf)
        self.highs.append(most)
        self.indices.extend(columns)
        self.factors.extend([1.0] * len(columns))
        self.starts.append(len(self.indices))


def _modelled(instance: Instance) -> _Model:
    model = _Model()
    cells = _cells(model, instance)
    by_class: dict[str, list[int]] = {cls: [] for cls in instance.classes}
    for of_demand in cells.values():
        for cls, index in of_demand.items():
            by_class[cls].append(index)
    for cls, room in instance.classes.items():
        model.sum_row(("room", cls), room, by_class[cls])
    for demand in instance.demands:
        if demand.most is not None:
            model.sum_row(("most", demand.name), demand.most, cells[demand.name].values())
    strong = STRONG * max((max(demand.worth.values(), default=0.0) for demand in instance.demands), default=0.0)
    for quota in instance.quotas:
        _add_quota(model, instance, quota, cells, strong or 1.0)
    _add_backlog(model, instance, cells, strong or 1.0)
    return model


def _cells(model: _Model, instance: Instance) -> dict[str, dict[str, int]]:
    """One column for each group and each class that it fits and that has devices enough for one of its jobs."""
    cells: dict[str, dict[str, int]] = {}
    cost, roomy_for = instance.cost, dict[int, set[str]]()
    for demand in instance.demands:
        if demand.devices not in roomy_for:
            least = demand.devices - 1 + TIGHT
            roomy_for[demand.devices] = {cls for cls, room in instance.classes.items() if room >= least}
        roomy = roomy_for[demand.devices]
        gains = demand.worth
        if cost or not roomy.issuperset(gains):
            gains = {cls: worth - cost.get(cls, 0.0) for cls, worth in gains.items() if cls in roomy}
        numbers = model.block(("cell", demand.name), tuple(gains), gains.values())
        cells[demand.name] = dict(zip(gains, numbers, strict=True))
    return cells


def _add_quota(
    model: _Model, instance: Instance, quota: QuotaRow, cells: Mapping[str, Mapping[str, int]], strong: float
) -> None:
    penalty = strong if quota.penalty is None else quota.penalty
    (missing,) = model.block(("missing", quota.name), ("",), [-penalty])
    entries = [
        (index, 1.0)
        for demand in instance.demands
        if demand.name in quota.groups
        for cls, index in cells[demand.name].items()
        if cls in quota.classes
    ]
    model.least_row(("quota", quota.name), _owed(quota, instance), [*entries, (missing, 1.0)])


def _add_backlog(model: _Model, instance: Instance, cells: Mapping[str, Mapping[str, int]], strong: float) -> None:
    """Every group with work gets speed in proportion to it: at least the common pace, which is to be high."""
    unit = _unit_s(instance)
    waiting = [demand for demand in instance.demands if demand.work and cells[demand.name]]
    if unit is None or not waiting:
        return
    most = unit / instance.drain_least_s if instance.drain_least_s > 0 else inf
    (pace,) = model.block((), ("pace",), [strong * sum(instance.classes.values())], most)
    for demand in waiting:
        rates = _rates(demand)
        entries = [(index, rates[cls]) for cls, index in cells[demand.name].items()]
        model.least_row(("work", demand.name), 0.0, [*entries, (pace, -(demand.work or 0.0) / unit)])


def _unit_s(instance: Instance) -> float | None:
    """How long the backlog would take if every device were everyone's best; pace 1 is that. `None`: no backlog."""
    work = sum(
        demand.work or 0.0 for demand in instance.demands if any(cls in demand.worth for cls in instance.classes)
    )
    devices = sum(instance.classes.values())
    return work / devices if work > 0 and devices > 0 else None


def _plan(instance: Instance, values: Mapping[Key, float], duals: Mapping[Key, float], seconds: float) -> Plan:
    """`values` are those of columns that are in use."""
    shares: dict[str, dict[str, float]] = {demand.name: {} for demand in instance.demands}
    bound = 0.0
    worth = {demand.name: demand.worth for demand in instance.demands}
    for key, value in values.items():
        if key[0] == "cell":
            shares[key[1]][key[2]] = value
            bound += worth[key[1]][key[2]] * value
    raw = {cls: abs(duals["room", cls]) for cls in instance.classes}
    missing = {quota.name: values.get(("missing", quota.name, ""), 0.0) for quota in instance.quotas}
    unit, pace = _unit_s(instance), values.get(("pace",), 0.0)
    return Plan(
        status="optimal",
        shares=shares,
        prices=_normal(raw),
        raw_prices=raw,
        bound=bound,
        drain_s=unit / pace if unit is not None and pace > TIGHT else None,
        quota_slack={name: (lack if lack > TIGHT else 0.0) for name, lack in missing.items()},
        conflicts=tuple(
            _conflict(q, instance, shares, missing[q.name]) for q in instance.quotas if missing[q.name] > TIGHT
        ),
        seconds=seconds,
    )


def _no_plan(status: str, prices: Mapping[str, float], seconds: float | None) -> Plan:
    return Plan(
        status=status,
        shares={},
        prices=prices,
        raw_prices={},
        bound=None,
        drain_s=None,
        quota_slack={},
        conflicts=(),
        seconds=seconds,
    )


def _conflict(quota: QuotaRow, instance: Instance, shares: Mapping[str, Mapping[str, float]], missing: float) -> str:
    owed = _owed(quota, instance)
    head = (
        f"quota {quota.name}: {quota.share:.3g} of {_devices(owed / quota.share)} is {owed:.3g}, {missing:.3g} too many"
    )
    mine = [demand for demand in instance.demands if demand.name in quota.groups]
    fitting = {cls for demand in mine for cls in demand.worth if cls in quota.classes and instance.classes.get(cls)}
    room = sum(instance.classes[cls] for cls in fitting)
    if room < owed - TIGHT:
        return f"{head}: its work fits {_devices(room)} of them only ({_listed(fitting) or 'no class'})"
    usable = sum(_usable(demand, room) for demand in mine)
    if usable < owed - TIGHT:
        return f"{head}: its work can use {_devices(usable)} at the same time"
    others = _listed(other.name for other in instance.quotas if other is not quota and _meet(other, shares, fitting))
    return f"{head}: what it fits ({_listed(fitting)}) is owed to others as well ({others or 'nobody'})"


def _meet(other: QuotaRow, shares: Mapping[str, Mapping[str, float]], classes: Iterable[str]) -> bool:
    """Whether the other quota's work holds some of these classes."""
    held = sum(shares.get(name, {}).get(cls, 0.0) for name in other.groups for cls in classes if cls in other.classes)
    return held > TIGHT


def _usable(demand: Demand, room: float) -> float:
    return room if demand.most is None else demand.most


def _owed(quota: QuotaRow, instance: Instance) -> float:
    return quota.share * sum(instance.classes.get(cls, 0.0) for cls in quota.classes)


def _devices(count: float) -> str:
    return f"{count:.4g} device{'' if count == 1 else 's'}"


def _listed(classes: Iterable[str]) -> str:
    return ", ".join(sorted(classes))


def _rates(demand: Demand) -> Mapping[str, float]:
    if demand.rates is not None:
        return demand.rates
    most = max(demand.worth.values(), default=0.0)
    return {cls: worth / most for cls, worth in demand.worth.items()} if most > 0 else demand.worth


def _normal(prices: Mapping[str, float]) -> dict[str, float]:
    """Prices with the dearest 1; none at all if nothing has one."""
    most = max(prices.values(), default=0.0)
    return {cls: price / most for cls, price in prices.items()} if most > TIGHT else {}
