"""What the scopes of tokens allow. Tests of routes ask `covers` itself: here it is compared with a table."""

from __future__ import annotations

import pytest

from hostler.model.access import Scope

ALLOWED = {
    Scope.READ: {Scope.READ},
    Scope.OPERATE: {Scope.READ, Scope.OPERATE},
    Scope.ADMIN: {Scope.READ, Scope.OPERATE, Scope.ADMIN},
}


@pytest.mark.parametrize("scope", Scope)
def test_scope_covers_itself_and_those_below(scope: Scope) -> None:
    assert {each for each in Scope if scope.covers(each)} == ALLOWED[scope]
