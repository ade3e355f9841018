"""Variables of files for `--env-file`: quotes, comments, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from hostler.cli.environment import variables
from hostler.model.errors import UsageError


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("A=b c", "b c"),
        ("A=", ""),
        ("A='b # c'", "b # c"),
        ('A="b # c"  # why', "b # c"),
        ("A='$HOME \\n'", "$HOME \\n"),
        (r'A="one\ntwo\t\"3\" \$x \\ \q"', 'one\ntwo\t"3" $x \\ \\q'),
        ("export A=b=c", "b=c"),
        ("  export\tA = b".replace(" = ", "="), "b"),
        ("A=b#c # why", "b#c"),
        ("A=5$", "5$"),
        ("A=''", ""),
    ],
)
def test_value_of_an_env_file_is_read_as_dotenv_files_are(tmp_path: Path, line: str, value: str) -> None:
    (tmp_path / "vars").write_text(f"# first\n\n{line}\n")
    assert variables(None, [tmp_path / "vars"]) == {"A": value}


@pytest.mark.parametrize(
    "line", ["A=it's", "A='open", 'A="open', 'A="a" b', 'A={"a": 1}', "A=$HOME/x", 'A="${HOME}"', "A=`date`"]
)
def test_ambiguous_value_of_an_env_file_is_refused_with_a_remedy(tmp_path: Path, line: str) -> None:
    (tmp_path / "vars").write_text(line)
    with pytest.raises(UsageError, match=r"line 1: A has .*single quotes"):
        variables(None, [tmp_path / "vars"])


def test_value_of_the_option_is_as_it_was_typed() -> None:
    assert variables(['A="b" $c'], None) == {"A": '"b" $c'}
