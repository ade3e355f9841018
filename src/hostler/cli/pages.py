"""HTML pages that commands write: what they need, and files that are there as a whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hostler.model.errors import UsageError

NEEDED = ("matplotlib", "jinja2")


@contextmanager
def report_extra() -> Iterator[None]:
    """What is imported within may lack the extra `report`: a :class:`UsageError` says so then."""
    try:
        yield
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in NEEDED:
            raise
        raise UsageError(
            f"a report needs {missing}, which is not installed; install what it needs with "
            "`pip install 'hostler[report]'`"
        ) from error


def write_page(path: Path, text: str, option: str = "-o") -> None:
    """Write a page as a whole or not at all; `option` named its file. Raises :class:`UsageError`."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise UsageError(f"{path} cannot be written ({error.strerror}); choose another file with {option}") from error
