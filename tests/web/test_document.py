"""The OpenAPI document says what the application does."""

from __future__ import annotations

import inspect
import json
import re
from typing import Any

from hostler.web.app import make_app
from hostler.web.routing import late
from tests.web.core_desk import CoreDesk, Window, door
from tests.web.published import DOCUMENT


def test_published_document_is_the_one_that_is_served(served: Window) -> None:
    assert served.get("/api/v1/openapi.json").json == DOCUMENT


def test_every_reference_leads_somewhere() -> None:
    wanted = set(re.findall(r"#/components/schemas/([\w-]+)", json.dumps(DOCUMENT)))
    assert wanted <= set(DOCUMENT["components"]["schemas"])


def test_bodies_may_leave_out_what_has_a_default() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    assert schemas["JobSpec-Input"]["required"] == ["name", "payload"]
    assert schemas["JobSpec-Input"]["additionalProperties"] is False


def test_every_operation_tells_of_problems_and_of_its_answer() -> None:
    operations = [one for path in DOCUMENT["paths"].values() for one in path.values()]
    assert len(operations) >= 19
    for operation in operations:
        good = next(code for code in operation["responses"] if code.startswith("2"))
        assert operation["responses"][good]["content"], operation["operationId"]
        assert "Problem" in json.dumps(operation["responses"]["default"])
        assert operation["description"]


def test_no_dependency_of_a_route_goes_through_a_thread() -> None:
    """FastAPI sends those without `async` there, which doubled what a GET costs."""
    found: list[str] = []

    def look(dependant: Any) -> None:
        for each in dependant.dependencies:
            if not inspect.iscoroutinefunction(each.call):
                found.append(each.call.__qualname__)
            look(each)

    known = [route.served.dependant for route in late(make_app(CoreDesk(), door()).routes)]
    assert len(known) > 30
    for dependant in known:
        look(dependant)
    assert found == []
