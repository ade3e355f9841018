"""What lies in the folder of a cluster: batches, attempts, and what dead agents have left of their knowledge."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import Any, Dict, List

from .batches import Batch, Run, is_token
from .journal import entries
from .paths import inside, relative
from .protocol import Json, RequestError, id_list, integer, seconds
from .reading import piece_of, wish_of
from .removal import noted, raise_first, remove
from .shared import make_folder, names, publish
from .state import State

SCRIPT = "script.sh"
"""What a scheduler is given: the one file of a batch that is a program."""
_PROBE_BYTES = 1 << 20


class Estate:
    """The folder of one cluster. Every method answers a request; it raises RequestError and OSError."""

    def __init__(self, root: str) -> None:
        self.root = root

    def prepare(self, request: Json) -> Json:
        """Write the files of a batch. What is there already stays as it is, also if it has been written on since."""
        batch, files = self.batch(request), request.get("files")
        if type(files) is not dict or not all(type(text) is str for text in files.values()):
            raise RequestError("files must be an object of paths and texts")
        places = {os.path.join(batch.folder, relative(path)): text for path, text in files.items()}
        make_folder(batch.news)
        for path, text in places.items():
            data = text.encode("utf-8")
            if not _begins_with(path, data):
                make_folder(os.path.dirname(path))
                publish(path, data, 0o700 if os.path.basename(path) == SCRIPT else 0o600)
        return {"ok": True, "folder": batch.folder}

    def facts(self, request: Json) -> Json:
        """What a run's agent knew that is not acknowledged, by its journal. It may live yet: nothing is changed."""
        run = self.run(request)
        try:
            state = State(entries(run.folder + "/journal.jsonl"))
        except FileNotFoundError:
            os.stat(run.batch.folder)  # where that is not there either, the file system may be gone for a while
            state = State()
        return {
            "agent": state.agent,
            "facts": [state.facts[seq] for seq in sorted(state.facts)],
            "attempts": [_attempt(name, record) for name, record in state.attempts.items()],
            "chunks": [_chunk(name, record, state.workers) for name, record in state.chunks.items()],
        }

    def read(self, request: Json) -> Json:
        """A piece of what an attempt has written."""
        wish = wish_of(request)
        return piece_of("%s/attempts/%s" % (self.root, wish.attempt), wish, request.get("ended") is True)

    def discard(self, request: Json) -> Json:
        """Delete the folders of attempts."""
        ids, error = id_list(request.get("attempts"), "attempts")
        if error is not None:
            raise error
        return _removed(["%s/attempts/%s" % (self.root, name) for name in ids])

    def forget(self, request: Json) -> Json:
        """Delete batches. An agent of one that runs yet ends."""
        return _removed([Batch(self.root, token).folder for token in tokens_of(request.get("tokens"), "tokens")])

    def tidy(self, request: Json) -> Json:
        """Delete the batches that have not changed for so long, but for those that are named."""
        kept, older_s = set(tokens_of(request.get("keep"), "keep")), seconds(request.get("older_s"), "older_s")
        batches = [Batch(self.root, token) for token in names(self.root + "/jobs") if token not in kept]
        old = [batch for batch in batches if is_token(batch.token) and _age_s(batch) > older_s]
        return {**_removed([batch.folder for batch in old]), "removed": [batch.token for batch in old]}

    def probe(self, request: Json) -> Json:
        """Write a file, to see whether others come to see it; without a text, read one: null if it is not there."""
        path, text = inside(self.root, request.get("path")), request.get("text")
        if text is None:
            return {"text": _text(path)}
        if type(text) is not str:
            raise RequestError("text must be a text")
        make_folder(os.path.dirname(path))
        publish(path, text.encode("utf-8"))
        return {"ok": True}

    def batch(self, request: Json) -> Batch:
        """The batch that a request names."""
        return Batch(self.root, tokens_of([request.get("token")], "token")[0])

    def run(self, request: Json) -> Run:
        """The run that a request names."""
        task, run = integer(request.get("task"), "task"), integer(request.get("run"), "run")
        if task < 0 or run < 0:
            raise RequestError("task and run count from 0")
        return Run(self.batch(request), task, run)


def tokens_of(raw: object, what: str) -> List[str]:
    """A list of tokens; raises RequestError."""
    if type(raw) is not list or not all(map(is_token, raw)):
        raise RequestError("%s must be made of tokens ([A-Za-z0-9._-]+)" % what)
    return raw


def _begins_with(path: str, data: bytes) -> bool:
    try:
        with open(path, "rb") as source:
            return source.read(len(data)) == data and (path.endswith(".in") or not source.read(1))
    except FileNotFoundError:
        return False


def _attempt(name: str, record: Json) -> Json:
    """One that has not ended. It may have begun where nothing says that it has started."""
    started, ended = record.get("started", {}), record.get("exit")
    return {
        "id": name,
        "begun": "starting" in record,
        "started_at": started.get("at"),
        "exit": None if ended is None else {key: ended[key] for key in ("code", "signal", "at")},
    }


def _chunk(name: str, record: Json, workers: Dict[str, Json]) -> List[Any]:
    """What ``returned`` would say of it: everything before the position is searched."""
    checkpoint = record.get("checkpoint")
    worker = workers.get(record["worker"])
    digest = None if worker is None else worker["spec"]["open"]["digest"]
    return [name, checkpoint["position"], digest, checkpoint["hits"]] if checkpoint else [name, None, digest, []]


def _removed(folders: List[str]) -> Json:
    """Raises the first error when all that can be is deleted."""
    failures: List[OSError] = []
    for folder in folders:
        with noted(failures):
            remove(folder)
    raise_first(failures)
    return {"ok": True}


def _age_s(batch: Batch) -> float:
    """Since anything was put into its folder, or into that of its news."""
    newest = 0.0
    for folder in (batch.folder, batch.news):
        with suppress(FileNotFoundError):
            newest = max(newest, os.stat(folder).st_mtime)
    return time.time() - newest


def _text(path: str) -> Any:
    try:
        with open(path, "rb") as source:
            return source.read(_PROBE_BYTES).decode("utf-8", "replace")
    except FileNotFoundError:
        return None
