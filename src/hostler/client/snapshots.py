"""Sending a snapshot: which contents the controller lacks, and those contents, taken up where a connection broke."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING

from hostler.client.calls import API, RECONNECT_S, Answer, Ask
from hostler.model.errors import Conflict, ControllerAbsent, FilesChanged, LinkLost

if TYPE_CHECKING:
    from hostler.snapshots.folder import FolderSnapshot

PATH = f"{API}/snapshots"
AS_BYTES = {"Content-Type": "application/octet-stream"}


def send_snapshot(snapshot: FolderSnapshot, sent: Callable[[int], None] | None) -> Answer[str]:
    """The digest of the snapshot once the controller has all of it.

    Raises `LinkLost` or `ControllerAbsent` when `RECONNECT_S` is used up without progress, `FilesChanged` where a file
    is not what it was, and what the controller refuses.
    """
    failures = 0
    while True:
        try:
            told = yield Ask("POST", PATH, snapshot.data, AS_BYTES)
            missing: dict[str, int] = json.loads(told.body)["missing"]
            if not missing:
                return snapshot.digest
            from hostler.snapshots.upload import bodies

            for body in bodies(snapshot.sources(missing)):
                yield Ask("POST", f"{PATH}/contents", body.data, AS_BYTES)
                failures = 0
                if sent is not None:
                    sent(body.contents)
        except FilesChanged as error:
            changed = [file.path for file in snapshot.manifest.files if file.sha256 in str(error)]
            raise FilesChanged(f"{changed[0]} changed while it was sent: {error}" if changed else str(error)) from error
        except (LinkLost, ControllerAbsent, Conflict) as error:
            # A conflict: another client sends the same content, and this one's piece does not follow what is there.
            if failures == len(RECONNECT_S):
                raise error from None
            yield RECONNECT_S[failures]
            failures += 1
