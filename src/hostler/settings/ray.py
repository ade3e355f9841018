"""Ray clusters as they are written in a fleet file. Nothing here does anything but refuse contradictions."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from hostler.model.work import GIGABYTES_MAX, Rest, Seconds
from hostler.settings.section import Section, Word


def _has_a_host(address: str) -> str:
    """What the pattern lets through and no request can be made of."""
    try:
        parts = urlsplit(address)
        fine = bool(parts.hostname) and parts.port != 0 and address.isprintable()
    except ValueError:
        fine = False
    if not fine:
        raise ValueError(f"{address!r} names no host, or a port that is none; write it as http://10.0.0.5:8265")
    return address


Url: TypeAlias = Annotated[str, Field(pattern=r"^https?://[^\s/?#@]+(/[^\s?#]*)?$"), AfterValidator(_has_a_host)]
Variable: TypeAlias = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
Amount: TypeAlias = Annotated[float, Field(gt=0, le=1_000_000)]
PILOTS_MAX = 1000


class Ray(Section):
    """A Ray cluster, and what one pilot asks of it: a job of the cluster in which Hostler's agent runs work."""

    address: Url | None = None
    """Where its dashboard answers, as `http://10.0.0.5:8265`. Required for `backend: ray`."""
    token_file: Annotated[str, Field(min_length=1)] | None = None
    """File whose first line is the cluster's token (`ray get-auth-token`), starting from the folder of this file."""
    token_env: Variable | None = None
    """Environment variable that holds the token instead. By default none is shown."""
    ca: Annotated[str, Field(min_length=1)] | None = None
    """With `https`: file with the certificates (PEM) that the dashboard's is believed by; by default the system's."""
    pilots: Annotated[int, Field(ge=1, le=PILOTS_MAX)] | None = None
    """How many such pilots there may be at a time: each is a node of its own, called NAME-1, NAME-2 and so on. By
    default one, called as the node."""
    cpus: Annotated[float, Field(gt=0, le=4096)] = 1.0
    """CPUs of one machine that a pilot asks for."""
    gpus: Annotated[int, Field(ge=0, le=1024)] = 0
    """GPUs that it asks for."""
    memory_gb: Annotated[float, Field(gt=0, le=GIGABYTES_MAX)] | None = None
    """Memory that it asks for, in GiB, and that work there is reserved from; by default it asks for none."""
    resources: dict[Word, Amount] = {}
    """What else it asks for, of what the cluster's owner has named: `{accelerator_type:H100: 1}`."""
    labels: dict[Word, Word] = {}
    """Labels that its machine must have: `{site: a}`."""
    grows: bool = False
    """Whether Ray's autoscaler begins machines for what waits: nothing is refused then because none has it now, and a
    pilot waits for as long as that takes."""
    gpu_kind: Literal["cuda", "rocm"] = "cuda"
    """Whose its GPUs are, as long as no pilot has seen them."""
    gpu_model: Annotated[str, Field(min_length=1)] | None = None
    """What their driver calls them, likewise."""
    vram_gb: Annotated[float, Field(gt=0, le=GIGABYTES_MAX)] | None = None
    """Video memory of each, in GB, likewise; by default unknown, which keeps away whatever asks for some."""
    idle_s: Rest = 300.0
    """How long a pilot waits for more work, in seconds, before it gives back what it has."""
    poll_s: Seconds = 5.0
    """How often the cluster is asked how a pilot is, in seconds."""


def ray_fault(asked: Ray) -> str | None:
    """What is wrong with the section of a node, its class's laid under it; `None`: nothing."""
    if asked.address is None:
        return "ray.address is missing: give the address of the cluster's dashboard, as http://10.0.0.5:8265"
    if asked.token_file is not None and asked.token_env is not None:
        return "ray.token_file and ray.token_env both give the token; keep one of them"
    if asked.ca is not None and not asked.address.startswith("https:"):
        return "ray.ca says whose certificate to believe, and http shows none; give an address that begins with https:"
    names = sorted({"CPU", "GPU", "memory"} & asked.resources.keys())
    if names:
        return f"ray.resources names {names[0]}, which has a setting of its own: cpus, gpus, memory_gb"
    return None
