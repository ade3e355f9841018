"""Addresses of git repositories with revisions."""

from __future__ import annotations

import pytest

from hostler.cli.git_source import parse
from hostler.model.errors import UsageError


@pytest.mark.parametrize(
    ("word", "url", "revision"),
    [
        ("https://example.org/p.git", "https://example.org/p.git", "HEAD"),
        ("https://example.org/p.git@v1.2", "https://example.org/p.git", "v1.2"),
        ("https://example.org/p.git@feature/x", "https://example.org/p.git", "feature/x"),
        ("git@example.org:team/p.git", "git@example.org:team/p.git", "HEAD"),
        ("git@example.org:team/p.git@main", "git@example.org:team/p.git", "main"),
        ("ssh://git@example.org/p.git", "ssh://git@example.org/p.git", "HEAD"),
        ("ssh://git@example.org/p.git@main", "ssh://git@example.org/p.git", "main"),
        ("https://me:token@example.org/p.git", "https://me:token@example.org/p.git", "HEAD"),
        ("/srv/p.git@" + "a" * 40, "/srv/p.git", "a" * 40),
    ],
)
def test_revision_is_told_from_the_user_of_an_address(word: str, url: str, revision: str) -> None:
    assert parse(word) == (url, revision)


@pytest.mark.parametrize("word", ["", "-x", "/srv/p.git@", "/srv/p.git@-x", "--upload-pack=x@y"])
def test_address_that_git_would_take_for_an_option_is_refused(word: str) -> None:
    with pytest.raises(UsageError, match="URL@REV"):
        parse(word)
