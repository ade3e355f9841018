"""The accounting of a lab: MariaDB, slurmdbd, and who may do what."""

from __future__ import annotations

import fcntl
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from tests.patience import PATIENCE_S
from tests.slurm.config import CLUSTER, DATABASE, DATABASE_PORT, PASSWORD, Place

if TYPE_CHECKING:
    from tests.slurm.lab import Lab

ACCOUNT = "research"
QOS = "normal,train,scavenger"


def words(place: Place) -> tuple[str, ...]:
    """The server, which a power cut may cost everything: nobody waits for a disk."""
    return (
        *("mariadbd", *_options(place), f"--socket={place.folder}/db.s", "--bind-address=127.0.0.1"),
        *(f"--port={place.port + DATABASE_PORT}", "--skip-name-resolve", f"--pid-file={place.folder}/run/mariadbd.pid"),
        *("--innodb-buffer-pool-size=64M", "--innodb-flush-log-at-trx-commit=0", "--innodb-lock-wait-timeout=900"),
    )


def start(lab: Lab) -> None:
    """The database, new or from the cache, and slurmdbd; the account and the users are there."""
    if lab.cache is None:
        _make(lab)
    else:
        _copy(lab, lab.cache)


def install(lab: Lab) -> None:
    """A server's own tables; Debian's package does it once."""
    words = ("mariadb-install-db", *_options(lab.place), "--auth-root-authentication-method=normal", "--skip-test-db")
    lab.run(*words, check=True, within_s=PATIENCE_S)


def answers(lab: Lab) -> bool:
    """Whether the server does."""
    ping = ("mariadb-admin", "--no-defaults", "-uroot", f"--socket={lab.folder}/db.s", "ping")
    return lab.run(*ping).returncode == 0


def _copy(lab: Lab, cache: Path) -> None:
    """From what an earlier lab has made; whoever comes first makes it, and the others wait for that."""
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (cache / "db").exists():
            _make(lab)
            lab.slurmdbd.stop()
            lab.mariadbd.stop()
            shutil.copytree(lab.folder / "db", cache / "new", dirs_exist_ok=True)
            (cache / "new").rename(cache / "db")
        else:
            shutil.copytree(cache / "db", lab.folder / "db")
    lab.start_mariadbd()
    lab.start_slurmdbd()


def _make(lab: Lab) -> None:
    install(lab)
    lab.start_mariadbd()
    _sql(lab, f"create database {DATABASE}")
    _sql(lab, f"create user 'slurm'@'127.0.0.1' identified by '{PASSWORD}'")
    _sql(lab, f"grant all on {DATABASE}.* to 'slurm'@'127.0.0.1'")
    lab.start_slurmdbd()
    _people(lab)


def _people(lab: Lab) -> None:
    """One account, three qualities of service, of which one pushes another aside, and this user."""
    user = lab.place.user
    for asked in (
        f"add cluster {CLUSTER}",
        f"add account {ACCOUNT}",
        "add qos scavenger",
        "add qos train priority=100 preempt=scavenger",
        f"add user {user} account={ACCOUNT} qos={QOS}",
        # Slurm's own root has an account of its own, which may use none of them.
        f"modify user {user} set DefaultAccount={ACCOUNT}",
    ):
        lab.run("sacctmgr", "-i", *asked.split(), check=True)


def _sql(lab: Lab, statement: str) -> None:
    lab.run("mariadb", "--no-defaults", "-uroot", f"--socket={lab.folder}/db.s", "-e", statement, check=True)


def _options(place: Place) -> tuple[str, ...]:
    # The log is small because every lab copies it, and nothing is written through to the disk.
    return (
        *("--no-defaults", f"--user={place.user}", f"--datadir={place.folder}/db"),
        *("--innodb-log-file-size=8M", "--innodb-flush-method=nosync"),
    )
