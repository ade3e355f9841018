"""Artifacts over HTTP: lists, one, lineage, bytes, reading copies again, and how far replication has come."""

from __future__ import annotations

import http.client
from collections.abc import Iterator

import pytest

from hostler.model import codec
from hostler.model.access import Scope
from hostler.model.artifact_views import ArtifactDetail, ArtifactRead, ArtifactView, LineageView, ReplicationView
from hostler.model.artifacts import HUB
from hostler.model.inputs import CopiesTold, CreateToken
from hostler.web.door import digest_of
from tests.web.core_desk import Window, walk, window
from tests.web.kept import made
from tests.web.worlds import ARTIFACT, FILES, whole_world

API = "/api/v1"
CONTENT = f"{API}/artifacts/{ARTIFACT}/content"


@pytest.fixture
def kept() -> Iterator[Window]:
    """A loop's artifacts, one of which really lies in the controller's store."""
    with window(whole_world()) as served:
        yield served


@pytest.fixture(scope="module")
def still() -> Iterator[Window]:
    """The same, for questions that change nothing."""
    with window(whole_world()) as served:
        yield served


def test_pages_hold_every_artifact_once_newest_first(kept: Window) -> None:
    whole = kept.get(f"{API}/artifacts?limit=1000")
    assert "link" not in whole.headers
    names = [each["sha256"] for each in whole.json]
    assert len(names) > 20
    assert names[0] == ARTIFACT, "it was made last"
    for limit in (1, 7, len(names)):
        assert [each["sha256"] for each in walk(kept, f"{API}/artifacts?limit={limit}")] == names
    assert codec.adapter(list[ArtifactView]).validate_json(whole.body)


def test_lists_are_narrowed(kept: Window) -> None:
    kept.tell(CopiesTold(place="shelf", verified=(ARTIFACT,)))
    whole = kept.get(f"{API}/artifacts?limit=1000").json
    for query, holds in {
        "kind=model": lambda each: each["kind"] == "model",
        "config=other_2p": lambda each: each["config"] == "other_2p",
        "standing=model": lambda each: each["standing"] == "model",
        "place=shelf": lambda each: each["sha256"] == ARTIFACT,
        "short=true": lambda each: each["counted"] < min(each["wanted"], 2),
        "short=true&kind=games&config=tiny_2p": lambda each: (
            each["counted"] < min(each["wanted"], 2) and (each["kind"], each["config"]) == ("games", "tiny_2p")
        ),
    }.items():
        wanted = [each["sha256"] for each in whole if holds(each)]
        assert [each["sha256"] for each in walk(kept, f"{API}/artifacts?limit=3&{query}")] == wanted, query
        assert wanted, query


@pytest.mark.parametrize("query", ["kind=x", "standing=x", "short=x", "after=x", "after=WyJ4Il0", "limit=0"])
def test_bad_questions_are_refused(still: Window, query: str) -> None:
    reply = still.get(f"{API}/artifacts?{query}")
    assert (reply.status, reply.json["error"]) == (422, "UsageError")
    assert query.partition("=")[0] in reply.json["message"]


def test_one_artifact_is_found_by_its_beginning(kept: Window) -> None:
    whole = kept.get(f"{API}/artifacts/{ARTIFACT}")
    told = codec.adapter(ArtifactDetail).validate_json(whole.body)
    assert (told.artifact.sha256, told.artifact.counted, told.missing, told.missing_domains) == (ARTIFACT, 1, 1, 1)
    assert told.parents == (kept.desk.driver.config().current,)  # type: ignore[attr-defined]
    assert told.attempt is None, "its job is not over"
    model = codec.adapter(ArtifactDetail).validate_json(kept.get(f"{API}/artifacts/{told.parents[0]}").body)
    assert model.attempt == f"{model.artifact.job}.1"
    for beginning in (ARTIFACT[:9], ARTIFACT.upper()):
        assert kept.get(f"{API}/artifacts/{beginning}").body == whole.body


def test_a_beginning_of_several_names_the_candidates(kept: Window) -> None:
    names = [each["sha256"] for each in kept.get(f"{API}/artifacts?limit=1000").json]
    first = next(name[0] for name in names if sum(each[0] == name[0] for each in names) > 1)
    reply = kept.get(f"{API}/artifacts/{first}")
    assert (reply.status, reply.json["error"]) == (422, "UsageError")
    candidates = [name for name in names if name.startswith(first)]
    assert all(name[:16] in reply.json["message"] for name in candidates[:1])


@pytest.mark.parametrize("name", ["f" * 64, "0" * 65, "xyz", "%2e%2e", "..%2f..%2fetc"])
@pytest.mark.parametrize("what", ["", "/lineage", "/content", "/verify"])
def test_what_is_not_there_is_not_found(still: Window, name: str, what: str) -> None:
    reply = still.ask("POST" if what == "/verify" else "GET", f"{API}/artifacts/{name}{what}")
    assert (reply.status, reply.json["error"]) == (404, "NotFound")
    assert "there is no artifact" in reply.json["message"]


def test_lineage_leads_from_games_to_models_and_back(kept: Window) -> None:
    name = next(each.sha256 for each in kept.desk.models("tiny_2p") if each.dataset is not None)
    told = codec.adapter(LineageView).validate_json(kept.get(f"{API}/artifacts/{name}/lineage?depth=5").body)
    kinds = {str(each.kind) for each in told.parents}
    assert kinds == {"dataset", "games", "model"}
    assert len({each.sha256 for each in told.parents}) == len(told.parents), "each once"
    assert {each.via for each in told.parents if each.depth == 1} == {name}
    games = next(each.sha256 for each in told.parents if str(each.kind) == "games")
    back = codec.adapter(LineageView).validate_json(kept.get(f"{API}/artifacts/{games}/lineage").body)
    assert name in {each.sha256 for each in back.children}


