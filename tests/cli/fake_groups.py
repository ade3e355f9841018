"""A controller with jobs and job groups in memory: what it answers, and what was asked of it."""

from __future__ import annotations

import fnmatch
import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import unquote

from hostler.client import Address, Client, Rows
from hostler.client.calls import Ask, Told
from hostler.model.errors import Conflict, LinkLost, NotFound

STATES = ("pending", "running", "done", "failed", "cancelled")
ENDED = STATES[2:]


class FakeController(Client):
    """Both a controller and the client that asks it; the files of jobs are sent by the real client's protocol."""

    def __init__(self) -> None:
        super().__init__(lambda: Address("http://127.0.0.1:1", "t"))
        self.jobs_by_id: dict[str, dict[str, Any]] = {}
        self.results: dict[str, Any] = {}
        self.parameters: dict[str, Mapping[str, str]] = {}
        self.kept: dict[str, dict[str, bytes]] = {}
        self.asked: list[str] = []
        self.cuts: list[str] = []
        """Parts of the targets whose next request loses its connection."""
        self.absent: list[Exception] = []
        """Errors of the next questions for a group."""

    def add(self, state: str = "done", group: str | None = "g1", *, result: Any = None, **parameters: str) -> str:
        """A job, of a group unless that is `None`."""
        job = f"j{len(self.jobs_by_id) + 1}"
        ended = state in ENDED
        self.jobs_by_id[job] = {
            "id": job, "name": f"train-{job}", "key": None, "work": "script", "state": state, "priority": 0,
            "submitted_at": 100.0, "started_at": 100.0 if state != "pending" else None,
            "ended_at": 112.0 if ended else None, "duration_s": 12.0 if ended else None,
            "attempts": 1, "attempt": None, "device": "rig-1/cuda0",
            "why": "exit status 3: no data (exit: 1 of 1 allowed attempts used)" if state == "failed" else None,
            "failure": None, "cancelling": False, "done_share": None, "group": group,
        }  # fmt: skip
        self.results[job], self.parameters[job] = result, parameters
        return job

    def keep(self, job: str, **files: bytes) -> None:
        """Files that a job left; `_` in a name is a dot."""
        self.kept[job] = {f"out/{name.replace('_', '.')}": content for name, content in files.items()}

    def end(self, job: str, state: str = "done") -> None:
        """The end of a job."""
        self.jobs_by_id[job] |= {"state": state, "ended_at": 112.0, "started_at": 100.0, "duration_s": 12.0}

    def named(self, names: Sequence[str]) -> Rows[Any]:
        if names:
            self.asked.append("jobs")
        return Rows([dict(self._job(name)) for name in names])

    def job(self, name: str) -> Any:
        job = self._job(name)
        return {
            "job": dict(job), "after": [], "failures": {}, "attempt": None, "sweep": None, "unfetched": None,
            "spec": {"payload": {"kind": "script", "argv": ["true"]}, "parameters": self.parameters[name]},
            "result": self.results[name], "files": [{"path": f"{name}.1/{path}"} for path in self.kept.get(name, ())],
        }  # fmt: skip

    def story(self, name: str) -> Rows[Any]:
        return Rows()

    def group(self, name: str) -> Any:
        self.asked.append(name)
        if self.absent:
            raise self.absent.pop()
        jobs = self._of(name)
        counts = Counter(job["state"] for job in jobs)
        over = all(job["state"] in ENDED for job in jobs)
        return {
            "id": name, "name": "train", "submitted_at": 100.0, "first": jobs[0]["id"], "last": jobs[-1]["id"],
            "size": len(jobs), "max_running": None, "max_failures": None,
            "jobs": {state: counts[state] for state in STATES}, "ended_at": 112.0 if over else None,
        }  # fmt: skip

    def group_results(self, name: str) -> Iterator[Any]:
        for job in self._of(name):
            fields = (
                *("name", "state", "attempts", "device", "submitted_at", "started_at", "ended_at", "duration_s"),
                *("why", "failure"),
            )
            shown = {field: job[field] for field in fields}
            yield {
                "job": job["id"],
                **shown,
                "parameters": self.parameters[job["id"]],
                "result": self.results[job["id"]],
            }

    def all_jobs(
        self,
        states: Sequence[str] = (),
        after: int = 0,
        *,
        group: Any = None,
        node: Any = None,
        called: Any = None,
        mine: bool = False,
    ) -> Iterator[Any]:
        for job in self.jobs_by_id.values():
            if (
                (not states or job["state"] in states)
                and (group is None or job["group"] == group)
                and (node is None or job["device"].partition("/")[0] == node)
                and (called is None or fnmatch.fnmatchcase(job["name"], called))
            ):
                yield dict(job)

    def jobs(self, states: Sequence[str] = (), after: int = 0, limit: int = 100, **only: Any) -> Rows[Any]:
        return Rows(list(self.all_jobs(states, after, **only))[:limit])

    def queue(self, limit: int | None = None) -> Any:
        return []

    def status(self) -> Any:
        return {"jobs": Counter(job["state"] for job in self.jobs_by_id.values())}

    def cancel(self, name: str, reason: str | None = None, *, key: str | None = None) -> Any:
        if self._job(name)["state"] in ENDED:
            raise Conflict(f"{name} is {self._job(name)['state']} already")
        self.end(name, "cancelled")
        return dict(self._job(name))

    def retry(self, name: str, *, key: str | None = None) -> Any:
        if self._job(name)["state"] not in ("failed", "cancelled"):
            raise Conflict(f"{name} is {self._job(name)['state']}; only a failed or a cancelled job can be tried again")
        self._job(name)["state"] = "pending"
        return dict(self._job(name))

    def cancel_group(self, name: str, reason: str | None = None, *, key: str | None = None) -> Any:
        return self._all(name, ("pending", "running"), lambda job: self.end(job, "cancelled"))

    def retry_group(self, name: str, *, only_failed: bool = False, key: str | None = None) -> Any:
        return self._all(name, ("failed",) if only_failed else ("failed", "cancelled"), self.retry)

    def _all(self, name: str, states: Sequence[str], change: Callable[[str], Any]) -> Any:
        found = [job["id"] for job in self._of(name) if job["state"] in states]
        if not found:
            raise Conflict(f"no job of {name} is {' or '.join(states)}")
        for job in found:
            change(job)
        return self.group(name)

    def _job(self, name: str) -> dict[str, Any]:
        if name not in self.jobs_by_id:
            raise NotFound(f"there is no job {name!r}; `hostler jobs` lists them")
        return self.jobs_by_id[name]

    def _of(self, group: str) -> list[dict[str, Any]]:
        found = [job for job in self.jobs_by_id.values() if job["group"] == group]
        if not found:
            raise NotFound(f"there is no job group {group!r}")
        return found

    def _told(self, wanted: Ask | float) -> Told:
        """Answers to the requests of `fetch` and `files`."""
        if isinstance(wanted, float):
            return Told(b"", {})
        self.asked.append(wanted.target)
        for cut in self.cuts:
            if cut in wanted.target:
                self.cuts.remove(cut)
                raise LinkLost("the controller stopped answering")
        job, _, rest = wanted.target.partition("/jobs/")[2].partition("/")
        files = self.kept.get(job, {})
        if not rest:
            return Told(json.dumps(self.job(job)).encode(), {})
        if rest == "files":
            rows = [{"path": path, "size": len(data), "sha256": _sha256(data)} for path, data in files.items()]
            return Told(json.dumps(rows).encode(), {})
        content = files[unquote(rest).removeprefix("files/")]
        begin, _, end = wanted.headers["Range"].removeprefix("bytes=").partition("-")
        piece = content[int(begin) : int(end) + 1]
        headers = {"etag": f'"{_sha256(content)}"', "content-range": f"bytes {begin}-{end}/{len(content)}"}
        return Told(piece, headers)


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
