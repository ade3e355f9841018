"""Is this device still to be trusted? What failed on it in a row, told by work that is known to be sound.

A job that is broken fails everywhere, and would take one device after another from everybody else. So the failures of
a family of jobs count against a device only if the family has succeeded somewhere and has not failed on another node
since; and it takes two such families, or one that has succeeded on another device of late.

An error that may be the job's own as well (`retry.Diagnosis.doubtful`) counts for less: only once its family has
succeeded elsewhere after it, or another family has failed on the device, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hostler.model.record import record
from hostler.model.rules import QuarantineRules
from hostler.model.work import FailureClass

OWN = frozenset({FailureClass.EXIT, FailureClass.SIGNAL})
"""Classes of the job's own. A strike of one of them is of an error that may be the device's as well."""
CANARY_REST_S = 30.0
"""First rest of a device that failed its canary; doubled each time it fails again."""
CANARY_REST_MAX_S = 1800.0
SMALL = 0.5
"""Share of a device's VRAM: who needs no more, has the device alone and finds too little of it, finds it leaking."""


@record
class Strike:
    """One failure of the device's own kind."""

    at: float
    job: str
    family: str
    """The group of jobs that behave alike which the job is of."""
    failure: FailureClass


@record
class Witness:
    """What a family of jobs has come to outside of one device. Unix seconds; `None`: it has not."""

    succeeded_at: float | None
    """When it last succeeded, anywhere."""
    elsewhere_at: float | None
    """When it last succeeded on another device."""
    failed_at: float | None
    """When it last failed in a way that speaks against a device, on another node."""


def speaks_against(failure: FailureClass, *, node_lost: bool, small: bool, doubtful: bool = False) -> bool:
    """Whether such a failure is, or may be, of the device's own kind.

    `node_lost`: the node, not only the attempt, was out of reach. `small`: it had the device alone, and should have
    needed no more than a part of its VRAM (see `is_small`). `doubtful`: it spoke of what devices do, too.
    """
    match failure:
        case FailureClass.DEVICE | FailureClass.SPAWN:
            return True
        case FailureClass.LOST:
            return not node_lost
        case FailureClass.MEMORY:
            return small
    return doubtful and failure in OWN


def is_small(need_gb: float, vram_gb: float | None) -> bool:
    """Whether a job that says what VRAM it needs would have more than enough of a device of its own."""
    return vram_gb is not None and 0 < need_gb <= SMALL * vram_gb


def verdict(rules: QuarantineRules, strikes: Sequence[Strike], witnesses: Mapping[str, Witness]) -> str | None:
    """Why a trusted device is to be quarantined after these failures in a row; `None` where it is not.

    `witnesses` has every family of `strikes`.
    """
    credible = [each for each in strikes if counts(each, strikes, witnesses[each.family])]
    if len(credible) < rules.failures:
        return None
    families = {each.family for each in credible}
    recent = credible[-1].at - rules.rest_max_s
    proven = sorted(name for name in families if (witnesses[name].elsewhere_at or 0.0) > max(recent, 0.0))
    if len(families) < 2 and not proven:
        return None
    how = ", ".join(dict.fromkeys(each.failure for each in credible))
    whose = f"of {len({each.job for each in credible})} jobs"
    sound = f"{proven[0]} does well elsewhere" if proven else f"{len(families)} kinds of work that did well before"
    return f"{len(credible)} failures in a row ({how}) {whose}; {sound}"


def counts(strike: Strike, strikes: Sequence[Strike], witness: Witness) -> bool:
    """Whether a failure, one of those of its device in a row, tells of the device; `witness` is of its family."""
    if not is_credible(witness):
        return False
    if strike.failure not in OWN:
        return True
    elsewhere_since = witness.elsewhere_at is not None and witness.elsewhere_at > strike.at
    return elsewhere_since or any(other.family != strike.family for other in strikes)


def is_credible(witness: Witness) -> bool:
    """Whether a failure of the family tells of the device rather than of the family."""
    if witness.succeeded_at is None:
        return False
    return witness.failed_at is None or witness.succeeded_at >= witness.failed_at


def canary_rest_s(failures: int) -> float:
    """How long a device rests whose canary has failed so often in a row."""
    return min(CANARY_REST_S * 2.0 ** min(failures - 1, 62), CANARY_REST_MAX_S)


def rest_s(rules: QuarantineRules, strikes: int) -> float:
    """How long a device rests that is quarantined for the `strikes`-th time in a row."""
    doublings = min(max(strikes - 1, 0), 62)
    return float(min(rules.rest_s * 2**doublings, rules.rest_max_s))
