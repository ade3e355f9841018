"""What a plan says, against what the order says that it names: the order is what runs.

What only one of them says counts; what both say has to be the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_address
from urllib.parse import urlsplit

from hostler.model.rl import Advice, Ordered, OrderedAdvice
from hostler.settings.rl import Rl, RlAdvice

SAME = ("runners", "envs_per_runner", "episode_steps", "batch_steps", "fragment_steps", "stale_updates", "steps")
"""What the plan and the order both may say, under these names."""
SAME_OF_ADVICE = ("model", "key_env", "timeout_s", "calls_per_s")


def maybe(asked: Rl, ordered: Ordered | None, name: str) -> int | None:
    """As the plan says; where it says nothing, as the order does."""
    own: int | None = getattr(asked, name)
    return own if own is not None or ordered is None else getattr(ordered, name)


def differences(asked: Rl, ordered: Ordered | None, address: str | None) -> Iterator[str]:
    """What both say, and not the same; `address` is where the plan's cluster answers."""
    if ordered is None:
        return
    for name in (*SAME, "frame_skip", "runner_cpus", "learner_cpus"):
        own, others = getattr(asked, name), getattr(ordered, name)
        if own is not None and own != others:
            yield f"{name} is {own:,} in the plan, and {others:,} in {ordered.path}, which is what runs"
    yield from _of_senses(asked, ordered)
    if ordered.on_ray and asked.cluster.kind == "here":
        yield f"the plan is for this machine without Ray, and {ordered.path} has workers on Ray (`training.ray`)"
    if not ordered.on_ray and asked.cluster.kind != "here":
        yield (
            f"the plan is for a cluster, and {ordered.path} says nothing of Ray (`training.ray`): its "
            f"{ordered.runners} workers would be processes of one machine"
        )
    yield from _of_cluster(asked, ordered, address, is_certain=True)
    if asked.advice is not None and ordered.advice is not None:
        yield from _of_advice(asked.advice, ordered.advice, ordered.path)


def unclear(asked: Rl, ordered: Ordered | None, address: str | None) -> Iterator[str]:
    """What both say differently, and may mean the same by; and what is planned, and nobody does."""
    if ordered is None:
        return
    yield from _of_cluster(asked, ordered, address, is_certain=False)
    if asked.advice is not None and ordered.advice is None:
        yield f"advice is planned (`rl.advice`), and {ordered.path} asks nobody: it has no `training.advice`"


def advice(said: RlAdvice | None, ordered: OrderedAdvice | None) -> Advice | None:
    """What is planned of advice; what the plan says nothing of is as the order has it."""
    usual = None if ordered is None else _only_ordered(ordered)
    if said is None:
        return usual
    other = usual or Advice(timeout_s=said.timeout_s)
    capacity = said.capacity
    if said.concurrent is not None and said.latency_s is not None:
        capacity = said.concurrent / said.latency_s
    return Advice(
        calls_per_step=said.calls_per_step,
        calls_per_s=other.calls_per_s if said.calls_per_s is None else said.calls_per_s,
        blocking=said.blocking,
        latency_s=said.latency_s,
        capacity=capacity,
        endpoint=said.endpoint or other.endpoint,
        model=said.model or other.model,
        key_env=None if said.key_env is not None or said.key_file is not None else other.key_env,
        timeout_s=said.timeout_s if "timeout_s" in said.model_fields_set else other.timeout_s,
    )


def _only_ordered(said: OrderedAdvice) -> Advice:
    return Advice(
        calls_per_s=said.calls_per_s,
        endpoint=said.endpoint,
        model=said.model,
        key_env=said.key_env,
        timeout_s=said.timeout_s,
    )


def _of_senses(asked: Rl, ordered: Ordered) -> Iterator[str]:
    if asked.sound is not None and asked.sound != ordered.sound:
        yield f"sound is {_told(asked.sound)} in the plan, and {_told(ordered.sound)} by the game of {ordered.path}"
    if asked.drawn_frames is not None and (asked.drawn_frames > 0) != ordered.screen:
        own, drawn = asked.drawn_frames, "one is" if ordered.screen else "none is"
        yield f"{own:,} frames of a step are drawn in the plan, and {drawn} by the game of {ordered.path}"


def _of_advice(said: RlAdvice, ordered: OrderedAdvice, path: str) -> Iterator[str]:
    if said.endpoint is not None and said.endpoint.rstrip("/") != ordered.endpoint:
        yield _two("endpoint", said.endpoint, "url", ordered.endpoint, path)
    for name in SAME_OF_ADVICE:
        own, others = getattr(said, name), getattr(ordered, name)
        if name in said.model_fields_set and own is not None and own != others:
            yield _two(name, own, "key" if name == "key_env" else name, others, path)
    if said.blocking:
        yield f"`rl.advice.blocking` has steps wait for advice, and no step of {path} does (`training.advice`)"


def _two(name: str, own: object, theirs: str, others: object, path: str) -> str:
    own, others = (f"{each:g}" if isinstance(each, float) else each for each in (own, others))
    there = "not said" if others is None else others
    return f"`rl.advice.{name}` is {own}, and `training.advice.{theirs}` of {path} is {there}, which is what is asked"


def _of_cluster(asked: Rl, ordered: Ordered, address: str | None, *, is_certain: bool) -> Iterator[str]:
    """Names may be those of one machine, addresses are not; what a machine calls itself says nothing elsewhere."""
    joined, kind = ordered.ray_address, asked.cluster.kind
    if joined is None or kind == "here":
        return
    where = f"`training.ray.address` of {ordered.path} is {joined}"
    if joined == "local":
        if is_certain:
            yield f"{where}, which begins a Ray of its own where the training runs, and the plan is for a cluster"
        return
    if kind == "kuberay":
        if not is_certain:
            yield f"{where}, and the plan has KubeRay make a cluster for the job (`rl.cluster.kind`)"
        return
    own, other = _host(address), _host(joined)
    if own is None or other is None or _is_same(own, other) or is_certain != (_is_number(own) and _is_number(other)):
        return
    yield f"the Ray cluster answers at {address} in the plan (`rl.cluster.address`, or that of its nodes), and {where}"


def _host(address: str | None) -> str | None:
    if address is None:
        return None
    try:
        host = urlsplit(address if "://" in address else f"//{address}").hostname
    except ValueError:
        return None
    is_here = host == "localhost" or (host is not None and _is_number(host) and ip_address(host).is_loopback)
    return None if is_here else host


def _is_number(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _is_same(own: str, other: str) -> bool:
    """Also where one of them is said with its domain."""
    short, long = sorted((own.rstrip("."), other.rstrip(".")), key=len)
    return short == long or (not _is_number(short) and long.startswith(f"{short}."))


def _told(is_on: bool) -> str:
    return "on" if is_on else "off"
