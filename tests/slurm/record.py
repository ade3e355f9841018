"""Records what Slurm's commands really say, for the tests of whoever reads that.

python -m tests.slurm.record        writes tests/backends/slurm/recorded, in about three minutes
"""

from __future__ import annotations

import shlex
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.slurm.daemons import until
from tests.slurm.lab import Lab

HERE = Path(__file__).resolve().parent
FOLDER = HERE.parent / "backends/slurm/recorded"
SQUEUE = "%i|%A|%F|%K|%T|%P|%u|%V|%S|%e|%M|%l|%N|%r|%j|%k"
SACCT = "JobID,JobIDRaw,State,ExitCode,Submit,Start,End,ElapsedRaw,NodeList,JobName,Comment,Reason"
SINFO_WIDE = (
    "NodeList:40,StateLong:30,Gres:60,GresUsed:60,CPUsState:30,Memory:20,Partition:40,Time:30,Nodes:20,Available:20"
)
SLEEP = "sleep 600"
ODD = 'a|b "c" d\'e  %j ü,;$(true)'
SLOW_S = 1.0
SETTLED_S = 6.0  # until the accounting has everything
SOON_DOWN = "SlurmdTimeout=8\n"
"""A node becomes `down*` within a minute after its slurmd was killed."""
STRICT = """\
EnforcePartLimits=ALL
PrologSlurmctld={slow}
Epilog={slow}
JobAcctGatherParams=OverMemoryKill
"""


