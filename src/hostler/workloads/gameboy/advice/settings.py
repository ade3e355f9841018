"""What is asked of a language model, how often, and what its answers are for: the section `advice` of a training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from math import prod
from string import Formatter
from typing import Any
from urllib.parse import urlsplit

from hostler.workloads.gameboy.game import Game, micro
from hostler.workloads.gameboy.strict import Fields, SpecError, fields

WHERE = "training.advice"
COMPONENT = "advice"
"""What its part of the reward is called."""
STATES_MAX = 1 << 62
"""A state is one number."""


@dataclass(frozen=True, slots=True)
class Shaping:
    """What a promise is worth; `weight` and `cap` in millionths."""

    weight: int
    """Of a promise of 1."""
    cap: int
    """What is paid and taken in an episode together, at most."""
    decay_updates: int
    """Of the policy, until a promise is worth nothing any more; it gets less by the same amount with each."""

    def weight_at(self, updates: int) -> int:
        """What a promise of 1 is worth to a policy that was updated so often, in millionths."""
        return self.weight * max(self.decay_updates - updates, 0) // self.decay_updates


@dataclass(frozen=True, slots=True)
class Rests:
    """When an endpoint is left alone, and for how long."""

    after: int = 3
    """Calls in a row that came to nothing."""
    first_s: float = 5.0
    """Then one call is tried; each time that comes to nothing, the next rest is twice as long."""
    longest_s: float = 300.0


@dataclass(frozen=True, slots=True)
class Alarm:
    """When people are told."""

    share: float = 0.8
    """Fewer than that of the last `calls` were answered as they should be."""
    calls: int = 50


@dataclass(frozen=True, slots=True)
class Asking:
    """Advice as a training wants it."""

    url: str
    """What OpenAI's clients call the base: `/chat/completions` comes after it."""
    model: str
    of: tuple[str, ...]
    """Values that make a state: two states with the same values get the same advice."""
    prompt: str
    """With names of `of` in braces."""
    calls_per_s: float
    """Of the whole training; each worker has its share."""
    key: str | None = None
    """Name of the variable that holds the token; `None`: the endpoint wants none."""
    at_once: int = 1
    """Calls that a worker has under way at most."""
    timeout_s: float = 10.0
    stale_s: float = 600.0
    """Advice that was asked for longer ago than that is dropped."""
    cache: int = 4096
    """States that a worker remembers advice for."""
    tokens: int = 256
    """Of an answer, at most."""
    observe: bool = False
    """The policy sees the advice."""
    shaping: Shaping | None = None
    """Promises are paid; `None`: they are not."""
    rests: Rests = field(default_factory=Rests)
    alarm: Alarm = field(default_factory=Alarm)

    @property
    def made_of(self) -> dict[str, Any]:
        """What a checkpoint has to agree with: what is asked, and what becomes of it; not where and how often."""
        found = asdict(self)
        return {key: found[key] for key in ("model", "of", "prompt", "observe", "shaping")} | {"of": list(self.of)}

    def width(self, actions: int) -> int:
        """How many features it adds."""
        return actions + 1 if self.observe else 0

    def decoded(self, state: int, game: Game) -> dict[str, int]:
        """The values that made this state."""
        found = {}
        for name in reversed(self.of):
            state, found[name] = divmod(state, game.values[name].below)
        return found

    def asked(self, state: int, game: Game) -> str:
        """The question for this state."""
        return self.prompt.format(**self.decoded(state, game))


def read_advice(content: object) -> Asking:
    """The section, from its mapping. Raises `SpecError`."""
    usual = Asking("", "", (), "", 0.0)
    with fields(content, WHERE) as found:
        asked = Asking(
            url=_base(found.text("url"), found.at("url")),
            model=found.text("model"),
            of=found.texts("of"),
            prompt=found.text("prompt"),
            calls_per_s=found.number("calls_per_s", least=0.001, most=1e6),
            key=found.text("key", None),
            at_once=found.whole("at_once", usual.at_once, least=1, most=64),
            timeout_s=found.number("timeout_s", usual.timeout_s, least=0.1, most=3600),
            stale_s=found.number("stale_s", usual.stale_s, least=0.1),
            cache=found.whole("cache", usual.cache, least=1, most=10_000_000),
            tokens=found.whole("tokens", usual.tokens, least=16, most=65_536),
            observe=found.flag("observe", usual.observe),
            shaping=_shaping(found),
            rests=_rests(found.inner("rests", {})),
            alarm=_alarm(found.inner("alarm", {})),
        )
    _check(asked)
    return asked


