"""The page of the HTTP API: made from the document, with every operation, and without requests to other hosts."""

from __future__ import annotations

import json
import re
import shlex
from html import unescape
from typing import Any

import pytest

from hostler.model.access import Scope
from hostler.model.inputs import Submit
from hostler.web.pages.docs import example_of, prose, reference, typed, written
from tests.core.builders import script
from tests.web.core_desk import Window
from tests.web.pages.test_pages import Reader

PATH = "/docs"


@pytest.fixture
def document(served: Window) -> Any:
    return served.get("/openapi.json").json


def test_the_document_has_two_addresses(served: Window, document: Any) -> None:
    assert served.get("/api/v1/openapi.json").json == document
    assert served.get("/openapi.json").headers["content-type"] == "application/json"
    assert document["paths"]["/api/v1/jobs"]["post"]["requestBody"]["content"]["application/json"]["example"]


def test_the_page_is_about_every_operation_and_shape(served: Window, document: Any) -> None:
    reply = served.get(PATH)
    assert (reply.status, reply.headers["content-type"]) == (200, "text/html; charset=utf-8")
    text = reply.body.decode()
    reader = Reader()
    reader.feed(text)
    assert reader.faults == []
    operations = [each for path in document["paths"].values() for each in path.values()]
    assert re.findall(r'id="op-([^"]+)"', text) == sorted(
        (each["operationId"] for each in operations), key=lambda name: text.index(f'id="op-{name}"')
    )
    assert set(re.findall(r'href="#([^"]+)"', text)) <= set(re.findall(r'id="([^"]+)"', text))
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert len(set(ids)) == len(ids)
    for each in operations:
        assert each["description"].split("\n")[0].split("`")[0].split("'")[0] in unescape(text)


def test_commands_of_the_page_are_words_for_a_shell(document: Any) -> None:
    for _, operations in reference(document).groups:
        for each in operations:
            words = shlex.split(each.curl.replace("\\\n", ""))
            assert words[:2] == ["curl", "-sS"]
            assert words[-1].startswith("$HOSTLER_URL/")
            assert "{" not in words[-1]
            if "--data-binary" in words and "Content-Type: application/json" in words:
                json.loads(words[words.index("--data-binary") + 1])


def test_the_example_of_a_submission_is_accepted(served: Window, document: Any) -> None:
    for path in ("/api/v1/jobs", "/api/v1/groups"):
        example = document["paths"][path]["post"]["requestBody"]["content"]["application/json"]["example"]
        assert served.post(path, example).status == 201


def test_the_page_is_for_those_who_may_read(served: Window) -> None:
    for path in (PATH, "/openapi.json"):
        assert served.ask("GET", path, headers={}).status == 401
    reply = served.ask("GET", PATH, headers={"Accept": "text/html"})
    assert (reply.status, reply.headers["location"]) == (303, "/login?next=%2Fdocs")
    made = served.post("/api/v1/tokens", {"name": "reader", "scope": Scope.READ.value}).json
    looked = served.ask("GET", PATH, headers={"Authorization": f"Bearer {made['token']}"})
    assert looked.status == 200


def test_pages_of_the_dashboard_link_to_it(served: Window) -> None:
    served.tell(Submit(specs=(script("a"),)))
    for page in ("/pages/fleet", "/pages/jobs/j1"):
        assert '<a href="/docs">HTTP API</a>' in served.get(page).body.decode()


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"type": "string"}, "text"),
        (
            {"anyOf": [{"type": "integer", "minimum": 1, "maximum": 1e9}, {"type": "null"}]},
            "integer ≥ 1 ≤ 1000000000 or null",
        ),
        ({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 0.5}, "number > 0 < 0.5"),
        ({"enum": ["a", "b"]}, '"a" or "b"'),
        ({"const": 1}, "1"),
        ({"type": "array", "items": {"$ref": "#/components/schemas/Job-Input"}}, "list of Job"),
        ({"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}]}, "list of text, integer"),
        ({"type": "object", "additionalProperties": {"type": "number"}}, "mapping to number"),
        ({"type": "object", "patternProperties": {"^a": {"type": "string"}}}, "mapping to text"),
        ({"type": "object"}, "mapping"),
        ({}, "any value"),
    ],
)
def test_a_type_is_said_in_a_few_words(schema: Any, said: str) -> None:
    assert "".join(text for text, _ in typed(schema)) == said


def test_a_type_leads_to_its_shape() -> None:
    assert typed({"$ref": "#/components/schemas/Job-Input"}) == (("Job", "Job-Input"),)


def test_an_example_has_what_is_required_and_what_is_usual() -> None:
    schemas = {
        "A": {
            "type": "object",
            "required": ["name", "kind", "of"],
            "properties": {
                "name": {"type": "string"},
                "kind": {"const": "a"},
                "of": {"anyOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "null"}]},
                "why": {"type": "string", "default": "because"},
                "more": {"type": "string", "default": ""},
            },
        }
    }
    made = example_of({"$ref": "#/components/schemas/A"}, schemas)
    assert made == {"name": "…", "kind": "a", "of": [1], "why": "because"}


def test_a_long_example_has_a_line_for_each_part() -> None:
    assert written([1, {"a": 2}]) == '[1, {"a": 2}]'
    long = {"a": "x" * 40, "b": ["y" * 40, 1]}
    assert written(long) == '{\n  "a": "' + "x" * 40 + '",\n  "b": ["' + "y" * 40 + '", 1]\n}'
    assert json.loads(written([long, long])) == [long, long]


def test_backticks_are_code() -> None:
    assert prose("a `b`\nc\n\n`d`") == ((("a ", False), ("b", True), (" c", False)), (("d", True),))
    assert prose("") == ()
