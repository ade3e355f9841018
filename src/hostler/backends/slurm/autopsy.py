"""What a tiny job has to say of a node: what it told, or, where it told nothing, what it left. No I/O."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hostler.agent.protocol import VERSION
from hostler.backends.slurm.finding import Finding
from hostler.backends.slurm.parsing import JobRecord
from hostler.backends.slurm.script import UNUSABLE, Site
from hostler.backends.slurm.states import HOPELESS, Outcome
from hostler.backends.slurm.tiny import Told
from hostler.backends.slurm.visiting import Tried
from hostler.model.units import printable

SKEW_S = 5.0
NEWS_S = 5.0
"""So much later than it happened it may be heard that a job has begun."""
NOT_LOOKED_AT = "the shared folder, Python, the clock and the GPUs there were not looked at"
SAID_MAX = 240
RUNS = ("RUNNING", "COMPLETING")
NOT_FOUND = (126, 127)
REASON = re.compile(r"\((\w+)")
REFUSED = re.compile(r"^hostler: (?P<host>[^:\s]+): (?P<why>.+)", re.MULTILINE)
NO_AGENT = re.compile(r"can't (?:open|find).*agent|is the shared file system mounted|cannot use the folder")


def waits(node: str, tried: Tried, wait_s: float) -> Finding:
    """A job that was taken back before it began."""
    says = _says(tried)
    if says.startswith(RUNS):
        what = f"job {tried.job or '?'} runs ({says}), and nothing was heard from there within {wait_s:g} s"
        return Finding(node, "shared", "error", what, f"{_same_everywhere('its node')}; or give a longer --wait")
    found = REASON.search(says)
    hopeless = None if found is None else HOPELESS.get(found[1])
    what = f"job {tried.job or '?'} had not begun after {wait_s:g} s ({says}), and was cancelled; {NOT_LOOKED_AT}"
    if hopeless is not None:
        return Finding(node, "job", "error", what, f"{hopeless}; as it is, no job of yours ever begins there")
    return Finding(node, "job", "warning", what, "run this again when there is room, or with a longer --wait")


def failed(node: str, tried: Tried, job: JobRecord | None, said: str | None, root: str) -> Finding:
    """A job that is over and from which no agent was heard."""
    outcome = None if job is None else job.state.outcome
    host = "its node" if job is None or job.nodes is None else job.nodes
    number, status = tried.job or "?", None if job is None else job.status
    unseen = _same_everywhere(host)
    if outcome in (Outcome.NODE_FAIL, Outcome.BOOT_FAIL, Outcome.CANCELLED, Outcome.PREEMPTED):
        says = f"job {number} was {job.state.text if job else '?'} on {host} before it told anything; {NOT_LOOKED_AT}"
        return Finding(node, "job", "warning", says, "run this again")
    if said is None:
        says = f"job {number} ran on {host} and left nothing: {root} is not there, or not the same folder"
        return Finding(node, "shared", "error", says, unseen)
    words = printable(" ".join(said.split()), SAID_MAX) or "nothing"
    if NO_AGENT.search(said):
        says = f"{host} does not see what lies in {root}: {words}"
        return Finding(node, "shared", "error", says, unseen)
    refused = REFUSED.search(said)
    if "of the batch script has failed" in said:
        fix = "run the lines of `setup` by hand in a job there (`srun --pty bash`)"
        return Finding(node, "setup", "error", f"job {number} on {host}: {words}", fix)
    if status == UNUSABLE and refused is not None:
        says = f"{refused['host']}: {refused['why']}"
        fix = "have it there, or look at `setup`, `slurm.venv_activate`, `slurm.container_runtime` and the images"
        return Finding(node, "job", "error", says, fix)
    if outcome is Outcome.COMPLETED:
        says = f"job {number} did its work on {host}, and nothing of it came to {root}: that is another folder there"
        return Finding(node, "shared", "error", says, unseen)
    if status in NOT_FOUND:
        fix = "name one in `python` that is there on every node, or have `setup` bring it (`module load python`)"
        return Finding(node, "python", "error", f"no Python runs on {host}: {words}", fix)
    how = "ended" if job is None else f"was {job.state.text} with status {status}"
    fix = "that is what the batch script said before the agent began; look at `setup`, `slurm.venv_activate` and images"
    return Finding(node, "job", "error", f"job {number} {how} on {host}: {words}", fix)


def _says(tried: Tried) -> str:
    """The state of a job and why it waits, in Slurm's words."""
    job = tried.record
    if job is None:
        return tried.says or "nothing is known of it"
    return job.state.text + (f" ({job.reason})" if job.reason else f" on {job.nodes}" if job.nodes else "")


