"""`hostler fetch` as somebody types it: a real controller, on this machine and as if on another one."""

from __future__ import annotations

import hashlib
import http.client
import json
import os
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.integration.conftest import Fleet, Hostler, HostlerIn

WRITE = """
import os, sys
os.makedirs("made/deep")
open("made/model.pt", "wb").write(bytes(range(256)) * 20_000)
open("made/deep/notes äö.txt", "w").write(sys.argv[1])
open("made/empty", "w")
"""
OUTPUTS = ["made/*", "made/deep/*"]
MODEL = bytes(range(256)) * 20_000


@pytest.fixture
def job(living: Fleet) -> str:
    made = living.python(WRITE, "first", name="train", outputs=OUTPUTS)
    assert living.over(made)["job"]["state"] == "done", living.job(made)
    return made


@pytest.fixture
def elsewhere(living: Fleet, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The command line knows the controller's address and a token, and has no state directory."""
    left = json.loads((living.state / "controller.json").read_text())
    monkeypatch.setenv("HOSTLER_URL", left["url"])
    monkeypatch.setenv("HOSTLER_TOKEN", (living.state / "token").read_text())
    monkeypatch.delenv("HOSTLER_STATE_DIR", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "none"))


def test_fetch_copies_what_a_job_left(
    living: Fleet, elsewhere: None, job: str, hostler_in: HostlerIn, tmp_path: Path
) -> None:
    said = hostler_in(tmp_path, "fetch", job)
    assert (said.status, said.err) == (0, "")
    files = [f"{job}/made/deep/notes äö.txt", f"{job}/made/empty", f"{job}/made/model.pt"]
    assert sorted(said.out.splitlines()[:-1]) == files
    assert said.out.splitlines()[-1].startswith("3 files copied, 5.1 MB")
    assert (tmp_path / job / "made/model.pt").read_bytes() == MODEL
    assert (tmp_path / job / "made/deep/notes äö.txt").read_text() == "first"
    assert (tmp_path / job / "made/empty").read_bytes() == b""
    assert (tmp_path / job / ".gitignore").read_text().endswith("\n*\n"), "the next submission leaves it out"
    found = sorted(str(each.relative_to(tmp_path)) for each in tmp_path.rglob("*") if each.is_file())
    assert found == [f"{job}/.gitignore", *files]
    again = hostler_in(tmp_path, "fetch", job)
    assert (again.status, again.out.splitlines()[-1]) == (0, "0 files copied, 0 B, 3 files there already")


def test_fetch_replaces_other_content_only_by_force(
    living: Fleet, elsewhere: None, job: str, hostler_in: HostlerIn, tmp_path: Path
) -> None:
    mine = tmp_path / "best/made/model.pt"
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    said = hostler_in(tmp_path, "fetch", job, "best")
    assert (said.status, said.out) == (2, "")
    assert "in best there is made/model.pt already, with other content. No file of the job was copied" in said.err
    assert "--force" in said.err
    assert [each.name for each in tmp_path.rglob("*") if each.is_file()] == ["model.pt"]
    assert mine.read_text() == "mine"
    assert hostler_in(tmp_path, "fetch", job, "best", "--force").status == 0
    assert mine.read_bytes() == MODEL


def test_fetch_lists_files_and_sizes(
    living: Fleet, elsewhere: None, job: str, hostler_in: HostlerIn, tmp_path: Path
) -> None:
    said = hostler_in(tmp_path, "fetch", job, "--list")
    assert said.status == 0
    digest = hashlib.sha256(MODEL).hexdigest()[:12]
    assert f"5120000  {digest}  made/model.pt" in said.out
    assert not list(tmp_path.iterdir())
    assert {each["path"] for each in hostler_in(tmp_path, "fetch", job, "--list", "--json").json} == {
        "made/model.pt", "made/deep/notes äö.txt", "made/empty",
    }  # fmt: skip


