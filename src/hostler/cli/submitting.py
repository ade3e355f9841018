"""`submit`: commands, groups and files of jobs from its options."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from hostler.cli.common import Json, StateDir, client
from hostler.cli.completing import complete_job_or_group
from hostler.cli.constraints import ExcludeGpuModel, ExcludeNode, GpuModel, Label, Node, Provider, constraints
from hostler.cli.declarations import Argument, Option, Typed
from hostler.cli.environment import variables, with_secrets
from hostler.cli.submission import Group, followed, submit_group, submit_specs, waited
from hostler.cli.words import assignments, whole
from hostler.client.grids import (
    LINES_BYTES_MAX,
    NAME_MAX,
    Axis,
    Template,
    array_axis,
    grid_axes,
    jobs_of,
    line_axis,
    repeat_axis,
)
from hostler.client.refusals import in_callers_words
from hostler.client.specs import JobOptions, script_spec
from hostler.model.errors import UsageError

if TYPE_CHECKING:
    pass


GROUP_OPTIONS = ("grid", "array", "each_line", "repeat")
"""Parameters of `submit` that make a group of one command."""
STDIN = "-"

Key = Annotated[str | None, Option(help="Idempotency key: submitting it again is the same job.")]
OPTIONS = {
    "argv": "the command", "exclude_gpu_models": "--exclude-gpu-model", "exclude_nodes": "--exclude-node",
    "files": "--file", "gpu_models": "--gpu-model", "labels": "--label", "nodes": "--node", "outputs": "--output",
    "providers": "--provider", "secrets": "--secret", "tiers": "--tier",
}  # fmt: skip
"""The options of fields of a job whose names are not those of the fields."""
After = Annotated[
    list[str] | None,
    Option(
        metavar="JOB",
        help="Job (id, key, unique name) or group that must be done first; repeat for several.",
        complete=complete_job_or_group,
    ),
]
Priority = Annotated[int, Option(help="Higher goes first.")]
Cwd = Annotated[
    Path,
    Option(
        metavar="DIR",
        help="The folder whose files it gets, as they are now; by default this one.",
    ),
]
Env = Annotated[
    list[str] | None,
    Option(metavar="NAME[=VALUE]", help="Environment variable; alone, with its value here; repeat for several."),
]
EnvFile = Annotated[
    list[Path] | None,
    Option(
        metavar="FILE",
        help="File of environment variables, a line each, with # comments; quotes around a value are removed, `export` "
        "is allowed. --env counts for more.",
    ),
]
Secret = Annotated[
    list[str] | None,
    Option(metavar="NAME[=SECRET]", help="Environment variable that is the secret of that name; repeat for several."),
]
Plain = Annotated[
    bool, Option("--plain", help="Journal values under names like *_KEY and *_TOKEN; by default they are secrets.")
]
PythonEnv = Annotated[
    str | None,
    Option(
        metavar="FILE|none",
        help="File of --cwd that states its Python environment, which is built on its node; none: nothing is built. By "
        "default uv.lock, pyproject.toml, requirements.txt or environment.yml, on other machines.",
    ),
]
Files = Annotated[
    list[str] | None,
    Option("--file", metavar="PATTERN", help="Of --cwd, only these files; repeat for several."),
]
Outputs = Annotated[
    list[str] | None,
    Option(
        "--output",
        metavar="PATTERN",
        help="A file it leaves, which is fetched; repeat for several. By default all new and changed files.",
    ),
]
Device = Annotated[
    Literal["any", "cpu", "gpu"] | None,
    Option(help="The kind of device it needs; by default a script waits for a GPU if the fleet has one."),
]
VramGb = Annotated[float, Option(min=0, help="GPU memory it needs, in GB.")]
MemoryGb = Annotated[float | None, Option(help="Most memory of its processes together, in GB of 2^30 bytes.")]
MaxAttempts = Annotated[
    list[str] | None,
    Option(metavar="CLASS=N", help="Attempts that may end so (exit=3, timeout=2, ...); repeat for several."),
]
Gpus = Annotated[
    int | None,
    Option(min=1, max=64, help="GPUs of one node that it takes at once."),
]
Cpus = Annotated[float, Option(min=0, help="Host cores it keeps busy.")]
Shards = Annotated[bool, Option("--shards", help="--vram-gb may be spread over several GPUs of a node.")]
Shared = Annotated[bool, Option("--shared", help="Others may run on its GPU, as far as the memory of all fits.")]
Tiers = Annotated[
    list[int] | None,
    Option("--tier", min=1, max=3, help="Tier of nodes it may run on; repeat for several, best first."),
]
Work = Annotated[
    Literal["script", "selfplay", "training", "evaluation", "export", "rl"],
    Option(help="The kind of work whose shares and preferences it goes by."),
]
Config = Annotated[str | None, Option(metavar="NAME", help="The training config it works for.")]
ExpectedS = Annotated[
    list[str] | None,
    Option(
        metavar="[MODEL=]S", help="How long it will take, in seconds, on any device or on a model; repeat for several."
    ),
]
Checkpoints = Annotated[
    bool,
    Option("--checkpoints", help="It may be stopped and started anew: it saves its work outside of its folder."),
]
Grid = Annotated[
    list[str] | None,
    Option(
        metavar="NAME=V1,V2",
        help="A job for each value, which takes the place of {NAME}; several make each combination. \\, is a comma.",
    ),
]
Array = Annotated[
    str | None,
    Option(
        metavar="RANGE[%N]",
        help="A job for each index, as 0-99, 0-15:4 or 1,3,5-7, in {index} and $HOSTLER_INDEX; %N: N at once.",
    ),
]
EachLine = Annotated[
    str | None,
    Option(metavar="FILE", help="A job for each line of a file, or of standard input (-), in {line}."),
]
Repeat = Annotated[
    int | None,
    Option(metavar="N", min=1, help="Each job N times, from 0 on, in {repeat} and $HOSTLER_REPEAT."),
]
MaxRunning = Annotated[
    int | None, Option(metavar="N", min=1, help="Run at most N jobs of the group at once, over all nodes.")
]
MaxFailures = Annotated[
    int | None, Option(metavar="N", min=0, help="Cancel the rest of the group when more than N jobs failed.")
]


def submit(
    typed: Typed,
    command: Annotated[
        list[str] | None,
        Argument(metavar="CMD", help="A program and its arguments, for no shell.", verbatim=True),
    ] = None,
    jobs_file: Annotated[
        Path | None, Option(metavar="FILE", help="Submit the jobs of a YAML or JSON file; all of them or none.")
    ] = None,
    grid: Grid = None,
    array: Array = None,
    each_line: EachLine = None,
    repeat: Repeat = None,
    max_running: MaxRunning = None,
    max_failures: MaxFailures = None,
    name: Annotated[str | None, Option(help="What people call it; by default the command.")] = None,
    key: Key = None,
    after: After = None,
    priority: Priority = 0,
    cwd: Cwd = Path(),
    own_dir: Annotated[bool, Option("--own-dir", help="Send no files; start in an empty folder.")] = False,
    in_place: Annotated[
        bool, Option("--in-place", help="Run in --cwd itself, on nodes that share its file system.")
    ] = False,
    yes: Annotated[bool, Option("--yes", help="Send more than 1 GB of files without a question.")] = False,
    git: Annotated[
        str | None, Option(metavar="URL@REV", help="Send the files of a git revision instead of a folder.")
    ] = None,
    files: Files = None,
    outputs: Outputs = None,
    env: Env = None,
    env_file: EnvFile = None,
    secret: Secret = None,
    plain: Plain = False,
    python_env: PythonEnv = None,
    walltime_s: Annotated[float | None, Option(help="Longest time an attempt may take, in seconds.")] = None,
    device: Device = None,
    node: Node = None,
    exclude_node: ExcludeNode = None,
    gpu_model: GpuModel = None,
    exclude_gpu_model: ExcludeGpuModel = None,
    provider: Provider = None,
    label: Label = None,
    vram_gb: VramGb = 0.0,
    memory_gb: MemoryGb = None,
    gpus: Gpus = None,
    cpus: Cpus = 0.0,
    shards: Shards = False,
    shared: Shared = False,
    tier: Tiers = None,
    work: Work = "script",
    config: Config = None,
    expected_s: ExpectedS = None,
    checkpoints: Checkpoints = False,
    max_attempts: MaxAttempts = None,
    require_result: Annotated[
        bool, Option("--require-result", help="Fail if it leaves no JSON in $HOSTLER_RESULT.")
    ] = False,
    wait: Annotated[
        bool, Option("--wait", help="Then wait for the jobs, with their exit status, as `hostler wait` does.")
    ] = False,
    follow: Annotated[
        bool, Option("--follow", help="Then print the output of the job, as `hostler logs -f` does.")
    ] = False,
    strict: Annotated[
        bool, Option("--strict", help="Submit nothing if there would be a note on one of the jobs.")
    ] = False,
    as_json: Json = False,
    state_dir: StateDir = None,
) -> int:
    """Submit a command or a file of jobs; print their ids.

    --grid, --array, --each-line and --repeat submit a group: a job for each value, whose id is printed. {NAME} in the
    command, --env, --name and --output becomes the value; {{NAME}} becomes the text {NAME}. With --key, each job has
    this key and its values as its own: a larger grid under the same key adds only the new jobs.

    Standard output has the ids alone, and has them first: all else follows on standard error.

    A note is printed for jobs that no device can take as the fleet is now, for a program or a script
    that is missing here, and for a {NAME} that no option gives a value.

    Example:
      hostler submit -- python train.py --epochs 3
      hostler submit --name train --wait -- python train.py && hostler fetch train
      hostler submit --name eval --after j17 --device gpu -- ./evaluate "model 3.pt"
      hostler submit --grid lr=0.1,0.03 --grid bs=16,32 -- python train.py --lr {lr} --bs {bs}
      hostler submit --secret WANDB_API_KEY -- python train.py
      hostler submit --array 0-99%8 -- ./evaluate --part {index}
      hostler submit --jobs-file examples/jobs.yaml
    """
    if (jobs_file is None) == (not command):
        raise UsageError("give either a command (after `--`) or --jobs-file FILE; `hostler submit --help` shows how")
    if wait and follow:
        raise UsageError("--follow waits for the end, too; leave out --wait")
    if as_json and (wait or follow):
        raise UsageError("--json prints one document, the ids; leave out --wait and --follow, or --json")
    if own_dir and "cwd" in typed.names:
        raise UsageError(
            "--own-dir sends no files, and --cwd names a folder whose files are sent; leave out one of them"
        )
    _expect_group(typed.values)
    if jobs_file is not None:
        limits = {"max_running", "max_failures"}
        _refuse_others(typed, {"jobs_file", "yes", "wait", "strict", "as_json", "state_dir", "server"} | limits)
    with ExitStack() as stack:
        asked = dict(typed.values)
        if git is not None:
            _expect_git(asked)
            from hostler.cli.git_source import checkout

            folder = stack.enter_context(checkout(git))
            # All that its owner has put into the repository is sent, ignored or not.
            asked |= {"cwd": folder / cwd, "files": files or ("**",)}
        specs, group = _asked_for(command or [], asked)
        if jobs_file is None:
            stack.enter_context(in_callers_words(_option_of))
        if group is None:
            ids = submit_specs(specs, as_json, state_dir, yes=yes, strict=strict)
        else:
            lists_ids = jobs_file is not None
            sent = submit_group(specs, group, as_json, state_dir, yes=yes, strict=strict, lists_ids=lists_ids)
    if not (wait or follow):
        return 0
    if group is None:
        return followed(client(state_dir), ids, follow=follow)
    return waited(client(state_dir), sent, by_job=lists_ids)


def attempts(words: Sequence[str] | None) -> dict[str, int]:
    """Budgets by failure class from `CLASS=N`."""
    return {
        name: whole("--max-attempts", count)
        for name, count in assignments("--max-attempts", words, "CLASS=N", "exit=1").items()
    }


def _option_of(field: str) -> str:
    """The option that sets a field of a job."""
    return OPTIONS.get(field, "--" + field.replace("_", "-"))


def _group_options(asked: Mapping[str, Any]) -> list[str]:
    """The names of the options that were given and make a group of one command."""
    return [name for name in GROUP_OPTIONS if asked[name] not in (None, (), [])]


def _expect_group(asked: Mapping[str, Any]) -> None:
    """Raise `UsageError` where the options of groups do not go together, or not with others."""
    given = ["--" + name.replace("_", "-") for name in _group_options(asked)]
    if asked["jobs_file"] is not None and given:
        raise UsageError(f"{given[0]} multiplies one command; leave it out and write each job into --jobs-file")
    if len(set(given) - {"--repeat"}) > 1:
        raise UsageError("--grid, --array and --each-line exclude each other; give one of them, and --repeat with any")
    if given and asked["follow"]:
        raise UsageError("--follow prints the output of one job; use --wait for a group")
    for name in ("max_running", "max_failures"):
        if asked[name] is not None and not given and asked["jobs_file"] is None:
            raise UsageError(
                f"--{name.replace('_', '-')} limits the jobs of a group, and this is one job; give --grid, --array, "
                "--each-line, --repeat or --jobs-file, or leave it out"
            )


def _expect_git(asked: Mapping[str, Any]) -> None:
    """Raise `UsageError` where other options do not go with `--git`."""
    if asked["own_dir"] or asked["in_place"]:
        raise UsageError("--git sends the files of a repository; leave out --own-dir and --in-place")
    below = asked["cwd"]
    if below.is_absolute() or ".." in below.parts:
        raise UsageError(f"--cwd {below} is not a folder of the repository; with --git it is a path below its top")


def _asked_for(command: list[str], asked: Mapping[str, Any]) -> tuple[Sequence[Mapping[str, Any]], Group | None]:
    """The specs to be submitted, and the group that they are, unless it is a single job."""
    limits = (asked["max_running"], asked["max_failures"])
    if asked["jobs_file"] is not None:
        specs = _from_file(asked["jobs_file"])
        return specs, Group(asked["jobs_file"].name, *limits) if len(specs) > 1 or limits != (None, None) else None
    if _group_options(asked):
        return _group_of(command, asked)
    return [_spec(command, asked)], None


def _group_of(command: list[str], asked: Mapping[str, Any]) -> tuple[Sequence[Mapping[str, Any]], Group]:
    """The specs of a group of one command, in the order of their parameters."""
    axes, at_once = _axes(asked)
    if at_once is not None and asked["max_running"] is not None:
        raise UsageError(
            f"--array {asked['array']} and --max-running both limit the jobs at once; leave one of them out"
        )
    common = _spec(command, asked)
    payload = common["payload"]
    assigned = dict(word.split("=", 1) for word in asked["env"] or () if "=" in word)
    made = [
        {
            **common,
            "name": job.name,
            "key": job.key,
            "parameters": job.parameters,
            "payload": {**payload, "argv": job.argv, "env": {**payload["env"], **job.env}, "outputs": job.outputs},
        }
        for job in jobs_of(Template(command, assigned, asked["name"], payload["outputs"], asked["key"]), axes)
    ]
    name = common["name"][:NAME_MAX]
    return made, Group(name, asked["max_running"] if at_once is None else at_once, asked["max_failures"])


def _axes(asked: Mapping[str, Any]) -> tuple[list[Axis], int | None]:
    """The parameters of a group, and the most jobs at once as --array gives it."""
    axes, at_once = grid_axes(asked["grid"] or ()), None
    if asked["array"] is not None:
        axis, at_once = array_axis(asked["array"])
        axes.append(axis)
    if asked["each_line"] is not None:
        axes.append(line_axis(asked["each_line"], _content(asked["each_line"])))
    if asked["repeat"] is not None:
        axes.append(repeat_axis(asked["repeat"]))
    return axes, at_once


def _content(file: str) -> bytes:
    """The bytes of a file of lines, as far as they are needed to refuse a file that is too large."""
    try:
        if file == STDIN:
            return sys.stdin.buffer.read(LINES_BYTES_MAX + 1)
        with Path(file).open("rb") as opened:
            return opened.read(LINES_BYTES_MAX + 1)
    except OSError as error:
        raise UsageError(f"--each-line {file!r} cannot be read: {error.strerror}. Correct the path") from error


def _spec(command: list[str], asked: Mapping[str, Any]) -> dict[str, Any]:
    """The spec of one command, from the options of `submit` by their names."""
    if sum((asked["own_dir"], asked["in_place"], bool(asked["files"]))) > 1:
        raise UsageError("--own-dir, --in-place and --file exclude each other; give one of them")
    if asked["own_dir"] and asked["python_env"] not in (None, "none"):
        raise UsageError("--python-env is a file of the folder that is sent; leave out --own-dir")
    options: JobOptions = {
        "name": asked["name"],
        "key": asked["key"],
        "after": asked["after"] or (),
        "priority": asked["priority"],
        "cwd": None if asked["own_dir"] else asked["cwd"],
        "in_place": asked["in_place"],
        "files": asked["files"],
        "outputs": asked["outputs"] or (),
        "env": with_secrets(variables(asked["env"], asked["env_file"]), asked["secret"]),
        "plain": asked["plain"],
        "python_env": asked["python_env"],
        "walltime_s": asked["walltime_s"],
        "device": asked["device"],
        "gpus": asked["gpus"],
        "vram_gb": asked["vram_gb"],
        "memory_gb": asked["memory_gb"],
        "cpus": asked["cpus"],
        "shards": asked["shards"],
        "shared": asked["shared"],
        "tiers": asked["tier"] or (),
        "max_attempts": attempts(asked["max_attempts"]),
        "require_result": asked["require_result"],
        "work": asked["work"],
        "config": asked["config"],
        "expected_s": _durations(asked["expected_s"]),
        "checkpoints": asked["checkpoints"],
    }
    _expect_sensible(options)
    spec = script_spec(command, options, _option_of)
    return {**spec, "resources": {**spec["resources"], **_constraints(asked)}}


def _constraints(asked: Mapping[str, Any]) -> dict[str, Any]:
    for name in ("gpu_model", "exclude_gpu_model"):
        if asked[name] and asked["device"] == "cpu":
            option = f"--{name.replace('_', '-')} {asked[name][0]}"
            raise UsageError(f"{option} names GPUs, and --device is cpu; leave one of the two out")
    return constraints(
        nodes=asked["node"],
        exclude_nodes=asked["exclude_node"],
        gpu_models=asked["gpu_model"],
        exclude_gpu_models=asked["exclude_gpu_model"],
        providers=asked["provider"],
        labels=asked["label"],
    )


def _expect_sensible(options: JobOptions) -> None:
    """Raise `UsageError` where options contradict themselves."""
    for name in ("walltime_s", "memory_gb"):
        value = options[name]
        if value is not None and not value > 0:
            raise UsageError(f"{_option_of(name)} {value:g} is too little; give more than 0")
    if options["device"] == "cpu" and options["gpus"]:
        raise UsageError("--gpus asks for GPUs, and --device is cpu; leave one of the two out")
    if options["shards"] and not options["vram_gb"]:
        raise UsageError("--shards spreads --vram-gb over several GPUs; give it")
    if len(set(options["tiers"])) < len(options["tiers"]):
        raise UsageError("--tier names one twice; once is enough")


def _durations(words: Sequence[str] | None) -> dict[str, float]:
    """Seconds by model of device; without a model they hold for any (`*`)."""
    named = [word if "=" in word else f"*={word}" for word in words or ()]
    return {model: _seconds(text) for model, text in assignments("--expected-s", named).items()}


def _seconds(text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise UsageError(f"--expected-s {text!r} is no number of seconds") from error


def _refuse_others(typed: Typed, allowed: set[str]) -> None:
    """Options that say something of one command say nothing of a file."""
    for name in sorted(typed.names - allowed):
        option = "--" + name.replace("_", "-")
        raise UsageError(f"{option} does not go with --jobs-file; write it into the file, for each job")


def _from_file(path: Path) -> list[Any]:
    from hostler.model.codec import plain
    from hostler.settings import load_jobs

    return [plain(spec) for spec in load_jobs(path)]
