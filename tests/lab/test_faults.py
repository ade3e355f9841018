"""Real sweeps and scripts on four hosts, while something befalls them: nothing is lost, and nothing counts twice."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab import datacentre, host, work
from tests.lab.datacentre import Datacentre
from tests.lab.work import Work

NO_LAB = datacentre.missing()
pytestmark = pytest.mark.skipif(NO_LAB is not None, reason=NO_LAB or "")


@pytest.fixture
def lab() -> Iterator[Datacentre]:
    with datacentre.running([], [], [], []) as made:
        yield made


def test_try(lab: Datacentre, tmp_path: Path) -> None:
    with work.on(lab, tmp_path, scripts=8, sweep_s=8) as made:
        made.begin()
        made.end(60)
        print(made.ran())
