"""Jobs in short form: as jobs files and fleet files have them, and as requests of the HTTP API do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator, model_validator

from hostler.model.work import (
    ANYWHERE,
    CONSTRAINTS_MAX,
    PARAMETERS_MAX,
    RESERVED_NAME,
    Cores,
    DeviceCount,
    DeviceWanted,
    Gigabytes,
    Label,
    LabelName,
    Labels,
    LabelValue,
    MemoryGb,
    ParameterName,
    ParameterValue,
    Priority,
    Resources,
    Rest,
    Retry,
    Seconds,
    Tiers,
    Wanted,
)
from hostler.settings.section import (
    NOT_A_TEXT,
    Command,
    JobEnvironment,
    Name,
    Names,
    Patterns,
    Section,
    WordOrNumber,
    as_text,
    as_texts,
    counted,
    sensible,
)
from hostler.settings.slurm import SlurmJob


def _as_labels(value: object) -> object:
    """`name=value` texts where a mapping or one text is given. Raises `ValueError` for a boolean."""
    if isinstance(value, Mapping):
        wrong = [name for name, each in value.items() if isinstance(each, bool)]
        if wrong:
            raise ValueError(f"the value of {wrong[0]} {NOT_A_TEXT}")
        return tuple(f"{name}={each}" for name, each in value.items())
    return as_texts(value)


ShortNames: TypeAlias = Annotated[
    Annotated[tuple[Annotated[Wanted, BeforeValidator(as_text)], ...], Field(max_length=CONSTRAINTS_MAX)],
    BeforeValidator(
        as_texts,
        json_schema_input_type=Annotated[tuple[Wanted | float, ...], Field(max_length=CONSTRAINTS_MAX)]
        | Wanted
        | float,
    ),
]
"""Names, or parts of names; one alone needs no list."""
ShortLabels: TypeAlias = Annotated[
    Labels,
    BeforeValidator(
        _as_labels,
        json_schema_input_type=Labels
        | Label
        | Annotated[dict[LabelName, LabelValue | float], Field(max_length=CONSTRAINTS_MAX)],
    ),
]
"""`name=value` each, or a mapping; one alone needs no list."""
ShortParameter: TypeAlias = Annotated[
    ParameterValue, BeforeValidator(as_text, json_schema_input_type=ParameterValue | float)
]
OWN_DIRECTORY = "{attempt}"
"""As a job's `cwd`: a fresh directory for each attempt."""
USUAL = {field.name: getattr(ANYWHERE, field.name) for field in fields(Resources)}
NEEDS = tuple(USUAL)
"""Fields of `resources`, which may also stand beside the command."""


class JobNeeds(Section):
    """Needs of a job: devices, memory, constraints."""

    device: DeviceWanted = None
    vram_gb: Gigabytes = 0.0
    memory_gb: MemoryGb | None = None
    gpus: DeviceCount = 1
    shards: bool = False
    shared: bool = False
    cpus: Cores = 0.0
    tiers: Tiers = ()
    cpu_too: bool = False
    disk_gb: Gigabytes | None = None
    nodes: ShortNames = ()
    exclude_nodes: ShortNames = ()
    gpu_models: ShortNames = ()
    exclude_gpu_models: ShortNames = ()
    providers: ShortNames = ()
    labels: ShortLabels = ()


