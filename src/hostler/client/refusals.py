"""What a controller refuses of submitted jobs, in the words of the caller: `gpus`, not `jobs[0].resources.gpus`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from hostler.model.errors import SpecError

BEGIN = "the jobs were refused, none was submitted: "
FIELD = r"\bjobs\[\d+\]\.(?:resources\.|payload\.|retry\.)?([a-z_]+)((?:\.[A-Za-z_*][A-Za-z0-9_*-]*|\[\d+\])*)"
OPTION = "--"


@contextmanager
def in_callers_words(name_of: Callable[[str], str] = str) -> Iterator[None]:
    """Within, errors about fields of a job name them as the caller did, and once for all jobs of a group."""
    try:
        yield
    except SpecError as error:
        message = str(error)
        if not message.startswith(BEGIN):
            raise
        told = re.sub(FIELD, lambda field: _called(name_of(field[1]), field[2]), message.removeprefix(BEGIN))
        raise SpecError(f"nothing was submitted: {'; '.join(dict.fromkeys(told.split('; ')))}") from error


def _called(name: str, below: str) -> str:
    """A field as the caller wrote it, with the path below it: `--max-attempts exit`, `max_attempts.exit`."""
    if not name.startswith(OPTION):
        return name + below
    return " ".join([name, *re.findall(r"\.([^.\[]+)", below)])