def test_a_lineage_is_bounded_and_says_what_is_left_out(kept: Window) -> None:
    made(kept.desk.driver, *(bytes([n]) for n in range(40)), player=f"gumbel-16@{ARTIFACT}")
    told = kept.get(f"{API}/artifacts/{ARTIFACT}/lineage?limit=5").json
    assert (len(told["children"]), told["children_further"]) == (5, 35)
    told = kept.get(f"{API}/artifacts/{ARTIFACT}/lineage?depth=1").json
    assert {each["depth"] for each in told["parents"] + told["children"]} == {1}
    assert len(told["children"]) + told["children_further"] == 40
    for query in ("depth=0", "depth=11", "limit=0", "limit=501"):
        assert kept.get(f"{API}/artifacts/{ARTIFACT}/lineage?{query}").status == 422


def test_bytes_are_handed_out(kept: Window) -> None:
    reply = kept.get(CONTENT)
    assert (reply.status, reply.body) == (200, FILES[0])
    assert reply.headers["hostler-sha256"] == ARTIFACT
    assert reply.headers["content-type"] == "application/octet-stream"
    assert reply.headers["content-disposition"] == f'attachment; filename="{ARTIFACT}.segment.npz"'


def test_a_wrong_byte_in_a_small_one_is_an_error(kept: Window) -> None:
    kept.call(lambda: kept.desk.kept.put(FILES[0]).write_bytes(FILES[0][:-1] + b"?"))
    reply = kept.get(CONTENT)
    assert (reply.status, reply.json["error"]) == (502, "FilesError")
    assert kept.get(f"{API}/status").json["troubles"] == 0


def test_a_wrong_byte_in_a_large_one_breaks_the_answer_off(kept: Window) -> None:
    large = bytes(5 << 20)
    (name,) = made(kept.desk.driver, large)
    path = kept.call(lambda: kept.desk.kept.put(large))
    assert kept.get(f"{API}/artifacts/{name}/content").body == large
    path.write_bytes(large[:-1] + b"?")
    with pytest.raises(http.client.IncompleteRead):
        kept.get(f"{API}/artifacts/{name}/content")
    assert kept.get(f"{API}/status").status == 200


def test_copies_are_read_again_and_that_is_on_record(kept: Window) -> None:
    told = codec.adapter(ArtifactRead).validate_json(kept.post(f"{API}/artifacts/{ARTIFACT}/verify").body)
    assert [(each.place, each.found) for each in told.copies] == [(HUB, "right")]
    assert kept.get(f"{API}/audit").json[0]["what"] == f"verify_artifact {ARTIFACT}"
    kept.call(lambda: kept.desk.kept.put(FILES[0]).write_bytes(b"?"))
    told = codec.adapter(ArtifactRead).validate_json(
        kept.post(f"{API}/artifacts/{ARTIFACT}/verify", {"place": HUB}).body
    )
    assert [(each.place, each.found) for each in told.copies] == [(HUB, "damaged")]
    assert kept.get(f"{API}/artifacts/{ARTIFACT}").json["artifact"]["counted"] == 0
    kinds = [entry.event.kind for entry in kept.desk.driver.entries]
    assert kinds.count("copies.verified") == kinds.count("copies.damaged") == 1


@pytest.mark.parametrize(
    ("body", "status"), [({"place": "nowhere"}, 404), ({"place": ""}, 422), ({"where": "x"}, 422), ([], 422)]
)
def test_what_cannot_be_read_again_is_refused(kept: Window, body: object, status: int) -> None:
    assert kept.post(f"{API}/artifacts/{ARTIFACT}/verify", body).status == status
    assert "copies.verified" not in {entry.event.kind for entry in kept.desk.driver.entries}


def test_who_may_only_look_reads_no_copies_again(kept: Window) -> None:
    kept.tell(CreateToken(name="looks", sha256=digest_of("a look"), scope=Scope.READ))
    headers = {"Authorization": "Bearer a look"}
    assert kept.ask("GET", CONTENT, headers=headers).status == 200
    assert kept.ask("POST", f"{API}/artifacts/{ARTIFACT}/verify", headers=headers).status == 403


def test_replication_is_told(kept: Window) -> None:
    told = codec.adapter(ReplicationView).validate_json(kept.get(f"{API}/replication").body)
    assert (told.backlog, told.stock) == (None, None), "nobody has looked yet"
    kept.wait(kept.desk.kept.stock.count())
    told = codec.adapter(ReplicationView).validate_json(kept.get(f"{API}/replication").body)
    assert told.stock is not None
    assert sum(row.artifacts for row in told.stock.rows) == len(kept.get(f"{API}/artifacts?limit=1000").json)
    assert {each.name for each in told.places} == {HUB, "shelf"}


@pytest.mark.parametrize("what", ["", "/lineage", "/content", "/verify"])
def test_name_with_nul_is_refused(still: Window, what: str) -> None:
    reply = still.ask("POST" if what == "/verify" else "GET", f"{API}/artifacts/%00{what}")
    assert (reply.status, "NUL byte" in reply.json["message"]) == (422, True)