class JobCommand(Section):
    """The command of a job in short form, and how it is run."""

    name: Name | None = None
    key: Name | None = None
    argv: Command | None = None
    """The command, word by word, no shell; a first word `{python}` is the node's Python."""
    run: Command | None = None
    """Another word for `argv`."""
    script: Annotated[str, Field(min_length=1)] | None = None
    """A Python script, run by the node's Python with `args`."""
    args: tuple[WordOrNumber, ...] = ()
    """Arguments of `script`."""
    files: Patterns | None = None
    """What of `cwd` goes along to nodes behind SSH, as patterns (`*`, `**`, folders); by default all of it, but for
    what its `.hostlerignore` (or else `.gitignore`) names."""
    outputs: Patterns = ()
    """Files that it leaves where it runs, as patterns: they are brought to `results/ATTEMPT/` in the state directory,
    and it has failed without them."""
    env: JobEnvironment = {}
    """Environment variables on top of the node's; `{secret: NAME}` as a value is that secret. Values under names that
    look like credentials (`*_KEY`, `*_TOKEN`, `*SECRET*`, `*PASSWORD*`) are stored as secrets of the job."""
    plain: bool = False
    """Whether those are journalled like all other values instead."""
    python_env: Annotated[str, Field(min_length=1)] | None = None
    """File of `cwd` that states its Python environment, which is built on its node: a `uv.lock`, `pyproject.toml`,
    requirements file or `environment.yml`; `none`: nothing is built. By default the first of these that is there, on
    machines other than the controller's."""
    parameters: Annotated[dict[ParameterName, ShortParameter], Field(max_length=PARAMETERS_MAX)] = {}
    """Values that its command was made with, by name, for `hostler results` and the folders of `hostler fetch`."""
    after: Names = ()
    """Keys or ids of jobs, or ids of groups, that must be done first. `$HOSTLER_INPUTS` names a JSON file with their
    results; of a group, it has a list of `job`, `parameters` and `result`."""
    priority: Priority = 0
    """Higher goes first."""
    walltime_s: Seconds | None = None
    """Longest time an attempt may run, in seconds."""
    grace_s: Rest = 10.0
    """Time between the request to stop and the kill, in seconds."""
    retry: Retry = Retry()
    """How often it may fail, and how long it rests before it tries again."""
    require_result: bool = False
    """Whether it has failed if it leaves no `$HOSTLER_RESULT`."""
    work: Literal["script", "selfplay", "training", "evaluation", "export", "rl"] = "script"
    """The kind of work whose shares, preferences and permissions it goes by."""
    config: Name | None = None
    """The training config it works for; two trainings of one config never run at the same time."""
    expected_s: Seconds | dict[Name, Seconds] | None = None
    """How long it will take, in seconds, as far as you know: on any device, or by model of device, `*` for any other.
    What is measured counts for more."""
    checkpoints: bool = False
    """Whether it may be stopped and started anew without losing its work: it saves it itself, often and on SIGTERM."""
    slurm: SlurmJob | None = None
    """Options for a Slurm cluster, where it runs on one."""
    job_id: Name | None = None
    """Another word for `name`, as in the jobs files of scripts_coordinator."""
    timeout: Seconds | None = None
    """Another word for `walltime_s`, as in the jobs files of scripts_coordinator."""
    type: Literal["script"] | None = None
    """Accepted from older jobs files; there is no other type."""
    analysis_type: Literal["script"] | None = None
    """Accepted from older jobs files; there is no other type."""


class JobForm(JobNeeds, JobCommand):
    """The short form of a job, where it is the same everywhere. Fields of `resources` may stand beside the command."""

    resources: JobNeeds = JobNeeds()
    """Needs of the job. Each of these fields may stand beside the command instead: `gpus: 2`, which states a GPU."""

    @field_validator("resources")
    @classmethod
    def _makes_sense(cls, asked: JobNeeds, info: ValidationInfo) -> JobNeeds:
        sensible(_needs(asked, info.data))
        return asked

    @model_validator(mode="after")
    def _says_everything_once(self) -> Self:
        if sum(way is not None for way in (self.argv, self.run, self.script)) != 1:
            raise ValueError("give its command as exactly one of argv, run and script")
        if self.args and self.script is None:
            raise ValueError("args belong to a script; put them into the command itself")
        if self.walltime_s is not None and self.timeout is not None:
            raise ValueError("walltime_s and timeout mean the same; keep walltime_s")
        twice = self.model_fields_set & self.resources.model_fields_set
        if twice:
            raise ValueError(f"{min(twice)} is given beside the command and in resources; keep one of them")
        needs = sensible(self.needs)
        if needs.device == "cpu" and "gpus" in self.model_fields_set | self.resources.model_fields_set:
            raise ValueError(f"gpus asks for {counted(needs.gpus)}, and device is cpu; leave one of the two out")
        return self

    @property
    def needs(self) -> Resources:
        """Its needs, from `resources` and from the fields beside the command."""
        return _needs(self.resources, vars(self), states_gpus="gpus" in self.model_fields_set)