class Recorder:
    """Calls commands, and writes down what they said."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        self.lab, self.folder = lab, folder

    def __call__(self, name: str, *words: str) -> str:
        """One file; returns what went to stdout."""
        began = time.monotonic()
        done = self.lab.run(*words, cwd=self.lab.folder / "out", within_s=200)
        took = time.monotonic() - began
        slow = f" after {took:.0f} s" if took > SLOW_S else ""
        text = f"# {shlex.join(words)} -> status {done.returncode}{slow}\n"
        text += f"--- stdout\n{done.stdout}--- stderr\n{done.stderr}"
        (self.folder / f"{name}.txt").write_text(text.replace(str(self.lab.folder), "/lab"))
        print(name, done.returncode, f"{took:.1f} s", flush=True)
        return done.stdout

    def squeue(self, name: str, *options: str) -> str:
        return self(f"squeue-{name}", "squeue", "-h", *options, "-o", SQUEUE)

    def sacct(self, name: str, *options: str) -> str:
        return self(f"sacct-{name}", "sacct", "-X", "-n", "-P", *options, f"--format={SACCT}")

    def show(self, name: str, job: str) -> None:
        self(f"scontrol-job-{name}", "scontrol", "-o", "show", "job", job)


def main() -> int:
    folder = Path(sys.argv[1]) if sys.argv[1:] else FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as cache:
        slow = Path(cache) / "slow"
        slow.write_text("#!/bin/sh\nsleep 2\n")
        slow.chmod(0o755)
        with Lab.running(accounting=True, cache=Path(cache), extra=STRICT.format(slow=slow)) as lab:
            _strict(lab, Recorder(lab, folder))
        with Lab.running(accounting=True, cache=Path(cache), extra=SOON_DOWN) as lab:
            _record(lab, Recorder(lab, folder))
    return 0


def _record(lab: Lab, say: Recorder) -> None:
    late = lab.submit(SLEEP, "--time=1", "--job-name=late", "--comment=hostler:late", "-p", "gpu-gh200", "-c", "1")
    lab.wait_for(late, "RUNNING")
    _plain(lab, say)
    _errors(lab, say)
    _queue(lab, say)
    _lost(lab, say)
    _preempted(lab, say)
    _held(lab, say)
    _ended(lab, say)
    _timeout(lab, say, late)
    _nodes(lab, say)
    _without_daemons(lab, say)


def _plain(lab: Lab, say: Recorder) -> None:
    say("squeue-empty", "squeue", "-h", "--partition=gpu-gh200", "-o", SQUEUE)
    say("sbatch-parsable", "sbatch", "--parsable", "--wrap", "true")
    say("sbatch-array-parsable", "sbatch", "--parsable", "--array=0-1", "--wrap", "true")
    say("sbatch-words", "sbatch", "--wrap", "true")
    say("version", "sbatch", "--version")
    say("scontrol-partition", "scontrol", "-o", "show", "partition")
    say("scontrol-node", "scontrol", "-o", "show", "node")
    say("scontrol-config", "scontrol", "show", "config")
    say("scontrol-ping", "scontrol", "ping")
    say("sacct-helpformat", "sacct", "--helpformat")
    say(
        "sacctmgr-associations",
        "sacctmgr",
        "-n",
        "-P",
        "show",
        "assoc",
        "format=Cluster,Account,User,Partition,QOS,DefaultQOS",
    )
    say(
        "sacctmgr-qos",
        "sacctmgr",
        "-n",
        "-P",
        "show",
        "qos",
        "format=Name,Priority,Preempt,PreemptMode,MaxWall,MaxJobsPU,MaxSubmitPU",
    )


def _errors(lab: Lab, say: Recorder) -> None:
    asked = {
        "partition": ["-p", "nowhere"],
        "qos": ["--qos=gold"],
        "account": ["--account=nobody"],
        "gres": ["-p", "gpu-selfplay", "--gres=gpu:h100:1"],
        "gres-unknown": ["--gres=teapot:1"],
        "gres-too-many": ["-p", "gpu-selfplay", "--gres=gpu:a10:9"],
        "time": ["-p", "short", "-t", "10"],
        "cpus": ["-p", "gpu-selfplay", "-c", "500"],
        "memory": ["-p", "gpu-selfplay", "--mem=900G"],
        "constraint": ["--constraint=riscv"],
        "reservation": ["--reservation=nothing"],
        "option": ["--no-such-option"],
        "time-words": ["-t", "soon"],
        "array": ["--array=0-99999"],
        "dependency": ["--dependency=afterok:99999"],
    }
    for name, options in asked.items():
        say(f"error-sbatch-{name}", "sbatch", "--parsable", *options, "--wrap", "true")
    say("error-sbatch-no-script", "sbatch", "--parsable", "/nowhere/script.sh")
    closed = say("sbatch-closed-partition", "sbatch", "--parsable", "-p", "closed", "--wrap", "true").strip()
    time.sleep(1.5)
    say.squeue("partition-down", "-j", closed)
    say.squeue("unknown-job", "-j", "99999")
    say.squeue("unknown-and-known", "-j", f"99999,{closed}")
    say.squeue("unknown-partition", "-p", "nowhere")
    say.sacct("unknown-job", "-j", "99999")
    say.show("unknown", "99999")
    say("error-scancel-unknown", "scancel", "99999")
    say("error-scancel-verbose-unknown", "scancel", "-v", "99999")
    say("error-scancel-word", "scancel", "abc")
    say("error-sinfo-partition", "sinfo", "-h", "-p", "nowhere", "-o", "%P|%T")
    say("error-scontrol-partition", "scontrol", "-o", "show", "partition", "nowhere")


def _queue(lab: Lab, say: Recorder) -> None:
    array = lab.submit(SLEEP, "--array=0-9%2", "-c", "16", "--job-name=hostler-array", "--comment=hostler:a1")
    odd = lab.submit(SLEEP, f"--job-name={ODD}", f"--comment={ODD}", "-p", "gpu-selfplay", "--gres=gpu:a10:3")
    never = [
        lab.submit("true", "-p", "short", "-t", "10", "--job-name=too-long"),
        lab.submit("true", "-p", "gpu-selfplay", "-c", "500", "--job-name=too-wide"),
        lab.submit("true", "--dependency=afterok:99999", "--job-name=after-nothing"),
    ]
    wide = lab.submit(SLEEP, "-p", "gpu-selfplay", "--gres=gpu:a10:3", "--job-name=wants-gpus")
    after = lab.submit("true", f"--dependency=afterok:{odd}", "--job-name=after")
    later = lab.submit("true", "--begin=now+1hour", "--job-name=later")
    lines = lab.submit("true", "--begin=now+1hour", "--job-name=two\nlines", "--comment=two\nlines")
    until(lambda: lab.said("squeue", "-h", "-t", "R", "-j", array).count("\n") == 1, "two tasks run", 20)
    time.sleep(1.5)
    say.squeue("array-and-others")
    say.squeue("array-expanded", "-r", "-j", array)
    say.squeue("jobs", "-j", f"{array},{odd},{wide}")
    say.squeue("newline", "-j", lines)
    say.squeue("never", "-j", ",".join(never))
    say("squeue-by-name", "squeue", "-h", "--name=hostler-array", "-o", "%i %k")
    for name, job in {"pending": wide, "array": array, "running": odd, "dependency": after, "begin": later}.items():
        say.show(name, job)
    say.show("newline", lines)
    say("sinfo-busy", "sinfo", "-h", "-N", "-o", "%N|%P|%T|%G|%c|%C|%m|%f|%E")
    say("sinfo-busy-wide", "sinfo", "-h", "-N", "-O", SINFO_WIDE)
    say("sinfo-busy-partitions", "sinfo", "-h", "-o", "%P|%a|%l|%L|%D|%T|%N|%G|%C|%F")
    lab.run("scancel", f"{array}_1", check=True)
    until(lambda: "CANCELLED" in lab.said("sacct", "-X", "-n", "-P", "-j", array), "sacct knows", 20)
    say.sacct("array", "-j", array)
    say.sacct("odd", "-j", odd)
    say.squeue("array-one-cancelled", "-j", array)
    lab.run("scancel", array, odd, wide, after, later, lines, *never, check=True)


def _nodes(lab: Lab, say: Recorder) -> None:
    whole = lab.submit(SLEEP, "-p", "gpu-train", "-w", "gpu-h1", "--exclusive")
    some = lab.submit(SLEEP, "-p", "gpu-selfplay", "-c", "4", "--gres=gpu:a10:1")
    lab.wait_for(whole, "RUNNING")
    lab.wait_for(some, "RUNNING")
    lab.run("scontrol", "update", "NodeName=gpu-h2", "State=DRAIN", "Reason=new fans | at last", check=True)
    lab.run("scontrol", "update", "NodeName=gpu-a1", "State=DRAIN", "Reason=soon", check=True)
    lab.node_down("cpu-2", "burnt")
    lab.slurmds["gh-1"].kill()
    until(lambda: lab.node_states()["gh-1"] == "down*", "gh-1 is down*", 60)
    say("sinfo-nodes", "sinfo", "-h", "-N", "-o", "%N|%P|%T|%G|%c|%C|%m|%f|%E")
    say("sinfo-nodes-wide", "sinfo", "-h", "-N", "-O", SINFO_WIDE)
    say("sinfo-partitions", "sinfo", "-h", "-o", "%P|%a|%l|%L|%D|%T|%N|%G|%C|%F")
    say("sinfo-summary", "sinfo")
    say("sinfo-reasons", "sinfo", "-R")
    say("scontrol-node-troubled", "scontrol", "-o", "show", "node")
    waits = lab.submit("true", "-p", "gpu-gh200")
    time.sleep(2)
    say.squeue("node-down", "-j", waits)
    lab.run("scancel", whole, some, waits)
    for name in ("gpu-h2", "gpu-a1", "cpu-2"):
        lab.node_up(name)
    lab.start_slurmd("gh-1")


def _lost(lab: Lab, say: Recorder) -> None:
    kept = lab.submit(SLEEP, "-p", "gpu-train", "-w", "gpu-h1", "--no-requeue", "--job-name=kept")
    again = lab.submit(SLEEP, "-p", "gpu-train", "-w", "gpu-h2", "--requeue", "--job-name=again", "--comment=hostler:x")
    lab.wait_for(kept, "RUNNING")
    lab.wait_for(again, "RUNNING")
    lab.node_down("gpu-h1")
    lab.node_down("gpu-h2")
    until(lambda: lab.fields(again)["Reason"] == "BeginTime", "it is put back", 20)
    say.squeue("requeued", "-j", again)
    say.squeue("node-fail-all-states", "-t", "all", "-j", f"{kept},{again}")
    say.show("requeued", again)
    say.show("node-fail", kept)
    until(lambda: "NODE_FAIL" in lab.said("sacct", "-X", "-n", "-P", "-j", kept), "sacct knows", 20)
    say.sacct("node-fail", "-j", kept)
    time.sleep(SETTLED_S)
    say.sacct("requeued", "-j", again)
    say.sacct("requeued-duplicates", "-D", "-j", again)
    lab.node_up("gpu-h1")
    lab.node_up("gpu-h2")
    lab.run("scancel", again, check=True)


def _preempted(lab: Lab, say: Recorder) -> None:
    options = ("-p", "gpu-gh200", "--gres=gpu:1")
    weak = lab.submit(SLEEP, "--qos=scavenger", "--requeue", "--job-name=weak", *options)
    lab.wait_for(weak, "RUNNING")
    strong = lab.submit(SLEEP, "--qos=train", "--job-name=strong", *options)
    lab.wait_for(strong, "RUNNING")
    say.squeue("preempted", "-j", f"{weak},{strong}")
    say.show("preempted", weak)
    time.sleep(SETTLED_S)
    say.sacct("preempted", "-j", weak)
    say.sacct("preempted-duplicates", "-D", "-j", weak)
    lab.run("scancel", weak, strong, check=True)


def _held(lab: Lab, say: Recorder) -> None:
    held = lab.submit("true", "--hold", "--job-name=held-by-user")
    admin = lab.submit("true", "--begin=now+1hour", "--job-name=held-by-admin")
    lab.run("scontrol", "hold", admin, check=True)
    runs = [lab.submit(SLEEP, f"--job-name={name}") for name in ("requeue-held", "special", "suspended", "stopped")]
    for job in runs:
        lab.wait_for(job, "RUNNING")
    lab.run("scontrol", "requeuehold", runs[0], check=True)
    lab.run("scontrol", "requeuehold", "State=SpecialExit", runs[1], check=True)
    lab.run("scontrol", "suspend", runs[2], check=True)
    lab.run("scancel", "--signal=STOP", "--full", runs[3])
    say.squeue("held", "-t", "all", "-j", ",".join((held, admin, *runs)))
    time.sleep(3)
    say.squeue("held-later", "-t", "all", "-j", ",".join((held, admin, *runs)))
    say.show("special-exit", runs[1])
    say.show("suspended", runs[2])
    say.sacct("held", "-j", ",".join((held, admin, *runs)))
    lab.run("scontrol", "resume", runs[2])
    lab.run("scancel", held, admin, *runs)


def _timeout(lab: Lab, say: Recorder, late: str) -> None:
    until(lambda: "TIMEOUT" in lab.said("sacct", "-X", "-n", "-P", "-j", late), "sacct knows", 120)
    say.show("timeout", late)
    say.squeue("timeout", "-t", "all", "-j", late)
    say.sacct("timeout", "-j", late)


def _strict(lab: Lab, say: Recorder) -> None:
    """A Slurm that refuses what can never run, whose nodes take their time, and that watches over memory."""
    say("error-sbatch-enforced-time", "sbatch", "--parsable", "-p", "short", "-t", "10", "--wrap", "true")
    say("error-sbatch-enforced-cpus", "sbatch", "--parsable", "-p", "gpu-selfplay", "-c", "500", "--wrap", "true")
    job = lab.submit("sleep 1", "--job-name=passing")
    _catch(lambda: say.squeue("configuring", "-t", "all", "-j", job), "CONFIGURING")
    say.show("configuring", job)
    _catch(lambda: lab.said("squeue", "-h", "-t", "all", "-j", job, "-o", "%T"), "COMPLETING")
    say.squeue("completing", "-t", "all", "-j", job)
    say.show("completing", job)
    eat = "python3 -c 'x = bytearray(200 << 20); import time; time.sleep(60)'"
    greedy = lab.submit(eat, "--mem=20M", "--job-name=greedy")
    until(lambda: lab.state(greedy) not in ("PENDING", "CONFIGURING", "RUNNING", "COMPLETING"), "it ends", 45)
    say.show("memory-without-cgroups", greedy)
    time.sleep(SETTLED_S)
    say.sacct("memory-without-cgroups", "-j", greedy)
    say("sacct-memory-without-cgroups-steps", "sacct", "-n", "-P", "-j", greedy, f"--format={SACCT}")


def _ended(lab: Lab, say: Recorder) -> None:
    jobs = {
        "completed": lab.submit("true", "--job-name=good", "--comment=hostler:good"),
        "failed": lab.submit("exit 3", "--job-name=bad"),
        "signal": lab.submit("kill -9 $$", "--job-name=killed"),
        "cancelled": lab.submit(SLEEP, "--job-name=unwanted"),
        "cancelled-pending": lab.submit("true", "--begin=now+1hour", "--job-name=never-ran"),
        "array": lab.submit("exit $((SLURM_ARRAY_TASK_ID % 2))", "--array=0-3", "--job-name=parts"),
    }
    lab.wait_for(jobs["cancelled"], "RUNNING")
    lab.run("scancel", jobs["cancelled"], jobs["cancelled-pending"], check=True)
    time.sleep(SETTLED_S)
    for name in ("completed", "failed", "signal", "cancelled", "array"):
        say.show(f"{name}-ended", jobs[name])
    say.squeue(
        "ended",
        "-t",
        "all",
        "-j",
        ",".join(jobs[name] for name in ("completed", "failed", "signal", "cancelled", "array")),
    )
    for name, job in jobs.items():
        say.sacct(name, "-j", job)
    say.sacct("all-ended", "-S", "now-1hour", "-j", ",".join(jobs.values()))
    say("sacct-steps", "sacct", "-n", "-P", "-j", ",".join(jobs.values()), f"--format={SACCT}")
    say("sacct-narrow-states", "sacct", "-X", "-n", "-j", ",".join(jobs.values()), "--format=JobID,State")
    say("sacct-by-name", "sacct", "-X", "-n", "-P", "--name=good", "--format=JobID,Comment,JobName")


def _without_daemons(lab: Lab, say: Recorder) -> None:
    job = lab.submit(SLEEP)
    lab.wait_for(job, "RUNNING")
    lab.slurmdbd.stop()
    say.sacct("slurmdbd-down", "-j", job)
    say("sacctmgr-slurmdbd-down", "sacctmgr", "-n", "-P", "list", "cluster")
    say("sbatch-slurmdbd-down", "sbatch", "--parsable", "--wrap", "true")
    say.squeue("slurmdbd-down", "-j", job)
    lab.start_slurmdbd()
    lab.slurmctld.stop()
    say.squeue("slurmctld-down", "-j", job)
    say("sbatch-slurmctld-down", "sbatch", "--parsable", "--wrap", "true")
    say("scancel-slurmctld-down", "scancel", job)
    say("sinfo-slurmctld-down", "sinfo", "-h", "-N", "-o", "%N|%T")
    say.show("slurmctld-down", job)
    say("scontrol-ping-slurmctld-down", "scontrol", "ping")
    say.sacct("slurmctld-down", "-j", job)
    lab.start_slurmctld()
    lab.run("scancel", job)


def _catch(look: Callable[[], str], word: str) -> None:
    deadline = time.monotonic() + 30
    while word not in look():
        assert time.monotonic() < deadline, f"never {word}"


if __name__ == "__main__":
    sys.exit(main())
