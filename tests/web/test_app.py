"""What an application makes before somebody asks, and what only then."""

from __future__ import annotations

from hostler.model import codec
from hostler.model.views import JobDetail, Status
from hostler.web.app import make_app, make_ready
from hostler.web.pages import rendering
from hostler.web.routing import late
from tests.web.core_desk import CoreDesk, door, window


def test_converters_and_templates_are_there_before_anybody_asks() -> None:
    codec._adapter.cache_clear()
    rendering._environment.cache_clear()
    make_ready(make_app(CoreDesk(), door()))
    made = codec._adapter.cache_info().misses
    for shape in (JobDetail, Status):
        codec.adapter(shape)
    environment = rendering._environment()
    assert codec._adapter.cache_info().misses == made
    assert environment.cache is not None
    assert len(environment.cache) == len(environment.list_templates())


def test_routes_are_made_as_somebody_comes_to_them() -> None:
    app = make_app(CoreDesk(), door())
    assert not [route.path for route in late(app.routes) if "served" in vars(route)]
    make_ready(app)
    assert not [route.path for route in late(app.routes) if "served" not in vars(route)]


def test_what_a_route_does_not_do_is_refused_with_what_it_does() -> None:
    with window() as served:
        for method, path, allowed in (
            ("HEAD", "/status", "GET"),
            ("PUT", "/jobs", "GET"),
            ("GET", "/disk/clean", "POST"),
        ):
            reply = served.ask(method, f"/api/v1{path}")
            assert (reply.status, reply.headers["allow"]) == (405, allowed)
        assert served.get("/api/v1/jobs/").status == 307
        assert served.get("/queue/status").status == 200
        assert served.get("/api/v1/nothing").status == 404
