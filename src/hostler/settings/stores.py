"""The `stores` and `replication` sections of a fleet file, as the runtime has them."""

from __future__ import annotations

import os
from collections.abc import Iterable

from hostler.model.artifacts import ReplicationRules, Standing, StoreSpec
from hostler.settings.keeping import Store
from hostler.settings.loading import Loaded

MB, GB = 1_000_000, 1_000_000_000
SECRETS = {
    "s3": (
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "AWS_SECURITY_TOKEN",
        "AWS_CONTAINER_AUTHORIZATION_TOKEN",
    ),
    "rclone": ("RCLONE_",),
}
"""How variables begin by which credentials are given to those who reach stores of a kind."""


def replication_rules(loaded: Loaded) -> ReplicationRules:
    """How many copies there should be."""
    asked = loaded.fleet.replication
    wanted = {standing: getattr(asked, standing.value).wanted() for standing in Standing}
    return ReplicationRules(
        wanted=wanted,
        verified_within_s=asked.reread_s,
        scrub_bytes_per_s=asked.scrub_mb_per_s * MB,
        away_s=asked.away_s,
    )


def store_specs(loaded: Loaded) -> tuple[StoreSpec, ...]:
    """The stores; paths start from the folder of the fleet file."""
    return tuple(_spec(loaded, store) for store in loaded.fleet.stores)


def store_secrets(loaded: Loaded, names: Iterable[str]) -> frozenset[str]:
    """Of these variables those with credentials of stores: nothing that runs on this machine is to have them."""
    secret = tuple(prefix for store in loaded.fleet.stores for prefix in SECRETS.get(store.kind, ()))
    return frozenset(name for name in names if name.startswith(secret))


def _spec(loaded: Loaded, asked: Store) -> StoreSpec:
    root = {"directory": asked.path, "s3": asked.bucket, "rclone": asked.remote, "node": asked.path}[asked.kind]
    assert root is not None
    domains = {"directory": "here", "node": asked.node}
    return StoreSpec(
        name=asked.name,
        kind=asked.kind,
        root=_path(loaded, root) if asked.kind == "directory" else root,
        domain=asked.domain or domains.get(asked.kind) or asked.name,
        node=asked.node,
        prefix=asked.prefix or "",
        endpoint=asked.endpoint,
        region=asked.region,
        profile=asked.profile,
        config=None if asked.config is None else _path(loaded, asked.config),
        bytes_per_s=None if asked.mb_per_s is None else asked.mb_per_s * MB,
        reserve_bytes=int(asked.reserve_gb * GB),
    )


def _path(loaded: Loaded, written: str) -> str:
    return str(loaded.base_dir / os.path.expanduser(written))
