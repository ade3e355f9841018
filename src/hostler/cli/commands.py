"""All commands: by which words each is called, which function carries it out, and a few words on it.

A command line imports the module of its own command alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, NamedTuple, TypeAlias

Function: TypeAlias = str
"""`module:function`, the module in this package."""


class Command(NamedTuple):
    """A command of one word, with its few words for `hostler --help`."""

    function: Function
    about: str


class Group(NamedTuple):
    """A group of commands. `otherwise` answers words of which the first is none of its commands."""

    about: str
    doc: str
    commands: Mapping[str, Function]
    otherwise: Function | None = None


CONTROLLER = {
    "init": Command("initial:init", "write a fleet file"),
    "up": Command("running:up", "start a controller"),
    "down": Command("service:down", "end the controller"),
    "status": Command("fleet:status", "the fleet in numbers"),
    "check": Command("running:check", "validate a fleet file"),
    "doctor": Command("nodes:doctor", "examine nodes behind SSH"),
    "plan": Command("planning:plan", "what would run where"),
    "sim": Command("simulating:sim", "days of a fleet in seconds"),
}
JOBS = {
    "submit": Command("submitting:submit", "a program, a grid, a file"),
    "jobs": Command("jobs:jobs", "list jobs"),
    "logs": Command("logs:logs", "output of a job"),
    "wait": Command("waiting:wait", "until jobs have ended"),
    "results": Command("results:results", "compare the jobs of a group"),
    "fetch": Command("fetching:fetch", "copy the files of a job"),
    "cancel": Command("jobs:cancel", "end jobs"),
    "retry": Command("jobs:retry", "run failed jobs again"),
    "explain": Command("jobs:explain", "why a job waits or runs"),
    "queue": Command("fleet:queue", "what runs next, and why"),
    "events": Command("output:events", "the journal, by entry"),
    "top": Command("top:top", "devices, live"),
}
GROUPS = {
    "job": Group(
        "one job: show, priority",
        "Show one job, and change it. `hostler jobs`, `hostler logs` and so on are the same commands.",
        {
            "list": "jobs:jobs",
            "show": "jobs:show",
            "explain": "jobs:explain",
            "logs": "logs:logs",
            "wait": "waiting:wait",
            "fetch": "fetching:fetch",
            "cancel": "jobs:cancel",
            "retry": "jobs:retry",
            "priority": "jobs:priority",
        },
    ),
    "node": Group(
        "show, drain, trust, invite",
        "Show nodes, drain them, and let machines in.",
        {
            "list": "nodes:list_nodes",
            "show": "nodes:show",
            "cordon": "nodes:cordon",
            "drain": "nodes:drain",
            "resume": "nodes:resume",
            "trust": "nodes:trust",
            "import": "nodes:import_",
            "invite": "nodes:invite",
            "agent": "agent:build",
            "connect": "agent:connect",
        },
    ),
    "device": Group(
        "show, cordon, drain, resume",
        "List single devices, and cordon, drain or resume them.",
        {
            "list": "devices:list_devices",
            "show": "devices:show",
            "cordon": "devices:cordon",
            "drain": "devices:drain",
            "resume": "devices:resume",
        },
    ),
    "sweep": Group(
        "search a range: submit, hits",
        "Search every integer of a range, and show what was found.",
        {
            "submit": "sweeps:submit",
            "list": "sweeps:list_sweeps",
            "show": "sweeps:show",
            "hits": "sweeps:hits",
            "ledger": "sweeps:ledger",
            "verify": "sweeps:verify",
        },
        otherwise="sweeps:suggest",
    ),
    "train": Group(
        "training loops",
        "Show where the self-improvement loops stand, and steer them.",
        {
            "list": "training:list_configs",
            "history": "training:history",
            "report": "training:report",
            "pause": "looping:pause",
            "resume": "looping:resume",
            "spawn": "looping:spawn",
        },
    ),
    "model": Group(
        "list, play, export",
        "List the models of a training config, go back to an earlier one, play against one, or export them.",
        {
            "list": "models:list_models",
            "rollback": "models:rollback",
            "play": "models:play",
            "export": "exporting:export",
        },
    ),
    "artifact": Group(
        "games, datasets, models",
        "Show games, datasets and models: their copies, and what they were made from.",
        {
            "list": "artifacts:list_artifacts",
            "show": "artifacts:show",
            "lineage": "artifacts:lineage",
            "get": "artifacts:get",
            "verify": "artifacts:verify",
        },
    ),
    "alert": Group(
        "list, silence, acknowledge",
        "Show alerts, silence them, acknowledge them, and test their rules.",
        {
            "list": "alerts:list_alerts",
            "rules": "alerts:rules",
            "targets": "alerts:targets",
            "silences": "alerts:silences",
            "silence": "alerts:silence",
            "unsilence": "alerts:unsilence",
            "ack": "alerts:ack",
            "test": "alerts:try_out",
        },
    ),
    "hold": Group(
        "what is held back, and why",
        "List what is held back or put first for a while.",
        {"list": "steering:list_holds"},
    ),
    "token": Group(
        "create, revoke, audit",
        "Make, list and revoke tokens: who has access, and to what; and list what was done.",
        {
            "create": "access:create",
            "list": "access:list_tokens",
            "revoke": "access:revoke",
            "audit": "access:audit",
        },
    ),
    "secret": Group(
        "set, list, remove",
        "Store values that jobs need and nobody may read: API keys, tokens, passwords.",
        {"set": "secrets:set_secret", "list": "secrets:list_secrets", "remove": "secrets:remove"},
    ),
    "backup": Group(
        "create, verify, restore",
        "Back up what a controller knows, verify a backup, or restore one.",
        {"create": "backup:create", "verify": "backup:verify", "restore": "backup:restore"},
    ),
    "config": Group(
        "settings and their origins",
        "Show the settings of a fleet file.",
        {"show": "configs:show"},
    ),
    "account": Group(
        "usage, costs, shares",
        "Show device time: its use, its cost, its shares, and how long jobs take.",
        {
            "usage": "usage:usage",
            "costs": "steering:costs",
            "shares": "steering:shares",
            "durations": "steering:durations",
        },
    ),
    "slurm": Group(
        "examine Slurm clusters",
        "Examine Slurm clusters before work goes there.",
        {"check": "slurm:check", "smoke": "slurm:smoke"},
    ),
    "kuberay": Group(
        "Ray in Kubernetes",
        "Run what a fleet file asks for under `kuberay:` in a Kubernetes cluster.",
        {
            "render": "kuberay:render",
            "apply": "kuberay:apply",
            "status": "kuberay:status",
            "logs": "kuberay:logs",
            "delete": "kuberay:delete",
        },
    ),
    "journal": Group(
        "show, migrate, repair",
        "Show where the journal is, take it to another database, and repair it.",
        {"show": "store:show", "migrate": "store:migrate", "repair": "store:repair"},
    ),
    "disk": Group(
        "what may be deleted",
        "Show what may be deleted on a disk of the controller or of a node, and delete it.",
        {"plan": "disk:plan", "clean": "disk:clean_up", "undo": "disk:undo"},
    ),
}
PLUGINS = {
    "sieve": Group(
        "searches for seeds",
        "Show the survivors of searches for seeds, and reports of them.",
        {"survivors": "sieve:survivors", "report": "sieve:report", "generators": "sieve:generators"},
    ),
}

PANELS: Mapping[str, Mapping[str, Command | Group]] = {
    "Controller": CONTROLLER,
    "Jobs": JOBS,
    "Groups (hostler GROUP --help)": {**GROUPS, **PLUGINS},
}
COMMANDS: Mapping[str, Command | Group] = {name: each for panel in PANELS.values() for name, each in panel.items()}


def imported(function: Function) -> Callable[..., Any]:
    """The function that carries out a command."""
    module, _, name = function.partition(":")
    found: Callable[..., Any] = getattr(import_module(f"hostler.cli.{module}"), name)
    return found
