"""What an application makes before somebody asks."""

from __future__ import annotations

from hostler.model import codec
from hostler.model.views import JobDetail, Status
from hostler.web.app import make_app, make_ready
from hostler.web.pages import rendering
from tests.web.core_desk import CoreDesk, door


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
