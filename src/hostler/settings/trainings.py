"""The `rl` section of a fleet file, and the order that it names, as a plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import yaml

from hostler.model.errors import SettingsError
from hostler.model.rl import NONE, SCREEN, Claims, Hosts, Measured, Ordered, Pods, Rates, RlPlan, Share
from hostler.settings.loading import Loaded
from hostler.settings.ordering import advice, differences, maybe, unclear
from hostler.settings.rays import rl_entrance, rl_entrance_faults
from hostler.settings.rl import Rl, RlShare

YOURS = "given in rl.rates"
USUAL_FRAGMENT = 128


def order_path(loaded: Loaded) -> Path | None:
    """The order that the file names; `None`: none."""
    asked = loaded.fleet.rl
    return None if asked is None or asked.order is None else loaded.base_dir / Path(asked.order).expanduser()


def checkpoints_path(loaded: Loaded) -> Path | None:
    """The folder for checkpoints that all nodes share; `None`: none is named."""
    named = None if loaded.fleet.rl is None else loaded.fleet.rl.checkpoints
    return None if named is None else loaded.base_dir / Path(named).expanduser()


def manifest_path(loaded: Loaded) -> Path | None:
    """The manifest that the file names; `None`: none."""
    asked = loaded.fleet.rl
    named = None if asked is None else asked.cluster.manifest
    return None if named is None else loaded.base_dir / Path(named).expanduser()


def rl_plan(loaded: Loaded, ordered: Ordered | None, here: Share) -> RlPlan:
    """What is planned. `ordered` is what its order says, `here` this machine; the file has an `rl` section."""
    asked = loaded.fleet.rl
    assert asked is not None
    manifest = manifest_path(loaded)
    entrance = rl_entrance(loaded)
    address = None if entrance is None else entrance.asked.address
    sees = bool(ordered and ordered.screen) if asked.drawn_frames is None else asked.drawn_frames > 0
    return RlPlan(
        cluster=asked.cluster.kind,
        address=address,
        address_faults=rl_entrance_faults(loaded),
        manifest=None if manifest is None else asked.cluster.manifest,
        manifest_fault=None if manifest is None else manifest_fault(manifest),
        joins=None if ordered is None or ordered.ray_address == "local" else ordered.ray_address,
        differs=tuple(differences(asked, ordered, address)),
        may_differ=tuple(unclear(asked, ordered, address)),
        hosts=tuple(_hosts(asked)) or (Hosts(name="here", count=1, has=here),),
        pods=tuple(Pods(name=p.name, count=p.count, takes=_share(p), on=p.on) for p in asked.pods),
        head=None if asked.head is None else Pods(name="head", count=1, takes=_share(asked.head), on=asked.head.on),
        head_works=asked.head is None or asked.head.works,
        apart=asked.apart,
        runners=_said(asked, ordered, "runners"),
        envs_per_runner=_said(asked, ordered, "envs_per_runner"),
        batch_steps=_said(asked, ordered, "batch_steps"),
        frame_skip=_said(asked, ordered, "frame_skip"),
        episode_steps=maybe(asked, ordered, "episode_steps"),
        env_episode_steps=asked.env_episode_steps,
        fragment_steps=maybe(asked, ordered, "fragment_steps") or USUAL_FRAGMENT,
        stale_updates=maybe(asked, ordered, "stale_updates"),
        steps=maybe(asked, ordered, "steps"),
        drawn_frames=int(sees) if asked.drawn_frames is None else asked.drawn_frames,
        sound=bool(ordered and ordered.sound) if asked.sound is None else asked.sound,
        runner_cpus=asked.runner_cpus or (1.0 if ordered is None else ordered.runner_cpus),
        learner_cpus=asked.learner_cpus or (1.0 if ordered is None else ordered.learner_cpus),
        one_per_node=ordered is not None and ordered.one_per_node,
        learns_beside=asked.learns_beside,
        advice=advice(asked.advice, None if ordered is None else ordered.advice),
        rates=_rates(asked, SCREEN if ordered is not None and ordered.screen else Rates()),
        claims=Claims(**{name: getattr(asked.claims, name) for name in type(asked.claims).model_fields}),
    )


def advice_key(loaded: Loaded, environ: Mapping[str, str]) -> str | None:
    """The key for the language model; `None`: it has none. Raises `SettingsError` where it cannot be read."""
    asked = None if loaded.fleet.rl is None else loaded.fleet.rl.advice
    if asked is None or (asked.key_env is None and asked.key_file is None):
        return None
    if asked.key_env is not None:
        key, where = environ.get(asked.key_env, "").strip(), f"the variable {asked.key_env}"
    else:
        path = loaded.base_dir / Path(str(asked.key_file)).expanduser()
        key, where = _first_line(path), str(path)
    if not key:
        raise SettingsError(f"rl.advice: {where} holds no key")
    return key


def manifest_fault(path: Path) -> str | None:
    """Why a file cannot be applied as a manifest; `None`: it is YAML, and each part of it says what it is."""
    try:
        parts = list(yaml.safe_load_all(path.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError) as error:
        return f"it cannot be read: {getattr(error, 'strerror', None) or error}"
    except yaml.MarkedYAMLError as error:
        where = "" if error.problem_mark is None else f" in line {error.problem_mark.line + 1}"
        return f"it is no YAML{where}: {error.problem or error}"
    except yaml.YAMLError as error:
        return f"it is no YAML: {error}"
    parts = [each for each in parts if each is not None]
    if not parts:
        return "there is nothing in it"
    if not all(isinstance(each, dict) and "kind" in each and "apiVersion" in each for each in parts):
        return "a part of it has no apiVersion or no kind"
    return None


def _first_line(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").partition("\n")[0].strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise SettingsError(f"rl.advice: {path} cannot be read: {why}") from error


def _hosts(asked: Rl) -> Iterator[Hosts]:
    for each in asked.hosts:
        reserved, serving = _share(each.reserved), _share(each.serving)
        yield Hosts(name=each.name, count=each.count, has=_share(each), reserved=reserved, serving=serving)


def _share(said: RlShare) -> Share:
    found = Share(cpus=said.cpus, memory_gb=said.memory_gb, gpus=said.gpus)
    return NONE if found == NONE else found


def _said(asked: Rl, ordered: Ordered | None, name: str) -> int:
    found = maybe(asked, ordered, name)
    assert found is not None  # the section is refused without it
    return found


def _rates(asked: Rl, usual: Rates) -> Rates:
    """What was measured elsewhere, over what is known of our own game."""
    said, source = asked.rates, asked.rates.source or YOURS
    given = {
        name: Measured(low=ends[0], high=ends[1], source=source)
        for name in type(said).model_fields
        if name not in ("source", "env_steps_per_cpu_s") and (ends := getattr(said, name)) is not None
    }
    whole = said.env_steps_per_cpu_s
    step = None if whole is None else Measured(low=1e6 / whole[1], high=1e6 / whole[0], source=source)
    both = {"frames_with_sound": given["frames_per_cpu_s"]} if "frames_per_cpu_s" in given else {}
    return replace(usual, **given, **both, env_step_us=step)
