"""What Slurm's commands say when they fail, and what follows from it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hostler.backends.slurm.errors import NoAccounting, SlurmDown, SlurmRefused
from hostler.model.record import record
from hostler.model.units import printable

SAID_MAX = 300

NOT_REACHED = re.compile(
    r"Unable to contact slurm controller|Communication connection failure|Connection refused"
    r"|No route to host|Network is unreachable|Unable to resolve|Unable to establish configuration source"
    r"|Unable to process configuration file|cannot stat file .*slurm\.conf|Slurm backup controller in standby"
    r"|Munge encode failed|authentication plugin",
    re.IGNORECASE,
)
"""Slurm was not reached: nothing can have been done."""
INTERRUPTED = re.compile(
    r"timed out|Zero Bytes were transmitted|Message (?:receive|send) failure|Unexpected message received"
    r"|\((?:receive|send|shutdown) failure\)|Communication shutdown failure|Unable to create job record"
    r"|Connection reset|Broken pipe|Transport endpoint is not connected|Protocol authentication error"
    r"|Slurm temporarily unable|temporarily unavailable|Unexpected end of file|Incomplete|try again later"
    r"|I/O error writing script|Too many open files|Cannot allocate memory|No space left",
    re.IGNORECASE,
)
"""Something went wrong on the way to or in Slurm, which passes: what was asked for may have been done."""
GONE = re.compile(r"Invalid job id specified|Job/step already complet|already terminated", re.IGNORECASE)
"""What was meant is over, and forgotten."""
NO_ACCOUNTING = re.compile(
    r"accounting storage is disabled|accounting_storage/none|Slurm accounting .*not .*configured", re.IGNORECASE
)
ACCOUNTING_DOWN = re.compile(
    r"Problem talking to the database|slurm_persist_conn|PersistInit|slurmdbd|Unable to connect to database",
    re.IGNORECASE,
)
NOT_STARTED = re.compile(r"^cannot start .*: (?:No such file or directory|Permission denied)", re.DOTALL)
"""What is told in place of an error output where there is no such program."""
NOT_FOUND = 127
"""Exit status that stands for a program that is not there."""
CANNOT_RUN = 126


@record
class Refusal:
    """One way of Slurm to say no to a request."""

    says: str
    """A regular expression."""
    setting: str | None
    advice: str
    later: bool = False
    fewer: bool = False


OF_POLICY = r"\b(?:QOS|Assoc)"
"""So begin the names of limits of accounts and of qualities of service, of which sbatch says which one is exceeded."""
POLICY: Sequence[Refusal] = (
    Refusal(
        says=rf"{OF_POLICY}\w*Submit",
        setting="slurm.max_pending",
        advice="the account or QOS takes no more jobs at a time: fewer (`max_jobs`, `max_pending`), or another "
        "`account` or `qos`",
        later=True,
        fewer=True,
    ),
    Refusal(
        says=rf"{OF_POLICY}(?:\w*Jobs|JobLimit|ResourceLimit|UsageThreshold|Grp\w*(?:Minutes|Wall))",
        setting="slurm.max_pending",
        advice="a limit of the account or QOS is reached: it passes when other jobs are over, or with time; or use "
        "another `account` or `qos`",
        later=True,
    ),
    Refusal(
        says=rf"{OF_POLICY}(?:MaxWall|TimeLimit|Max\w*Minutes)",
        setting="slurm.resources",
        advice="the account or QOS allows jobs no such wall time (`sacctmgr show qos format=name,maxwall`); lower "
        "`most_s` of its kind of work, of pilots `pilot_s`, or the job's own `time_s`",
    ),
    Refusal(
        says=rf"{OF_POLICY}Min",
        setting="slurm.resources",
        advice="the QOS wants jobs to ask for more (`sacctmgr show qos format=name,mintres`); raise what its kind of "
        "work is given, or use another `qos`",
    ),
    Refusal(
        says=rf"{OF_POLICY}(?:Max|Grp)Cpu",
        setting="slurm.resources",
        advice="the account or QOS allows jobs not so many cores; lower `cpus_least` and `cpus_per_gpu` of its kind of "
        "work, or the job's own `cpus`",
    ),
    Refusal(
        says=rf"{OF_POLICY}(?:Max|Grp)Mem",
        setting="slurm.resources",
        advice="the account or QOS allows jobs not so much memory; lower `memory_gb`",
    ),
    Refusal(
        says=rf"{OF_POLICY}(?:Max|Grp)(?:GRES|TRES)",
        setting="slurm.qos",
        advice="the account or QOS allows jobs not so many GPUs (`sacctmgr show qos format=name,maxtres`); ask for "
        "fewer, or use another `qos` or `account`",
    ),
    Refusal(
        says=rf"{OF_POLICY}(?:Max|Grp)",
        setting="slurm.qos",
        advice="the account or QOS allows no such job (`sacctmgr show qos`); use another `qos` or `account`",
    ),
)
"""What is counted or used up passes. Other limits are compared with the request alone: what is too much for them once
is so for ever."""
REFUSALS: Sequence[Refusal] = (
    *POLICY,
    Refusal(
        says="Required partition not available|partition configuration not available now",
        setting="partition",
        advice="the partition is closed at present (`scontrol show partition` tells its State)",
        later=True,
    ),
    Refusal(
        says="violates accounting/QOS policy|Job size or time limits|submit limit",
        setting="slurm.max_pending",
        advice="a limit of the account or QOS is reached: fewer jobs (`max_jobs`, `max_pending`), smaller ones "
        "(`resources`), or another `account` or `qos`",
        later=True,
        fewer=True,
    ),
    Refusal(
        says="(?:submission|submitting).{0,40}(?:disabled|not allowed)|not accepting new jobs",
        setting=None,
        advice="the cluster takes no jobs at present",
        later=True,
    ),
    Refusal(
        says="invalid partition|Invalid partition name",
        setting="partition",
        advice="there is no such partition; `sinfo` lists them",
    ),
    Refusal(
        says="Invalid account or account/partition",
        setting="slurm.account",
        advice="this user may not use that account there; `sacctmgr show assoc user=$USER` lists what may be used",
    ),
    Refusal(
        says="Invalid qos|QOS not permitted",
        setting="slurm.qos",
        advice="the account has no such QOS; `sacctmgr show assoc user=$USER format=account,qos` lists them",
    ),
    Refusal(
        says=r"generic resource|\bgres\b",
        setting="slurm.gpu_type",
        advice="the cluster has no such generic resource; `sinfo -o %G` lists them with their types",
    ),
    Refusal(
        says="Invalid feature|Invalid constraint",
        setting="slurm.constraint",
        advice="no node has such a feature; `sinfo -o %f` lists them",
    ),
    Refusal(
        says="reservation",
        setting="slurm.reservation",
        advice="there is no such reservation, or not for this user; `scontrol show reservation` lists them",
    ),
    Refusal(
        says="Memory specification|memory.* can not be satisfied",
        setting="slurm.resources",
        advice="no node of the partition has so much memory; lower `memory_gb`",
    ),
    Refusal(
        says="time limit|--time specification|Invalid time",
        setting="slurm.resources",
        advice="the partition allows no such wall time; lower `most_s` (or the job's `time_s`)",
    ),
    Refusal(
        says="Invalid job array",
        setting="slurm.max_jobs",
        advice="the cluster allows no array of so many tasks (`MaxArraySize` of `scontrol show config`); where "
        "it allows none at all, write `slurm.mode: job`",
        fewer=True,
    ),
    Refusal(
        says="Requested node configuration is not available|count.*specification|More processors|can not be satisfied",
        setting="slurm.resources",
        advice="no node of the partition has so many GPUs of this type, CPUs and memory together; "
        "`sinfo -N -o '%N %G %c %m'` lists what they have",
    ),
    Refusal(
        says="unrecognized option|invalid option|unrecognized argument|option requires an argument|ambiguous",
        setting="slurm.extra",
        advice="this Slurm has no such option of sbatch",
    ),
    Refusal(
        says="Unable to open file|Unable to read file|No such file",
        setting="slurm.shared_root",
        advice="the machine that runs sbatch does not see the folder of its scripts; it must be the same path there",
    ),
    Refusal(
        says="group not permitted|permission denied|Invalid user|not permitted",
        setting=None,
        advice="this user is not allowed to; ask the cluster's administrators",
    ),
)
"""The first one that fits counts; so the more special ones come first."""


def refused(command: str, status: int, said: str) -> SlurmRefused:
    """What to make of a command that was told no."""
    words = words_of(said, status)
    if status in (NOT_FOUND, CANNOT_RUN):
        return SlurmRefused(
            f"`{command}` cannot be run there: {words}; name the login node in `host`, or add Slurm's folder to `PATH`"
        )
    for known in REFUSALS:
        if re.search(known.says, said, re.IGNORECASE):
            where = "" if known.setting is None else f"; look at `{known.setting}`"
            advice = f"{known.advice}{where}"
            return SlurmRefused(
                f"{command}: {words}: {advice}", setting=known.setting, later=known.later, fewer=known.fewer
            )
    return SlurmRefused(f"{command} has failed: {words}")


def down(command: str, status: int, said: str) -> SlurmDown | None:
    """Whether Slurm could not be asked."""
    if INTERRUPTED.search(said):
        return SlurmDown(f"{command} was not answered: {words_of(said, status)}; it is tried again", unknown=True)
    if NOT_REACHED.search(said):
        return SlurmDown(f"{command} did not reach Slurm: {words_of(said, status)}; it is tried again")
    return None


def no_accounting(said: str, status: int) -> NoAccounting | None:
    """Whether accounting could not be asked."""
    if NO_ACCOUNTING.search(said):
        return NoAccounting("the cluster keeps no accounting (no slurmdbd is configured)", configured=False)
    if ACCOUNTING_DOWN.search(said):
        return NoAccounting(f"accounting cannot be asked: {words_of(said, status)}", configured=True)
    return None


def words_of(said: str, status: int) -> str:
    """What a command has said, in one line for people."""
    lines = [re.sub(r"^\w+: (?:error|fatal): ", "", line.strip()) for line in said.splitlines()]
    told = "; ".join(dict.fromkeys(line for line in lines if line))
    return printable(told, SAID_MAX) if told else f"exit status {status}, and it said nothing"
