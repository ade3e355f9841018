"""The machines of a Ray cluster and what a job asks of one of them: does it fit, and if not, by which numbers?

Ray itself says nothing: a job that fits nowhere waits for ever (Ray 2.60).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field

from hostler.model.record import record

GIB = 2**30
UNITS = {"CPU": "CPUs", "GPU": "GPUs", "memory": "GiB of memory"}
NONE: Mapping[str, float] = {}
NO_LABELS: Mapping[str, str] = {}
NAMED_MOST = 6


@record
class Machine:
    """One machine, as the cluster tells of it."""

    id: str
    ip: str
    alive: bool
    total: Mapping[str, float] = field(default_factory=lambda: NONE)
    """What it has, by the names of Ray: `CPU`, `GPU`, `memory` in bytes, and what its owner has named."""
    labels: Mapping[str, str] = field(default_factory=lambda: NO_LABELS)
    says: str | None = None
    """Why it is dead, in Ray's words."""
    head: bool = False

    @property
    def gpu_model(self) -> str | None:
        """What Ray calls its GPUs."""
        told = self.labels.get("ray.io/accelerator-type")
        named = (name.partition(":")[2] for name in self.total if name.startswith("accelerator_type:"))
        return told or next(named, None)


@record
class Wants:
    """What a job asks of one machine."""

    cpus: float
    gpus: int = 0
    memory_gb: float | None = None
    resources: Mapping[str, float] = field(default_factory=lambda: NONE)
    labels: Mapping[str, str] = field(default_factory=lambda: NO_LABELS)
    grows: bool = False
    """Whether the cluster begins machines for it: what there is now says nothing of what there can be."""

    def amounts(self) -> dict[str, float]:
        """By the names of Ray."""
        memory = {} if self.memory_gb is None else {"memory": self.memory_gb * GIB}
        asked = {"CPU": self.cpus, "GPU": float(self.gpus), **memory, **self.resources}
        return {name: amount for name, amount in asked.items() if amount}

    def in_words(self) -> str:
        """For people."""
        asked = ", ".join(_amount(name, amount) for name, amount in self.amounts().items()) or "nothing"
        return asked + _with_labels(self.labels)


def fits(wants: Wants, machine: Machine) -> int:
    """How many such jobs one machine takes at a time, if it has nothing else to do."""
    if not machine.alive or any(machine.labels.get(name) != value for name, value in wants.labels.items()):
        return 0
    amounts = wants.amounts()
    return int(min((machine.total.get(name, 0.0) + 1e-9) // amount for name, amount in amounts.items()))


def refusal(wants: Wants, machines: Sequence[Machine]) -> str | None:
    """Why no machine will ever take such a job, with the numbers; `None`: one does, or may be begun for it."""
    if wants.grows:
        return None
    alive = [machine for machine in machines if machine.alive]
    if not alive:
        return f"a machine for {wants.in_words()} is asked for, and the cluster has none that is alive"
    if any(fits(wants, machine) for machine in alive):
        return None
    labelled = [each for each in alive if fits(_labels_alone(wants), each)]
    if not labelled:
        return f"machines{_with_labels(wants.labels)} are asked for, and there are {_labels_of(alive)}"
    short = [_short(name, amount, labelled) for name, amount in wants.amounts().items()]
    told = [each for each in short if each is not None]
    where = _with_labels(wants.labels)
    if told:
        return "; ".join(told) + (f" (of those{where})" if where else "")
    return f"{wants.in_words()} on one node are asked for together, and none has all of it: {_largest(labelled)}"


def too_many(asked: Sequence[Wants], machines: Sequence[Machine]) -> str | None:
    """Why not all of these jobs can ever run at a time, with the numbers; `None`: as far as this sees, they can."""
    asked = [each for each in asked if not each.grows]
    for wants, count in _counted(asked):
        room = sum(fits(wants, machine) for machine in machines)
        if room < count:
            return f"{count} pilots of {wants.in_words()} are asked for, and {room} fit on {_alive(machines)}"
    for name in dict.fromkeys(name for wants in asked for name in wants.amounts()):
        total = sum(machine.total.get(name, 0.0) for machine in machines if machine.alive)
        needed = sum(wants.amounts().get(name, 0.0) for wants in asked)
        if needed > total + 1e-9:
            together = f"{len(asked)} pilots ask for {_amount(name, needed)} together"
            return f"{together}, and the cluster has {_amount(name, total)}"
    return None


def in_words(machines: Sequence[Machine]) -> str:
    """What a cluster has, in one line."""
    total = Counter[str]()
    for machine in machines:
        if machine.alive:
            total.update({name: machine.total.get(name, 0.0) for name in UNITS})
    told = ", ".join(_amount(name, total[name]) for name in UNITS if total[name])
    return f"{_alive(machines)}: {told}" if told else _alive(machines)


def _counted(asked: Sequence[Wants]) -> Iterator[tuple[Wants, int]]:
    for index, wants in enumerate(asked):
        if wants not in asked[:index]:
            yield wants, sum(each == wants for each in asked)


def _labels_alone(wants: Wants) -> Wants:
    return Wants(cpus=1e-6, labels=wants.labels)


def _short(name: str, amount: float, machines: Sequence[Machine]) -> str | None:
    """Of one resource: what is asked for, and the most that any machine has."""
    most = max(machine.total.get(name, 0.0) for machine in machines)
    if most + 1e-9 >= amount:
        return None
    has = f"the largest has {_number(name, most)}" if most else "none has any"
    return f"{_amount(name, amount)} on one node {_are(name, amount)} asked for, and {has}"


def _largest(machines: Sequence[Machine]) -> str:
    told = dict.fromkeys(_has(machine) for machine in machines)
    more = ", …" if len(told) > NAMED_MOST else ""
    return "; ".join(list(told)[:NAMED_MOST]) + more


def _has(machine: Machine) -> str:
    named = [name for name in machine.total if name in UNITS]
    return f"{machine.ip} has " + ", ".join(_amount(name, machine.total[name]) for name in sorted(named))


def _labels_of(machines: Sequence[Machine]) -> str:
    found = dict.fromkeys(
        f"{name}={value}" for machine in machines for name, value in machine.labels.items() if name != "ray.io/node-id"
    )
    listed = ", ".join(list(found)[:NAMED_MOST])
    return f"only the labels {listed}" if listed else "no machines with labels"


def _with_labels(labels: Mapping[str, str]) -> str:
    told = " and ".join(f"{name}={value}" for name, value in labels.items())
    return f" with the labels {told}" if told else ""


def _alive(machines: Sequence[Machine]) -> str:
    count = sum(machine.alive for machine in machines)
    return "1 node" if count == 1 else f"{count} nodes"


def _amount(name: str, amount: float) -> str:
    unit = UNITS.get(name, name)
    return f"{_number(name, amount)} {unit.removesuffix('s') if _number(name, amount) == '1' else unit}"


def _are(name: str, amount: float) -> str:
    return "is" if _number(name, amount) == "1" and name != "memory" else "are"


def _number(name: str, amount: float) -> str:
    return f"{amount / GIB:.4g}" if name == "memory" else f"{amount:g}"
