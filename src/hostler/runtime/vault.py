"""Where secrets are kept: in the keyring of this machine's user if one works, otherwise in a file of its own.

The file, `secrets.json` of the state directory, has mode 0600 and lists all secrets; those in the keyring without their
values. No back-up has it. A value that came with a submission is called `job:` and a number that follows from the value
and from a key in the file: the same value has the same name, and the name does not disclose it.
"""

from __future__ import annotations

import hmac
import json
import os
import secrets
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TypeAlias, TypeVar

import structlog
from pydantic import TypeAdapter, ValidationError

from hostler.model.errors import Conflict, NotFound, SpecError, StoreFull
from hostler.model.learning import ConfigSpec, EvaluationSpec, ExportSpec, SelfplaySpec, TrainingSpec
from hostler.model.record import record
from hostler.model.secrets import NAMED_MAX, OWN, OWN_MAX, SecretView, credentials, expect_value, is_own
from hostler.model.work import JobSpec, ScriptPayload
from hostler.runtime.keys import Keyring, KeyringFault, no_keyring

PartT = TypeVar("PartT", SelfplaySpec, ExportSpec, TrainingSpec, EvaluationSpec)

FindKeyring: TypeAlias = Callable[[], Keyring | None]
FILE = "file"
KEYRING = "keyring"
UNUSED_S = 30 * 86_400.0
"""A value that came with a submission is kept for so long after its last use: a job that is over may be retried."""
USED_S = 86_400.0
"""How old the note of the last use of such a value may be."""


@record
class Kept:
    """A secret as it is kept. `value` is `None` where the keyring has it."""

    set_at: float
    used_at: float
    value: str | None = None


@record
class Contents:
    """What the file has."""

    key: str
    secrets: Mapping[str, Kept]


_CONTENTS: TypeAdapter[Contents] = TypeAdapter(Contents)


