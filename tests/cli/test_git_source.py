"""Addresses of git repositories with revisions."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from hostler.cli.git_source import checkout, parse
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
        ("https://example.org/p.git@feat/x@y", "https://example.org/p.git", "feat/x@y"),
        ("https://me@example.org/p.git@feat/x@y", "https://me@example.org/p.git", "feat/x@y"),
        ("git@example.org:team/p.git@x@y", "git@example.org:team/p.git", "x@y"),
        ("repo@v1", "repo", "v1"),
        ("~/repo@x@y", "~/repo", "x@y"),
        ("/srv/p.git@" + "a" * 40, "/srv/p.git", "a" * 40),
    ],
)
def test_revision_is_told_from_the_user_of_an_address(word: str, url: str, revision: str) -> None:
    assert parse(word) == (url, revision)


@pytest.mark.parametrize("word", ["", "-x", "/srv/p.git@", "/srv/p.git@-x", "--upload-pack=x@y"])
def test_address_that_git_would_take_for_an_option_is_refused(word: str) -> None:
    with pytest.raises(UsageError, match="URL@REV"):
        parse(word)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with a branch `feat/x@y`, in a folder with an `@`; the current folder is the one around it."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "my@repo"
    folder.mkdir()
    (folder / "train.py").write_text("print(1)\n")
    author = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    for words in (("init", "-q"), ("add", "."), (*author, "commit", "-qm", "first"), ("branch", "feat/x@y")):
        subprocess.run(["git", *words], cwd=folder, check=True)
    return folder


@pytest.mark.parametrize("word", ["my@repo", "my@repo@feat/x@y", "./my@repo@feat/x@y", "~/my@repo@feat/x@y"])
def test_revision_with_a_sign_of_a_folder_with_one_is_checked_out(repository: Path, word: str) -> None:
    with checkout(word) as folder:
        assert (folder / "train.py").read_text() == "print(1)\n"


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("~/my@repo@nope", "the repository has no branch, tag or commit 'nope'"),
        ("nowhere@v1", "there is no folder nowhere. Give the path or the address of a repository"),
    ],
)
def test_revision_or_repository_that_is_missing_is_named(repository: Path, word: str, message: str) -> None:
    with pytest.raises(UsageError, match=message), checkout(word):
        pass
