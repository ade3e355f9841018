"""What is shown of jobs that learn by reinforcement: what they told of themselves in their output, and nothing else.

As in `views`: plain values with a JSON form, times are Unix seconds, unknown is `null`. docs/reference/rl.md has the
lines that it is read from.
"""

from __future__ import annotations

from collections.abc import Mapping

from hostler.model.record import record
from hostler.model.views import JobView


@record
class RlSpentView:
    """What the processors' time went into."""

    name: str
    """`emulate`, `encode`, `policy`, `advice`, `transport`, `learn`, or what else is told."""
    seconds: float
    """CPU-seconds of all processes, over all lives of the training."""
    share: float | None
    """Of all of it, 0..1; `None`: nothing was spent."""
    share_now: float | None
    """The same over the last `window_s`."""


@record
class RlPartView:
    """A component of the reward."""

    name: str
    paid: float | None
    """In all episodes."""
    share: float | None
    """Of all that was paid and taken, 0..1."""
    is_alarm: bool
    """It makes up more than it should: the policy may have learnt it and nothing else."""


@record
class RlAxisView:
    """A value that places are combinations of."""

    name: str
    width: int
    """It is less than that."""


@record
class RlPlaceView:
    """A place that was come to."""

    number: int
    episodes: int
    """In how many."""


@record
class RlPictureView:
    """A picture of an environment, as the route of pictures has it."""

    env: int
    steps: int
    """That all environments had made when it was told."""
    at: float | None
    """When it was told."""
    width: int
    height: int
    mark: str
    """Another picture has another one."""


@record
class RlPointView:
    """What one line told; or, where there were too many, one of several."""

    steps: int
    seconds: float
    per_s: float | None
    """Steps a second since the point before; `None`: there is none."""
    reward: float | None
    places: float | None


@record
class RlTroubleView:
    """What a training says went wrong."""

    at: float | None
    """When it was heard; `None`: it was there when the output was read first."""
    says: str


@record
class RlCallsView:
    """Calls to whoever advises that came to the same."""

    name: str
    """What they came to: `answered`, `garbage`, `timeout` or what else is told."""
    calls: int
    mean_s: float | None
    longest_s: float | None


@record
class RlAdviceView:
    """What became of advice."""

    success: float | None
    """Share of the last calls that were answered as they should be, 0..1."""
    half_s: float | None
    """What half of the calls took at most, of those that were answered or given up; `None`: that was not told."""
    most_s: float | None
    """What nine in ten took at most."""
    numbers: Mapping[str, float | None]
    """What else is told: steps with (`cached`) and without (`unknown`) advice, and the like."""
    calls: tuple[RlCallsView, ...]
    trouble: str | None
    """The last one."""
    alarm: str | None


@record
class RlNumbers:
    """Its last line. All of it is `None` or empty where it has told nothing yet."""

    envs: int | None
    steps: int | None
    steps_asked: int | None
    updates: int | None
    episodes: int | None
    seconds: float | None
    """Of learning and waiting, over all lives of the training."""
    per_s: float | None
    """Steps a second over the last `window_s`."""
    window_s: float | None
    per_s_mean: float | None
    """The same over all its lives."""
    per_cpu_s: float | None
    """Steps by CPU-second of all processes, over all its lives."""
    reward: float | None
    """Mean of the last episodes."""
    places: float | None
    """The same of places they came to."""
    alarms: tuple[str, ...]
    """What people are to know: components of the reward that make up more than they should, and `advice calls`."""
    done: bool | None
    """`True`: it came to its end; `False`: it was asked to end before; `None`: it has not said that it is over."""


@record
class RlRow:
    """A job that learns by reinforcement, in a line."""

    job: JobView
    attempt: str | None
    """Whose output is read: the last one. `None`: there was none yet."""
    told_at: float | None
    """When it told something last; `None`: nothing yet, or nobody knows when."""
    fault: str | None
    """Why its output cannot be read now; what is shown is what was read before."""
    lines: int
    """Lines of its output that were read and understood."""
    skipped: int
    """Those that were not what they should be, and were left out."""
    numbers: RlNumbers


@record
class RlDetail:
    """Everything that a training told; of its output only the end is read."""

    row: RlRow
    spent: tuple[RlSpentView, ...]
    parts: tuple[RlPartView, ...]
    map: tuple[RlAxisView, ...]
    """What places are made of, the last value fastest; empty where it is not told."""
    explored: tuple[RlPlaceView, ...]
    """The places that were come to most often, some thousands at most, by number."""
    places_explored: int
    """All that were come to."""
    pictures: tuple[RlPictureView, ...]
    """By environment."""
    advice: RlAdviceView | None
    """`None`: there is none, or it is not told."""
    update: Mapping[str, float | None]
    """`loss`, `entropy` and the like of the last update."""
    troubles: tuple[RlTroubleView, ...]
    """The last ones, oldest first."""
    troubles_told: int
    """All that were read."""
