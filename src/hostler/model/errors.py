"""Every error Hostler raises on purpose.

::

    HostlerError
    ├── UsageError               the caller asked for something that cannot be
    │   ├── SettingsError        a fleet file or an environment value is wrong
    │   ├── SpecError            a job, sweep or payload is wrong
    │   └── NotFound             no such job, node, sweep, attempt
    ├── Conflict                 it exists already, and differs; or its state forbids what was asked
    ├── NotOwner                 it concerns another person's job, and the caller has no right to change that
    ├── CorruptState             stored data contradicts itself or the code's invariants
    │   ├── DamagedEntry         an entry of the journal is missing, or is not what was written
    │   ├── IllegalTransition    an event does not fit the state it is applied to
    │   └── BrokenInvariant      `validate()` found a contradiction
    ├── EventRefused             an event would not load again from a journal; nothing came of its input
    ├── Outdated                 what was looked up for it has changed meanwhile: look again
    ├── FilesError               a file cannot be sent or fetched as it should be
    │   ├── FilesChanged         a file became another one on its way; another try may do
    │   └── PartlyFetched        some files that a job left stay on its node, which does not fail it
    ├── StandsBy                 this controller only stands by, and another one leads
    ├── StoreError               the journal cannot be read or written
    │   ├── StoreBusy            another controller holds the state directory
    │   ├── StoreLost            the database does not answer
    │   ├── StoreFenced          another controller leads by now
    │   │   └── StoreForked      the database goes on with another history than the one it had confirmed
    │   ├── StoreFull            no space left, or read-only
    │   ├── StoreRefused         the database refuses the data that were to be written; another try cannot help
    │   └── SchemaMismatch       the store was written by another version
    ├── AnswerError              what answered at an address is no controller, or a broken one
    └── LinkError                a node or the controller cannot be reached
        ├── LinkLost             the connection broke; nothing is known about what runs there
        ├── LinkRefused          the other side answered, and said no
        └── ControllerAbsent     no controller is running for this state directory
            └── ControllerStarting   one is starting there, and does not answer yet

Each message says what happened, to what, and what to do about it.
"""

from __future__ import annotations

from typing import Any


class HostlerError(Exception):
    """Root of the tree above; catch it to catch everything Hostler raises on purpose."""


class UsageError(HostlerError):
    """The caller asked for something that cannot be."""


class SettingsError(UsageError):
    """A fleet file or an environment value is wrong; the message names the file, the line and the key."""


class SpecError(UsageError):
    """A job, sweep or payload is wrong; nothing was submitted."""


class NotFound(UsageError):
    """There is no job, node, sweep or attempt of that name."""


class Conflict(HostlerError):
    """It exists already and differs, or its state forbids what was asked."""


class NotOwner(HostlerError):
    """The request needs a right that the caller does not have; nothing was done."""


class EventRefused(HostlerError):
    """An event would not load again from a journal: nothing came of the input that it follows from."""


class Outdated(HostlerError):
    """What was looked up for it has changed meanwhile: whoever gave it looks again, and gives it again."""


class CorruptState(HostlerError):
    """Stored data contradicts itself or the code's invariants."""


class DamagedEntry(CorruptState):
    """An entry of the journal is missing, or is not what was written."""

    def __init__(self, why: str, seq: int | None = None) -> None:
        """`seq` is the number of the entry; `None` in an answer of a controller, which has the message alone."""
        super().__init__(why)
        self.seq = seq


class IllegalTransition(CorruptState):
    """An event does not fit the state it is applied to; the message carries the story of the job."""


class BrokenInvariant(CorruptState):
    """`core.validate()` found a contradiction."""


class FilesError(HostlerError):
    """A file cannot be sent or fetched as it should be: it is not there, is another one, or has no room."""


class FilesChanged(FilesError):
    """A file became another one on its way, or while it was read; another try may do."""


class PartlyFetched(FilesError):
    """Some new or changed files that a job left stay on its node; `files` has the references of those that came."""

    def __init__(self, why: str, files: tuple[Any, ...] = ()) -> None:
        super().__init__(why)
        self.files = files


class StoreError(HostlerError):
    """The journal cannot be read or written."""


class StoreBusy(StoreError):
    """Another controller holds the state directory."""


class StoreLost(StoreError):
    """The database does not answer. What was being written may have been written, or not."""


class StoreFenced(StoreError):
    """Another controller leads by now: this one may write nothing any more."""


class StoreForked(StoreFenced):
    """The database has lost what this controller had written, and goes on without it: this one may not go on at all."""


class StandsBy(HostlerError):
    """This controller only stands by: it shows, and changes nothing. Its message names the one that leads."""


class StoreFull(StoreError):
    """There is no space left for the journal, or it is read-only."""


class StoreRefused(StoreError):
    """The database refuses the data that were to be written. Another try cannot help; the message quotes it."""


class SchemaMismatch(StoreError):
    """The store was written by another version of Hostler."""


class LinkError(HostlerError):
    """A node or the controller cannot be reached."""


class LinkLost(LinkError):
    """The connection broke. Nothing follows about what runs on the other side."""


class LinkRefused(LinkError):
    """The other side answered, and said no."""


class AnswerError(HostlerError):
    """An answer is not that of a controller: it has another form, or no end. To ask again would not help."""


class ControllerAbsent(LinkError):
    """No controller is running for this state directory."""


class ControllerStarting(ControllerAbsent):
    """A controller is starting for this state directory. It does not answer yet."""