def test_job_prints_where_its_files_are_or_how_they_come_here(
    living: Fleet, job: str, hostler: Hostler, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = living.state / "results" / f"{job}.1" / "made/model.pt"
    assert path.read_bytes() == MODEL
    monkeypatch.setenv("COLUMNS", "1000")
    assert str(path) in hostler(living, "job", "show", job).out
    left = json.loads((living.state / "controller.json").read_text())
    monkeypatch.setenv("HOSTLER_URL", left["url"])
    monkeypatch.setenv("HOSTLER_TOKEN", (living.state / "token").read_text())
    said = hostler(living, "job", "show", job)
    assert str(path) not in said.out
    assert f"made/model.pt; `hostler fetch {job}` copies them here" in said.out.replace("\n", "")


def test_fetch_of_a_job_without_outputs_names_the_option(
    living: Fleet, hostler_in: HostlerIn, elsewhere: None, tmp_path: Path
) -> None:
    bare = living.script("true")
    failed = living.script("false", retry={"max_attempts": {"exit": 1}})
    living.state_of(bare, "done")
    living.state_of(failed, "failed")
    for words in (["fetch", bare], ["fetch", bare, "--list"]):
        said = hostler_in(tmp_path, *words)
        assert (said.status, said.out) == (2, "")
        assert (
            f"{bare} left no files that were kept. Name those to keep with `hostler submit --output PATTERN`"
            in said.err
        )
    said = hostler_in(tmp_path, "fetch", failed)
    assert said.status == 2
    assert f"{failed} is failed: only a job that is done leaves files; `hostler retry {failed}`" in said.err
    assert not list(tmp_path.iterdir())


def test_links_and_unlisted_files_are_not_served(
    living: Fleet, job: str, hostler_in: HostlerIn, elsewhere: None, tmp_path: Path
) -> None:
    folder = living.state / "results" / f"{job}.1"
    secret = living.state / "token"
    (folder / "made/unlisted").write_text("secret")
    for path in ("made/unlisted", "..%2F..%2Ftoken", "../../token", "..%2f..%2ftoken", "/etc/passwd", "%2Fetc/shadow"):
        assert read(living, f"/api/v1/jobs/{job}/files/{path}")[0] == 404, path
    model = folder / "made/model.pt"
    model.unlink()
    model.symlink_to(secret)
    status, _, body = read(living, f"/api/v1/jobs/{job}/files/made/model.pt")
    assert (status, secret.read_bytes() in body) == (502, False)
    model.unlink()
    outside = tmp_path / "outside"
    (outside / "deep").mkdir(parents=True)
    (outside / "model.pt").write_bytes(MODEL)
    os.rename(folder / "made", folder / "was")
    (folder / "made").symlink_to(outside)
    assert read(living, f"/api/v1/jobs/{job}/files/made/model.pt")[0] == 502
    said = hostler_in(tmp_path, "fetch", job)
    assert (said.status, said.out) == (1, "")
    assert not list((tmp_path / job).rglob("*.pt"))


def read(fleet: Fleet, target: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
    """A GET whose path is sent as it is."""
    left = json.loads((fleet.state / "controller.json").read_text())
    connection = http.client.HTTPConnection(urlsplit(left["url"]).netloc)
    token = (fleet.state / "token").read_text().strip()
    connection.putrequest("GET", target, skip_host=False)
    for name, value in {"Authorization": f"Bearer {token}", **headers}.items():
        connection.putheader(name, value)
    connection.endheaders()
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, {name.lower(): value for name, value in answer.getheaders()}, body


def test_files_come_in_ranges(living: Fleet, job: str) -> None:
    target = f"/api/v1/jobs/{job}/files/made/model.pt"
    tag = f'"{hashlib.sha256(MODEL).hexdigest()}"'
    status, headers, body = read(living, target)
    assert (status, body) == (200, MODEL)
    assert (headers["etag"], headers["x-content-type-options"]) == (tag, "nosniff")
    assert headers["content-disposition"] == "attachment; filename=\"model.pt\"; filename*=UTF-8''model.pt"
    status, headers, body = read(living, target, Range="bytes=1000-1009", **{"If-Range": tag})
    assert (status, headers["content-range"], body) == (206, f"bytes 1000-1009/{len(MODEL)}", MODEL[1000:1010])
    assert read(living, target, Range="bytes=1000-1009", **{"If-Range": '"other"'})[0] == 200
    assert read(living, target, Range=f"bytes={len(MODEL)}-")[0] == 416
    assert read(living, target, Range="bytes=-7")[2] == MODEL[-7:]
