"""The state directory: where everything of one controller lies, and the lock that makes it one controller's."""

from __future__ import annotations

import fcntl
import json
import os
import pwd
import secrets
import shutil
import time
from collections.abc import Collection, Mapping
from itertools import count
from pathlib import Path

from hostler.backends.base import Store
from hostler.client.small_files import read_small, read_small_text
from hostler.model.errors import Conflict, StoreBusy, StoreFull
from hostler.store.dialect import FILE, Place

TOKEN_LENGTH = 32
LOCK_TRIES = 10
LOCK_REST_S = 0.02
KEPT = ("token", "session.key", "identity", "known_hosts", "notified.json", "ended.json", "fleet.yaml", "fleet.json")
"""What a backup has of a state directory besides its journal, and all of the folder `dialin`: without them nodes and
people would not know the controller again."""
LEFT_AS_IT_IS = ("lock", "artifacts", "results", "logs", "restoring")
"""What may lie in a state directory that a journal is restored into."""


def user_name() -> str:
    """The operating-system user that this process runs as; `uid N` where the system has no name for it."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return f"uid {os.geteuid()}"


class StateDir:
    """Paths of one state directory. Nothing else builds a path inside it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: int | None = None

    @property
    def place(self) -> Place:
        """Where the journal is: here, or in the database that the newest controller was told of."""
        try:
            return read_small_text(self._store_file)
        except FileNotFoundError:
            return self.path

    def note_store(self, address: str | None) -> None:
        """Keep which database has the journal; `None`: this directory. Raises `StoreFull`, `Conflict`.

        A journal that is here is not left behind for an empty database: `hostler journal migrate` takes it there.
        """
        before = self.place
        if before == (address or self.path):
            return
        if isinstance(before, Path) and (self.path / FILE).exists():
            raise Conflict(
                f"the journal lies in {self.path / FILE}, and `store` names a database; take it there with "
                "`hostler journal migrate --to ADDRESS`, or name another --state-dir"
            )
        if address is None:
            raise Conflict(
                f"the journal of {self.path} lies in {before}, and the fleet file names no `store`; name it, or take "
                "the journal back with `hostler journal migrate --to sqlite`"
            )
        self.set_store(address)

    def set_store(self, address: str | None) -> None:
        """Keep that the journal is in a database, or here. Raises `StoreFull`."""
        if address is None:
            self._store_file.unlink(missing_ok=True)
        else:
            self._publish(self._store_file, address + "\n")

    @property
    def _store_file(self) -> Path:
        return self.path / "store"

    @property
    def token_file(self) -> Path:
        """The bearer token of the API, readable by its owner only."""
        return self.path / "token"

    @property
    def controller_file(self) -> Path:
        """Where the running controller answers: `{"url", "certificate", "pid", "started_at", "dialin"}`."""
        return self.path / "controller.json"

    @property
    def clock_file(self) -> Path:
        """How far the controller's time is ahead of this machine's clock: `{"ahead_s"}`; absent if it is not."""
        return self.path / "clock.json"

    @property
    def log_file(self) -> Path:
        """The controller's own log, JSON lines."""
        return self.path / "controller.log"

    @property
    def artifacts(self) -> Path:
        """Artifacts of this machine: games, datasets, models, by their hashes."""
        return self.path / "artifacts"

    @property
    def fetched(self) -> Path:
        """What is being fetched from stores for somebody who asked; nothing in it outlives a controller."""
        return self.path / "fetched"

    @property
    def results(self) -> Path:
        """Files that scripts left, in a folder for each attempt."""
        return self.path / "results"

    @property
    def snapshots(self) -> Path:
        """The files that jobs start from, as they were at submission."""
        return self.path / "snapshots"

    def drop_incoming(self, current: Collection[str]) -> None:
        """Delete what has come of the files of attempts, but for these: it was cancelled, or its node was lost."""
        incoming = Store(results=self.results, artifacts=self.artifacts).incoming("")
        for folder in sorted(incoming.glob("*")):
            if folder.name not in current:
                shutil.rmtree(folder, ignore_errors=True)

    @property
    def logs(self) -> Path:
        """What attempts on nodes elsewhere have said, once they are over."""
        return self.path / "logs"

    @property
    def kept(self) -> Mapping[str, Path]:
        """What retention looks through, by the names that it has below the state directory."""
        return {folder.name: folder for folder in (self.artifacts, self.logs)}

    def told_before(self) -> dict[str, int]:
        """By target of alerts: up to which entry versions had told it that kept that in a file here."""
        try:
            told = json.loads(read_small(self.path / "notified.json"))
            return {str(name): int(seq) for name, seq in told.items()}
        except (FileNotFoundError, ValueError, AttributeError, TypeError):
            return {}  # as if it had never been told anything

    @property
    def away_file(self) -> Path:
        """Which stores do not answer, since when."""
        return self.path / "away.json"

    def away(self) -> dict[str, dict[str, float | bool | None]]:
        """What was kept of that; a file that cannot be understood says nothing."""
        try:
            told = json.loads(read_small(self.away_file))
            return {str(name): {"since": each["since"], "suspect": each["suspect"]} for name, each in told.items()}
        except (FileNotFoundError, ValueError, AttributeError, TypeError, KeyError):
            return {}

    def note_away(self, away: Mapping[str, Mapping[str, float | bool | None]]) -> None:
        """Keep that. Raises `StoreFull`."""
        self._publish(self.away_file, json.dumps(away) + "\n")

    @property
    def ended_file(self) -> Path:
        """Sessions of browsers that were ended by hand."""
        return self.path / "ended.json"

    def note_ended(self, text: str) -> None:
        """Keep them. Raises `StoreFull`."""
        self._publish(self.ended_file, text)

    @property
    def fleet_file(self) -> Path:
        """The fleet file as the newest controller has read it."""
        return self.path / "fleet.yaml"

    def note_fleet(self, path: Path | None) -> None:
        """Keep the fleet file, and where it was; `None`: there is none. Raises `StoreFull`.

        What came through a pipe cannot be read again, and is not kept.
        """
        where = self.path / "fleet.json"
        if path is None or not path.is_file():
            self.fleet_file.unlink(missing_ok=True)
            where.unlink(missing_ok=True)
            return
        self._publish(self.fleet_file, path.read_text(encoding="utf-8"))
        self._publish(where, json.dumps({"path": str(path.absolute())}) + "\n")

    def fleet_path(self) -> str | None:
        """Where that fleet file was; `None`: there was none, or nobody noted it."""
        try:
            return str(json.loads(read_small(self.path / "fleet.json"))["path"])
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return None

    def secrets(self) -> list[Path]:
        """Every file that belongs into a backup besides the journal: secrets, most of them."""
        found = [self.path / name for name in KEPT]
        dialin = self.certificate.parent
        found += sorted(path for path in dialin.glob("*") if path.is_file()) if dialin.is_dir() else []
        return [path for path in found if path.is_file()]

    @property
    def secrets_file(self) -> Path:
        """Secrets of jobs, in no back-up."""
        return self.path / "secrets.json"

    @property
    def restoring(self) -> Path:
        """Where a journal is made that is being restored; it is there no more once that has come to its end."""
        return self.path / "restoring"

    def refuse_used(self) -> None:
        """Raise `Conflict` where there is anything of a controller, but for a restore that was cut off."""
        allowed = {*LEFT_AS_IT_IS, *((*KEPT, "dialin") if self.restoring.exists() else ())}
        try:
            found = sorted(each.name for each in self.path.iterdir() if each.name not in allowed)
        except FileNotFoundError:
            return
        except OSError as error:
            raise StoreFull(f"{self.path} cannot be looked into: {error.strerror}") from error
        if found:
            raise Conflict(
                f"{self.path} is in use: there is {', '.join(found[:5])}. Stop its controller and move the folder away "
                f"(`mv {self.path} {self.path}.old`), which ends what ran on this machine for it; to keep its files, "
                "move its folders artifacts, results and logs into a new one of that name; then restore again"
            )

    @property
    def known_hosts(self) -> Path:
        """Host keys that a person has accepted by `hostler node trust`."""
        return self.path / "known_hosts"

    @property
    def agent_file(self) -> Path:
        """Our agent, for nodes that have an older one."""
        return self.path / "agent.pyz"

    @property
    def certificate(self) -> Path:
        """What nodes that call know the controller by: a key and its certificate."""
        return self.path / "dialin" / "certificate.pem"

    @property
    def _identity_file(self) -> Path:
        return self.path / "identity"

    def agent(self, node: str) -> Path:
        """The directory of a local node's agent."""
        return self.path / "agents" / node

    def take(self, *, to_restore: bool = False) -> None:
        """Make the directory this process's own until it ends.

        Raises `StoreBusy` where another controller holds it, or a restore was cut off, `StoreFull` where it cannot be
        written.
        """
        if self.restoring.exists() and not to_restore:
            raise StoreBusy(
                f"a backup is being restored into {self.path}, or that was cut off; run `hostler backup restore` again"
            )
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.path.chmod(0o700)
            self._lock = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StoreFull(
                f"the state directory {self.path} cannot be written: {error.strerror}. "
                "Make it writable, or name another with --state-dir"
            ) from error
        self._flock(self._lock)

    def note_starting(self) -> None:
        """Let clients know that a controller of this process is starting: they wait for it. Raises `StoreFull`."""
        self._note_holder(f"{os.getpid()} starting\n")

    def set_aside_strangers(self) -> Path | None:
        """Agents of a journal that is gone do not belong to the next one, whose jobs will have the same ids.

        Their folder is renamed (its new path is returned), upon which they end by themselves. Those elsewhere are left
        behind: the next journal has another `identity`.
        """
        agents = self.path / "agents"
        if (self.path / FILE).exists() or not isinstance(self.place, Path):
            return None
        self._identity_file.unlink(missing_ok=True)
        if not agents.exists():
            return None
        aside = next(path for at in count(1) if not (path := self.path / f"agents-of-a-lost-journal-{at}").exists())
        agents.rename(aside)
        return aside

    def identity(self) -> str:
        """What tells this journal from every other one: agents elsewhere have their folders under it.

        Made at the first call after `set_aside_strangers`, which forgets that of a journal that is gone.
        """
        if not self._identity_file.exists():
            self._publish(self._identity_file, secrets.token_hex(6) + "\n")
        return read_small_text(self._identity_file)

    def adopt(self, identity: str) -> None:
        """Go by the identity of a journal that others lead as well. Raises `StoreFull`."""
        self._publish(self._identity_file, identity + "\n")

    def own_id(self) -> str:
        """What tells this directory from those of other controllers of the same journal; made at the first call."""
        file = self.path / "controller.id"
        if not file.exists():
            self._publish(file, secrets.token_hex(6) + "\n")
        return read_small_text(file)

    def release(self) -> None:
        """Let the next controller have the directory."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def token(self) -> str:
        """The API's token, made at the first call; one too short to be a secret is replaced. Raises `StoreFull`."""
        token = read_small_text(self.token_file) if self.token_file.exists() else ""
        if len(token) < TOKEN_LENGTH:
            token = secrets.token_urlsafe(32)
            self._publish(self.token_file, token + "\n")
        self.token_file.chmod(0o600)
        return token

    def session_key(self) -> bytes:
        """What cookies of browsers are signed with, made at the first call: a secret like the token."""
        file = self.path / "session.key"
        key = read_small_text(file) if file.exists() else ""
        if len(key) < TOKEN_LENGTH:
            key = secrets.token_hex(32)
            self._publish(file, key + "\n")
        file.chmod(0o600)
        return key.encode()

    def call_token(self, node: str) -> str | None:
        """What a node proves by that it is the one that calls; None if it was never invited."""
        try:
            return read_small_text(self._call_token_file(node)) or None
        except FileNotFoundError:
            return None

    def make_call_token(self, node: str) -> str:
        """Another token for a node; the one of before counts no more. Raises `StoreFull`."""
        token = secrets.token_urlsafe(32)
        self._own_folder(self._call_token_file(node).parent)
        self._publish(self._call_token_file(node), token + "\n")
        return token

    def make_certificate(self, text: str) -> None:
        """Keep key and certificate, unless there are some: then those count. Raises `StoreFull`."""
        temporary = self.certificate.with_name(f"certificate.{os.getpid()}")
        self._own_folder(self.certificate.parent)
        self._publish(temporary, text)
        try:
            os.link(temporary, self.certificate)
        except FileExistsError:
            pass  # nodes may have been told of it already
        except OSError as error:
            raise StoreFull(f"{self.certificate} cannot be written: {error.strerror}") from error
        finally:
            temporary.unlink()

    def announce(self, values: Mapping[str, object]) -> None:
        """Tell the command line where the controller answers."""
        self._publish(self.controller_file, json.dumps(dict(values)) + "\n")
        self._note_holder(f"{os.getpid()}\n")

    def withdraw(self) -> None:
        """The controller answers no more."""
        self.controller_file.unlink(missing_ok=True)

    def _call_token_file(self, node: str) -> Path:
        return self.certificate.parent / f"{node}.token"

    def _own_folder(self, folder: Path) -> None:
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            folder.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise StoreFull(f"{folder} cannot be made: {error.strerror}") from error

    def _note_holder(self, text: str) -> None:
        """Write into the lock who holds it; nobody writes into that of another process."""
        if self._lock is None:
            return
        try:
            os.ftruncate(self._lock, 0)
            os.pwrite(self._lock, text.encode(), 0)
        except OSError as error:
            raise StoreFull(f"{self.path / 'lock'} cannot be written: {error.strerror}") from error

    def _flock(self, lock: int) -> None:
        """Lock the directory. Clients that look whether somebody has the lock have it for an instant themselves."""
        for _ in range(LOCK_TRIES):
            try:
                return fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                time.sleep(LOCK_REST_S)
        self.release()
        raise StoreBusy(
            f"another controller runs on the state directory {self.path}. Talk to that one (`hostler status`), "
            "stop it (`hostler down`), or name another directory with --state-dir"
        )

    def _publish(self, path: Path, text: str) -> None:
        """Write a private file at once or not at all."""
        temporary = path.with_name(path.name + ".new")
        try:
            with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except OSError as error:
            temporary.unlink(missing_ok=True)
            raise StoreFull(f"{path} cannot be written: {error.strerror}") from error