class Vault:
    """The secrets of one state directory. Its methods may be called in any thread; they read and write a disk."""

    def __init__(self, path: Path, now: Callable[[], float], keyring: FindKeyring = no_keyring) -> None:
        """`now` returns Unix seconds; `keyring` finds, when it is needed, where new values go instead of the file."""
        self._path = path
        self._now = now
        self._find_keyring = keyring
        self._lock = threading.Lock()
        self._key = ""
        self._log = structlog.get_logger()

    @cached_property
    def _keyring(self) -> Keyring | None:
        return self._find_keyring()

    def names(self) -> list[SecretView]:
        """The secrets that people have set, in the order of their names. Raises `StoreFull`."""
        kept = self._read().secrets
        return [_view(name, kept[name]) for name in sorted(kept) if not is_own(name)]

    def set(self, name: str, value: str) -> SecretView:
        """Keep a value under a name; the one it had is gone. Raises `SpecError`, `Conflict`, `StoreFull`."""
        expect_value(f"secret {name}", value)
        with self._changing() as kept:
            if name not in kept and sum(not is_own(each) for each in kept) >= NAMED_MAX:
                raise Conflict(
                    f"there are {NAMED_MAX} secrets, and no more are kept. Remove some: `hostler secret remove NAME`"
                )
            kept[name] = self._kept(name, value)
            return _view(name, kept[name])

    def remove(self, name: str) -> None:
        """Forget a secret. Raises `NotFound`, `StoreFull`."""
        with self._changing() as kept:
            if name not in kept or is_own(name):
                raise NotFound(f"there is no secret {name!a}; `hostler secret list` shows the names")
            self._forget(name, kept.pop(name))

    def mark(self, value: str) -> str:
        """What tells a value from others and does not disclose it."""
        with self._changing():
            return self._ref(value)

    def protect(self, specs: Iterable[JobSpec], *, named_later: bool = False) -> tuple[JobSpec, ...]:
        """The specs with the values of variables that look like credentials kept here instead of in them.

        `named_later`: secrets that they name need not be here yet.

        Raises `SpecError` for a value that cannot be one and for the name of a secret that is not here, `StoreFull`.
        """
        found = tuple(specs)
        payloads = [each.payload for each in found if isinstance(each.payload, ScriptPayload)]
        own = {value for each in payloads if not each.plain for value in credentials(each.env).values()}
        named = {ref for each in payloads for ref in each.secrets.values()}
        if own or named:
            self._expect(found, set() if named_later else named)
        if not own:
            return found
        refs = self._keep_own(own)
        return tuple(_protected(each, refs) for each in found)

    def protect_loops(self, specs: Iterable[ConfigSpec]) -> tuple[ConfigSpec, ...]:
        """Training configs, as `protect`; secrets that they name need not be here yet."""
        return tuple(
            replace(
                spec,
                selfplay=self._protected_stage(spec.name, spec.selfplay),
                export=self._protected_stage(spec.name, spec.export),
                training=self._protected_stage(spec.name, spec.training),
                evaluation=self._protected_stage(spec.name, spec.evaluation),
            )
            for spec in specs
        )

    def values(self, wanted: Mapping[str, str]) -> dict[str, str]:
        """The values of variables, by the names of their secrets. Raises `NotFound` for one that is not here."""
        kept, found = self._read().secrets, {}
        for variable, name in wanted.items():
            if name not in kept:
                raise NotFound(_missing(variable, name))
            value = kept[name].value
            found[variable] = self._from_keyring(variable, name) if value is None else value
        stale = [name for name in wanted.values() if is_own(name) and kept[name].used_at < self._now() - USED_S]
        if stale:
            with self._changing() as changed:
                changed |= {name: replace(changed[name], used_at=self._now()) for name in stale if name in changed}
        return found

    def prune(self, needed: Collection[str]) -> None:
        """Forget values that came with submissions, if no job needs them and none has used them for `UNUSED_S`."""
        before = self._now() - UNUSED_S
        old = [
            name
            for name, each in self._read().secrets.items()
            if is_own(name) and name not in needed and each.used_at < before
        ]
        if old:
            with self._changing() as kept:
                for name in old:
                    if name in kept:
                        self._forget(name, kept.pop(name))

    def _ref(self, value: str) -> str:
        """The name of a value that came with a submission. Call it while the secrets are being changed."""
        return OWN + hmac.new(bytes.fromhex(self._key), value.encode(), sha256).hexdigest()[:32]

    def _protected_stage(self, config: str, part: PartT) -> PartT:
        stage = part.stage
        own = credentials(stage.env)
        if not own:
            return part
        for variable, value in own.items():
            expect_value(f"{variable} of config {config}", value)
        refs = self._keep_own(own.values())
        env = {name: value for name, value in stage.env.items() if name not in own}
        secrets = {**{name: refs[value] for name, value in own.items()}, **stage.secrets}
        return replace(part, stage=replace(stage, env=env, secrets=secrets))

    def _keep_own(self, values: Iterable[str]) -> dict[str, str]:
        """Keep values that came with a submission; returns their names."""
        refs = {}
        with self._changing() as kept:
            for value in values:
                refs[value] = ref = self._ref(value)
                if ref in kept:
                    kept[ref] = replace(kept[ref], used_at=self._now())
                elif sum(map(is_own, kept)) >= OWN_MAX:
                    raise SpecError(
                        f"values of {OWN_MAX} credentials are kept for jobs, and no more. Set a secret for the jobs to "
                        "share (`hostler secret set NAME`), and submit them with --secret"
                    )
                else:
                    kept[ref] = self._kept(ref, value)
        return refs

    def _expect(self, specs: Iterable[JobSpec], named: Collection[str]) -> None:
        known = self._read().secrets if named else {}
        for spec in specs:
            if not isinstance(spec.payload, ScriptPayload):
                continue
            for variable, name in spec.payload.secrets.items():
                if name in named and name not in known:
                    raise SpecError(f"job {spec.name!a}: {_missing(variable, name)}; nothing was submitted")
            if not spec.payload.plain:
                for variable, value in credentials(spec.payload.env).items():
                    expect_value(f"{variable} of job {spec.name!a}", value)

    def _kept(self, name: str, value: str) -> Kept:
        """A value where it is kept: in the keyring, or in the file where that fails."""
        now = self._now()
        if self._keyring is not None:
            try:
                self._keyring.set(name, value)
                return Kept(set_at=now, used_at=now)
            except KeyringFault as error:
                self._log.warning("the keyring does not take a secret; the file does", secret=name, why=str(error))
        return Kept(set_at=now, used_at=now, value=value)

    def _forget(self, name: str, kept: Kept) -> None:
        if kept.value is None and self._keyring is not None:
            try:
                self._keyring.remove(name)
            except KeyringFault as error:
                self._log.warning("a secret stays in the keyring", secret=name, why=str(error))

    def _from_keyring(self, variable: str, name: str) -> str:
        if self._keyring is None:
            raise NotFound(
                f"secret {name} (variable {variable}) is in the keyring, which this controller cannot use. Set it "
                f"again: `hostler secret set {name}`"
            )
        try:
            return self._keyring.get(name)
        except KeyringFault as error:
            raise NotFound(
                f"secret {name} (variable {variable}) cannot be read from the keyring: {error}. Unlock the keyring, or "
                f"set the secret again: `hostler secret set {name}`"
            ) from error

    @contextmanager
    def _changing(self) -> Iterator[dict[str, Kept]]:
        """The secrets, to be changed; the file has the changes once the block has ended without an error."""
        with self._lock:
            known = self._read()
            self._key = known.key
            kept = dict(known.secrets)
            yield kept
            if kept != known.secrets or not self._path.exists():
                self._write(Contents(key=known.key, secrets=kept))

    def _read(self) -> Contents:
        try:
            return _CONTENTS.validate_json(self._path.read_bytes())
        except FileNotFoundError:
            return Contents(key=secrets.token_hex(32), secrets={})
        except OSError as error:
            raise StoreFull(f"{self._path} cannot be read: {error.strerror}") from error
        except ValidationError:  # its text would repeat values
            raise StoreFull(
                f"{self._path} is damaged: it is not a file of secrets. Move it away, and set the secrets again"
            ) from None

    def _write(self, contents: Contents) -> None:
        """Put the file in its place with all that is in it, or not at all."""
        temporary = self._path.with_name(self._path.name + ".new")
        try:
            with suppress(FileNotFoundError):
                temporary.unlink()
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "w") as file:
                json.dump(asdict(contents), file)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(self._path)
            _sync(self._path.parent)
        except OSError as error:
            with suppress(OSError):
                temporary.unlink()
            raise StoreFull(f"{self._path} cannot be written: {error.strerror}") from error


def _protected(spec: JobSpec, refs: Mapping[str, str]) -> JobSpec:
    payload = spec.payload
    if not isinstance(payload, ScriptPayload) or payload.plain:
        return spec
    own = {name: refs[value] for name, value in credentials(payload.env).items()}
    if not own:
        return spec
    env = {name: value for name, value in payload.env.items() if name not in own}
    return replace(spec, payload=replace(payload, env=env, secrets={**own, **payload.secrets}))


def _missing(variable: str, name: str) -> str:
    if is_own(name):
        return (
            f"the value of {variable} that came with the submission is not on this controller's machine any more: it "
            "was unused for 30 days, or another machine took the submission. Submit the job again"
        )
    return f"there is no secret {name} (variable {variable}). Set it: `hostler secret set {name}`"


def _view(name: str, kept: Kept) -> SecretView:
    return SecretView(name=name, set_at=kept.set_at, kept_in=KEYRING if kept.value is None else FILE)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