def _same_everywhere(host: str) -> str:
    return (
        f"mount the same file system at the same path on the login node and on {host}, writable for you, and name a "
        "folder on it in `slurm.shared_root`"
    )


def cut_short(node: str, tried: Tried) -> Finding:
    """A job whose agent came up, and which did not do what it should."""
    end = tried.end
    if end is None:
        why = tried.late or "nothing was heard of its end"
    else:
        why = end.error or f"it ended with status {end.exit_code}"
        why += f" ({end.evidence})" if end.evidence else ""
    fix = "its Python is `python` (with what `setup` and the image bring); see that it runs there by hand"
    return Finding(node, "job", "error", f"job {tried.job or '?'} began, and failed: {printable(why, SAID_MAX)}", fix)


def told_findings(node: str, tried: Tried, told: Told, site: Site, *, on_gpu: bool) -> Iterator[Finding]:
    """What a job told of its node, but for the shared folder."""
    waited = "" if tried.waited_s is None else f", began after {tried.waited_s:.0f} s"
    yield Finding(node, "job", "ok", f"job {tried.job} on {told.host}{waited}")
    yield _agent(node, told, site)
    yield _clock(node, tried, told)
    if on_gpu and not told.gpus:
        fix = "look at gres.conf and at `SLURM_JOB_GPUS` in a job there; in containers, at their options for GPUs"
        yield Finding(node, "gpu", "error", "the job was given a GPU, and no variable tells programs which", fix)
    elif on_gpu:
        yield Finding(node, "gpu", "ok", f"the job was given GPU {told.gpus}")


def shared(node: str, told: Told, expected: str, came_back: bool, root: str) -> Finding:
    """Whether the folder is the same one on both sides, for reading and for writing."""
    fix = "name a folder in `slurm.shared_root` that is the same one everywhere, and that containers see"
    if told.read != expected:
        why = told.unread or ("it is empty" if not told.read else "another one is there")
        return Finding(node, "shared", "error", f"a file written to {root} cannot be read on {told.host}: {why}", fix)
    if told.unwritten is not None or not came_back:
        why = told.unwritten or "it does not come to be seen elsewhere"
        return Finding(node, "shared", "error", f"{told.host} cannot write to {root}: {why}", fix)
    return Finding(node, "shared", "ok", f"written and read on both sides of {root}")


def _agent(node: str, told: Told, site: Site) -> Finding:
    inside = ""
    if site.runtime is not None and _has_image(site, told.machine):
        inside = f" in {site.runtime}"
    elif site.venv is not None or site.venv_arm64 is not None:
        inside = " in its virtual environment"
    says = f"agent {told.agent} by Python {told.python}{inside} on {told.machine}"
    if told.agent != VERSION:
        fix = f"this is Hostler {VERSION}; see what `{told.executable} agent.pyz --version` says there"
        return Finding(node, "agent", "warning", f"agent {told.agent or 'says nothing'} on {told.host}", fix)
    return Finding(node, "agent", "ok", says)


def _has_image(site: Site, machine: str) -> bool:
    return (site.image_arm64 if machine in ("aarch64", "arm64") else site.image) is not None


def _clock(node: str, tried: Tried, told: Told) -> Finding:
    """It read its clock after the job began, which was heard a little later, and before its end was heard."""
    begin, end = tried.began_at or tried.asked_at, tried.ended_at or told.now
    skew_s = min(told.now - (begin - NEWS_S), 0.0) or max(told.now - end, 0.0)
    return clock(node, told.host, skew_s)


def clock(node: str, host: str, skew_s: float) -> Finding:
    """What to say of a clock that is so much ahead of ours."""
    if abs(skew_s) <= SKEW_S:
        return Finding(node, "clock", "ok", f"that of {host} is ours within {SKEW_S:g} s")
    way = "ahead of" if skew_s > 0 else "behind"
    fix = "have all of them ask a time server (timedatectl set-ntp true); munge refuses what is five minutes off"
    return Finding(node, "clock", "warning", f"that of {host} is {abs(skew_s):.0f} s {way} ours", fix)