class Job(JobForm):
    """A script job in short form. Exactly one of `argv`, `run` and `script` gives its command."""

    name: Name | None = None
    """Its name for people; by default the command."""
    key: Name | None = None
    """Idempotency key: submitting the same job under the same key again changes nothing. By default the name, or else
    the command."""
    cwd: Annotated[str, Field(min_length=1)] = "."
    """Where it runs, starting from the folder of this file; `{attempt}` is a fresh directory for each attempt."""
    in_place: bool = False
    """Whether it runs in `cwd` itself, on nodes that share its file system. In a jobs file, `hostler submit` otherwise
    sends the files of `cwd` as they are then."""

    @model_validator(mode="after")
    def _has_one_name(self) -> Self:
        if self.name is not None and self.job_id is not None:
            raise ValueError("name and job_id mean the same; keep name")
        refuse_id(self.key or self.name or self.job_id)
        return self


class ShortJob(JobForm):
    """A script job in short form. Exactly one of `argv`, `run` and `script` gives its command."""

    name: Name | None = None
    """Its name for people; by default the command."""
    key: Name | None = None
    """Idempotency key: submitting the same job under the same key again changes nothing. By default it has none."""
    cwd: Annotated[str, Field(min_length=1)] | None = None
    """Where it runs, as an absolute path; by default, and for `{attempt}`, a fresh directory for each attempt."""
    in_place: bool = False
    """Whether it runs in `cwd` itself, on nodes that share its file system."""
    python_env: Annotated[str, Field(min_length=1)] | None = None
    """File of its snapshot, or of `cwd`, that states its Python environment, which is built on its node: a `uv.lock`,
    `pyproject.toml`, requirements file or `environment.yml`. By default, and for `none`, nothing is built."""
    snapshot: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = None
    """The digest of the snapshot whose files each attempt starts from, in a folder of its own; in place of `cwd`."""

    @field_validator("cwd")
    @classmethod
    def _is_absolute(cls, cwd: str | None) -> str | None:
        if cwd is not None and cwd != OWN_DIRECTORY and not PurePosixPath(cwd).is_absolute():
            raise ValueError(
                "is a relative path, and the controller reads no path of the machine it comes from. Give an absolute "
                "path of the nodes; or leave cwd out and name a snapshot, as `hostler submit` and the Python client do"
            )
        return cwd

    @model_validator(mode="after")
    def _has_one_name(self) -> Self:
        if self.name is not None and self.job_id is not None:
            raise ValueError("name and job_id mean the same; keep name")
        refuse_id(self.key)
        return self


class Jobs(Section):
    """A jobs file; a bare list of jobs is one, too."""

    jobs: tuple[Job, ...]
    """The jobs."""


def refuse_id(key: str | None) -> None:
    if key is not None and RESERVED_NAME.fullmatch(key):
        raise ValueError(f"the key {key!r} looks like the id of a job; give it another key (by default it is the name)")


def _needs(asked: JobNeeds, beside: Mapping[str, Any], *, states_gpus: bool = False) -> Resources:
    """The needs that are asked for in `resources`, and beside the command where they are not the defaults."""
    other = {name: beside[name] for name, usual in USUAL.items() if name in beside and beside[name] != usual}
    needs = {**vars(asked), **other}
    return Resources(**{**needs, "device": "gpu"} if states_gpus and needs["device"] is None else needs)
