"""The interpreters that `submit` prints are those of nodes on which the job can run."""

from __future__ import annotations

from typing import Any

import pytest

from hostler.cli.pythons import print_environments


class Nodes:
    """The nodes of a fleet."""

    def nodes(self) -> list[dict[str, Any]]:
        """Two behind SSH, of which one has a GPU."""
        return [
            {
                "name": name, "backend": "ssh", "pool": None, "python": f"/srv/{name}/python", "provider": provider,
                "devices": [{"kind": kind}],
            }
            for name, provider, kind in (("rig-1", "vast", "cuda"), ("rig-2", None, "cpu"))
        ]  # fmt: skip


@pytest.mark.parametrize(
    ("need", "names"),
    [
        ({"device": None}, ["rig-1", "rig-2"]),
        ({"device": None, "nodes": ["rig-1"]}, ["rig-1"]),
        ({"device": None, "exclude_nodes": ["rig-1"]}, ["rig-2"]),
        ({"device": None, "providers": ["vast"]}, ["rig-1"]),
        ({"device": "gpu"}, ["rig-1"]),
        ({"device": "cpu"}, ["rig-2"]),
    ],
)
def test_interpreters_of_nodes_on_which_the_job_cannot_run_are_not_printed(
    need: dict[str, Any], names: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    spec = {"payload": {"kind": "script", "argv": ["python", "train.py"]}, "resources": need}
    print_environments(Nodes(), [spec], {})  # type: ignore[arg-type]
    said = capsys.readouterr().err.splitlines()
    assert said == [f"python → /srv/{name}/python (on {name})" for name in names]
