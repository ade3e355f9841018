"""What stands below fields, as the schema tells it."""

from __future__ import annotations

import pytest

from hostler.model.schemas import node_at
from hostler.settings import environment
from hostler.settings.descriptions import descriptions
from hostler.settings.loops import Selfplay, TrainingOptions
from hostler.settings.models import Fleet
from hostler.settings.nodes import Node
from hostler.settings.schema import schema_of
from hostler.settings.section import Section


class Under(Section):
    """A section."""

    kept: int = 1
    """Of the base."""
    replaced: int = 1
    """Of the base, too."""
    bare: int = 1


class Over(Under):
    """One that says less of a field than its base does."""

    replaced: int = 2


def test_texts_come_from_the_class_that_has_the_field() -> None:
    assert descriptions(Selfplay)["games"] == "Games of a job."
    assert descriptions(Selfplay)["walltime_s"] == "Longest time an attempt may run, in seconds."
    assert descriptions(TrainingOptions)["learning_rate"] == "Of the optimiser."
    assert "name" in descriptions(Node)


def test_a_field_that_is_made_anew_says_nothing_that_was_said_of_another() -> None:
    assert descriptions(Over) == {"kept": "Of the base."}


def test_a_section_that_says_it_itself_is_not_repeated() -> None:
    fleet = schema_of(Fleet)
    assert "description" not in fleet["properties"]["limits"]
    assert fleet["properties"]["api"]["description"] == "Where the controller listens, and who may come in."
    assert (node_at(fleet, ("configs", 0, "training", "options", "patience")) or {})["description"]


def test_without_variables_nobody_needs_the_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(model: object) -> None:
        raise AssertionError("the schema was made")

    monkeypatch.setattr(environment, "schema_of", refuse)
    environ = {"HOME": "/root", "HOSTLER_URL": "http://here", "HOSTLER_ATTEMPT": "j1.1", "RINGRIFT_OTHER": "1"}
    assert list(environment.from_environment(Fleet, environ)) == []
    with pytest.raises(AssertionError, match="was made"):
        list(environment.from_environment(Fleet, {"RINGRIFT_MEMORY_LIMIT_GB": "4"}))
