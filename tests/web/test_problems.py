"""Every error of the tree has its status."""

from __future__ import annotations

import json

import pytest

from hostler.model import errors
from hostler.web import problems


def tree(root: type[errors.HostlerError]) -> set[type[errors.HostlerError]]:
    """The classes that `hostler.model.errors` draws, from `root` down."""
    below = [each for each in root.__subclasses__() if each.__module__ == errors.__name__]
    return {root}.union(*(tree(each) for each in below))


def test_every_class_of_the_tree_is_mapped_by_name() -> None:
    assert set(problems.STATUS) == tree(errors.HostlerError)


@pytest.mark.parametrize("shape", sorted(tree(errors.HostlerError), key=str))
def test_an_error_answers_with_its_class_and_its_message(shape: type[errors.HostlerError]) -> None:
    answer = problems.from_error(shape('it broke: "x"\n'))
    assert answer.status_code == problems.STATUS[shape] >= 400
    assert json.loads(bytes(answer.body)) == {"error": shape.__name__, "message": 'it broke: "x"\n'}


def test_a_class_outside_the_tree_has_the_status_of_the_nearest_inside() -> None:
    class Narrower(errors.NotFound):
        pass

    assert problems.status_of(Narrower()) == 404


@pytest.mark.parametrize(
    ("shape", "status"),
    [(errors.NotFound, 404), (errors.Conflict, 409), (errors.SpecError, 422), (errors.StoreFull, 507)],
)
def test_what_callers_rely_on(shape: type[errors.HostlerError], status: int) -> None:
    assert problems.STATUS[shape] == status