def check(asked: Asking, game: Game) -> None:
    """Raises `SpecError` for advice that this game cannot have."""
    for name in asked.of:
        if name not in game.values:
            raise SpecError(f"{WHERE}.of: there is no value {name!r} in `ram` (there are: {', '.join(game.values)})")
    if prod(game.values[name].below for name in asked.of) > STATES_MAX:
        raise SpecError(
            f"{WHERE}.of: {' and '.join(asked.of)} have more than 2^62 combinations; say what they are below"
        )
    if asked.shaping is not None and any(each.name == COMPONENT for each in game.reward.components):
        raise SpecError(f"reward.components.{COMPONENT}: that is what advice is paid as; call it something else")


def token(asked: Asking, environment: Mapping[str, str]) -> str | None:
    """What the endpoint knows us by. Raises `SpecError` where it should be, and is not."""
    if asked.key is None:
        return None
    found = environment.get(asked.key, "").strip()  # files of secrets end with a line
    if not found:
        raise SpecError(f"{WHERE}.key: there is no variable {asked.key}, or nothing in it; it holds the token")
    if not (found.isascii() and found.isprintable()) or " " in found:
        raise SpecError(f"{WHERE}.key: what is in the variable {asked.key} is no token; it has no blanks and no lines")
    return found


def _base(url: str, where: str) -> str:
    try:
        parts = urlsplit(url)
        fits = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        fits = False
    if not fits or parts.username is not None or parts.query or parts.fragment:
        raise SpecError(f"{where} has to be like http://host:8000/v1, without anything secret in it, not {url!r}")
    return f"{url.rstrip('/')}/v1" if parts.path in ("", "/") else url.rstrip("/")


def _shaping(found: Fields) -> Shaping | None:
    content = found.take("shaping", None)
    if content is None:
        return None
    with fields(content, found.at("shaping")) as own:
        shaping = Shaping(
            weight=micro(own.number("weight", least=0, most=1e6), own.at("weight")),
            cap=micro(own.number("cap", least=0, most=1e6), own.at("cap")),
            decay_updates=own.whole("decay_updates", least=1),
        )
    if shaping.cap < shaping.weight:
        raise SpecError(f"{own.at('cap')} is less than the weight: what was paid could not be taken back")
    return shaping


def _rests(found: Fields) -> Rests:
    usual = Rests()
    rests = Rests(
        after=found.whole("after", usual.after, least=1, most=1000),
        first_s=found.number("first_s", usual.first_s, least=0.01),
        longest_s=found.number("longest_s", usual.longest_s, least=0.01),
    )
    found.end()
    if rests.longest_s < rests.first_s:
        raise SpecError(f"{found.at('longest_s')} is less than {found.at('first_s')}")
    return rests


def _alarm(found: Fields) -> Alarm:
    usual = Alarm()
    alarm = Alarm(
        share=found.number("share", usual.share, least=0, most=1),
        calls=found.whole("calls", usual.calls, least=1, most=1_000_000),
    )
    found.end()
    return alarm


def _check(asked: Asking) -> None:
    if not asked.observe and asked.shaping is None:
        raise SpecError(f"{WHERE}: nobody would make anything of it; say `observe: true`, or what `shaping` is worth")
    if asked.timeout_s > asked.stale_s:
        raise SpecError(f"{WHERE}.timeout_s is more than stale_s: what is waited for so long would be dropped")
    named = _named(asked.prompt)
    for name in named:
        if name not in asked.of:
            raise SpecError(f"{WHERE}.prompt: {{{name}}} is not in `of`; braces that mean themselves are doubled")
    for name in asked.of:
        if name not in named:
            raise SpecError(f"{WHERE}.of: the prompt does not say {{{name}}}, so answers cannot depend on it")


def _named(prompt: str) -> set[str]:
    try:
        pieces = list(Formatter().parse(prompt))
    except ValueError as error:
        raise SpecError(f"{WHERE}.prompt: {error}; braces that mean themselves are doubled") from error
    for _, name, form, conversion in pieces:
        if form or conversion:
            raise SpecError(f"{WHERE}.prompt: {{{name}…}} has to be a name, and nothing else")
    return {name for _, name, _, _ in pieces if name is not None}
