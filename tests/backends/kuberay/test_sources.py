"""From a fleet file to manifests: what it names is read, and what cannot be is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from hostler.backends.kuberay.sources import FILES_BYTES_MAX, render
from hostler.model.errors import SettingsError, SpecError
from hostler.settings import load

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
FLEET = """\
kuberay:
  name: {name}
  namespace: rl
  image: rl
  ray_version: {ray}
  entrypoint: [python]
  token_auth: true
  files: [{file}]
  workers: [{{name: cpu}}]
"""


def written(folder: Path, name: str = "a", ray: str = "2.60.0", file: str = "order.yaml") -> Path:
    path = folder / "fleet.yaml"
    path.write_text(FLEET.format(name=name, ray=ray, file=file))
    return path


def test_files_start_from_the_folder_of_the_fleet_file(tmp_path: Path) -> None:
    (tmp_path / "order.yaml").write_text("a: 1\n")
    made = render(load(written(tmp_path), {}))
    assert [each["data"] for each in made.manifests if each["kind"] == "ConfigMap"] == [{"order.yaml": "a: 1\n"}]
    assert made.main["kind"] == "RayJob"


@pytest.mark.parametrize(
    ("content", "file", "says"),
    [
        (None, "order.yaml", r"kuberay.files\[0\]: .*order.yaml cannot be read as text"),
        (b"\xff", "order.yaml", "cannot be read as text"),
        (b"x" * FILES_BYTES_MAX, "order.yaml", "a ConfigMap holds 1000000; put what is large into the image"),
        (b"", "my order.yaml", r"fleet.yaml:\d+:\d+: 'my order.yaml' has signs"),
    ],
)
def test_files_that_cannot_travel_are_refused(tmp_path: Path, content: bytes | None, file: str, says: str) -> None:
    if content is not None:
        (tmp_path / file).write_bytes(content)
    with pytest.raises(SettingsError, match=says):
        render(load(written(tmp_path, file=file), {}))


@pytest.mark.parametrize(
    ("name", "ray", "says"),
    [
        ("a" * 48, "2.60.0", f"RayJob rl/{'a' * 48}: metadata.name: has 48 characters; at most 47"),
        ("a", "2.51.0", "authOptions.mode: token needs rayVersion 2.52.0 or later, not '2.51.0' .KubeRay."),
    ],
)
def test_what_kuberay_would_refuse_is_not_rendered(tmp_path: Path, name: str, ray: str, says: str) -> None:
    (tmp_path / "order.yaml").write_text("")
    with pytest.raises(SpecError, match=says):
        render(load(written(tmp_path, name, ray), {}))


def test_a_file_that_asks_for_nothing_is_refused(tmp_path: Path) -> None:
    (tmp_path / "fleet.yaml").write_text("name: a\n")
    with pytest.raises(SettingsError, match="has no `kuberay:` section"):
        render(load(tmp_path / "fleet.yaml", {}))


def test_the_example_is_rendered_with_a_training_that_fits_its_workers() -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    from hostler.workloads.gameboy.order import read_order

    made = render(load(EXAMPLES / "kuberay.yaml", {}))
    order = read_order(EXAMPLES / "kuberay/training.yaml", {})
    (group,) = made.asked.workers
    assert order.run.ray is not None
    assert order.run.workers * order.run.ray.cpus <= group.replicas * group.cpus
    text = (EXAMPLES.parent / "docs/guides/kuberay.md").read_text(encoding="utf-8")
    shown = text.split("```yaml\n")[1].split("```")[0]
    assert (EXAMPLES / "kuberay.yaml").read_text(encoding="utf-8").endswith(shown)
