"""The tables. The journal is the truth, its old entries in `segments`; `jobs`, `hits`, `requests`, hours of usage, and
what is known of artifacts, are projections of it, written in the same transaction.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    false,
    text,
)

from hostler.store.dialect import Name, Words

SCHEMA = "0012"
"""The newest migration; what this version writes."""
metadata = MetaData()

journal = Table(
    "journal",
    metadata,
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("at", Double, nullable=False),
    Column("job", Name, nullable=True),
    Column("data", Text, nullable=False),
    # The controller that wrote it; null where that was not noted yet. It never falls with `seq`.
    Column("epoch", BigInteger, nullable=True),
    # Of all that the row says (`store.checking`); null where an older version wrote it.
    Column("checksum", BigInteger, nullable=True),
    Index("journal_by_job", "job", "seq"),
)

segments = Table(
    "segments",
    metadata,
    # Entries `first` to `last`, which `journal` has no more (`store.segments`).
    Column("first", BigInteger, primary_key=True, autoincrement=False),
    Column("last", BigInteger, nullable=False),
    Column("entries", BigInteger, nullable=False),
    Column("first_at", Double, nullable=False),
    Column("last_at", Double, nullable=False),
    Column("first_epoch", BigInteger, nullable=True),
    Column("last_epoch", BigInteger, nullable=True),
    # Of the content, and its length; `data` is the content deflated.
    Column("sha256", String(64), nullable=False),
    Column("content_bytes", BigInteger, nullable=False),
    Column("packed_bytes", BigInteger, nullable=False),
    Column("data", LargeBinary, nullable=False),
)

segment_jobs = Table(
    "segment_jobs",
    metadata,
    # Which jobs a segment has entries of: a bit of `members` for each job of a block of them.
    Column("block", BigInteger, primary_key=True, autoincrement=False),
    Column("first", BigInteger, primary_key=True, autoincrement=False),
    Column("members", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

snapshots = Table(
    "snapshots",
    metadata,
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("at", Double, nullable=False),
    Column("data", LargeBinary, nullable=False),
)

bases = Table(
    "bases",
    metadata,
    # A snapshot that a repair has made: what lies before it cannot be folded any more, so it is kept, and backed up.
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("at", Double, nullable=False),
    Column("data", LargeBinary, nullable=False),
)

set_aside = Table(
    "set_aside",
    metadata,
    # Rows of the journal that a repair has replaced: what stood there, as it was.
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("why", Words, nullable=False),
    Column("data", LargeBinary, nullable=True),
)

jobs = Table(
    "jobs",
    metadata,
    Column("id", Name, primary_key=True),
    Column("number", BigInteger, nullable=False),
    Column("name", Words, nullable=False),
    Column("work", Name, nullable=False),
    Column("state", Name, nullable=False),
    Column("priority", Integer, nullable=False),
    Column("submitted_at", Double, nullable=False),
    Column("started_at", Double, nullable=True),
    Column("ended_at", Double, nullable=True),
    Column("attempts", Integer, nullable=False),
    Column("why", Words, nullable=True),
)

past = Table(
    "past",
    metadata,
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("key", Words, nullable=True),
    Column("work", Name, nullable=False),
    Column("state", Name, nullable=False),
    # All that was known of it, packed (`store.past`).
    Column("data", Text, nullable=False),
    Index("past_by_key", "key", sqlite_where=text("key is not null"), postgresql_where=text("key is not null")),
    # Nearly all are done; a few others are looked for among millions.
    Index(
        "past_by_state",
        "state",
        "number",
        sqlite_where=text("state <> 'done'"),
        postgresql_where=text("state <> 'done'"),
    ),
    Index(
        "past_by_work",
        "work",
        "number",
        sqlite_where=text("work <> 'script'"),
        postgresql_where=text("work <> 'script'"),
    ),
)

hits = Table(
    "hits",
    metadata,
    # The journal entry that brought the hit, and its place in it.
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("place", Integer, primary_key=True, autoincrement=False),
    Column("job", Name, nullable=False),
    # Text, because items may be larger than any integer type of a database.
    Column("item", Words, nullable=False),
    Column("data", Text, nullable=False),
    Index("hits_by_job", "job", "seq", "place"),
)

usage_of = Table(
    "usage_of",
    metadata,
    # What an hour is of: a device as it was then, and a kind of work. Told once, and not in each of its hours.
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("node", Words, nullable=False),
    Column("device", Words, nullable=False),
    Column("kind", Name, nullable=False),
    Column("model", Words, nullable=True),
    Column("pool", Words, nullable=True),
    Column("provider", Words, nullable=True),
    # Of the device; null where nobody knows it.
    Column("price_per_h", Double, nullable=True),
    # `idle`: none.
    Column("work", Name, nullable=False),
    Index("usage_of_by_device", "device"),
)

usage_hours = Table(
    "usage_hours",
    metadata,
    # Unix time // 3600.
    Column("hour", Integer, primary_key=True, autoincrement=False),
    Column("of", Integer, primary_key=True, autoincrement=False),
    # Whole numbers, small and the same in every database: milliseconds, and what came to an end.
    Column("device_ms", Integer, nullable=False),
    Column("up_ms", Integer, nullable=False),
    Column("measured_ms", Integer, nullable=False),
    Column("busy_ms", Integer, nullable=False),
    Column("done", Integer, nullable=False),
    Column("failed", Integer, nullable=False),
    # The rows are the index: half the size.
    sqlite_with_rowid=False,
)

usage_days = Table(
    "usage_days",
    metadata,
    # Unix time // 86400. The sums of its hours, once it is over: a year is asked for by days.
    Column("day", Integer, primary_key=True, autoincrement=False),
    Column("of", Integer, primary_key=True, autoincrement=False),
    Column("device_ms", Integer, nullable=False),
    Column("up_ms", Integer, nullable=False),
    Column("measured_ms", Integer, nullable=False),
    Column("busy_ms", Integer, nullable=False),
    Column("done", Integer, nullable=False),
    Column("failed", Integer, nullable=False),
    sqlite_with_rowid=False,
)

requests = Table(
    "requests",
    metadata,
    # The journal entries that say what somebody asked for; what they say stands in the journal.
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
)

artifacts = Table(
    "artifacts",
    metadata,
    Column("sha256", String(64), primary_key=True),
    Column("kind", Name, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("config", Words, nullable=True),
    Column("job", Name, nullable=True),
    # The journal entry that told of it, which orders them.
    Column("seq", BigInteger, nullable=False),
    Column("made_at", Double, nullable=False),
    # What it is worth now: it decides how many copies are wanted.
    Column("standing", Name, nullable=False),
    Column("games", BigInteger, nullable=True),
    # Of games: whether a dataset was chosen from them, or the quality gate refused them.
    Column("exported", Boolean, nullable=False),
    # When the oldest copy was read that its having all copies wanted rests on; null: somebody has to look.
    Column("settled_on", Double, nullable=True),
    Index("artifacts_by_seq", "seq", unique=False),
    Index("artifacts_by_config", "config", "kind", "seq"),
    Index("artifacts_by_kind", "kind", "seq"),
    Index("artifacts_of_config", "config", "seq"),
    Index("artifacts_settled", "settled_on"),
    Index(
        "artifacts_open",
        "standing",
        "seq",
        "sha256",
        sqlite_where=text("settled_on is null"),
        postgresql_where=text("settled_on is null"),
    ),
)

settling = Table(
    "settling",
    metadata,
    # One row: the rules under which artifacts are settled.
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("rules", Text, nullable=False),
)

lineage = Table(
    "lineage",
    metadata,
    Column("child", String(64), primary_key=True),
    Column("parent", String(64), primary_key=True),
    Index("lineage_by_parent", "parent", "child"),
)

copies = Table(
    "copies",
    metadata,
    Column("sha256", String(64), primary_key=True),
    Column("place", Words, primary_key=True),
    Column("verified_at", Double, nullable=True),
    Column("damaged", Boolean, nullable=False),
    # What is to be read next in a place.
    Index("copies_by_age", "place", "verified_at"),
)

told = Table(
    "told",
    metadata,
    # By target of alerts: up to which journal entry it has been told.
    Column("target", Words, primary_key=True),
    Column("through", BigInteger, nullable=False),
)

controllers = Table(
    "controllers",
    metadata,
    Column("epoch", BigInteger, primary_key=True, autoincrement=False),
    Column("started_at", Double, nullable=False),
    Column("version", Name, nullable=False),
)

leader = Table(
    "leader",
    metadata,
    # One row: which controller may write. Whoever takes it over counts `epoch` up; each write asks for its own.
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("epoch", BigInteger, nullable=False),
    # Counted up by the one that leads for as long as it lives; the others watch it with clocks of their own.
    Column("beat", BigInteger, nullable=False),
    # Whose state directory it runs on: one that comes back takes its place again at once, and finds its own artifacts.
    Column("controller", Words, nullable=False),
    # Who it is, and where it answers, for people and for clients that came to another. Empty: it has given up.
    Column("holder", Words, nullable=False),
    Column("url", Words, nullable=True),
    # What tells this journal from every other one: agents elsewhere have their folders under it.
    Column("identity", Words, nullable=True),
    # Where the journal was taken: nobody leads it here any more.
    Column("moved_to", Words, nullable=True),
    # Whether the journal has lost entries that were confirmed: nodes may know of what was in them.
    Column("lost", Boolean, nullable=False, server_default=false()),
)
