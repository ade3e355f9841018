"""A Slurm of one file: the commands that Hostler uses, answering from a table.

Installed under their names in a folder for PATH (`install`), it reads and writes one JSON file there, `table.json`:

    {"now": null,                             Unix seconds that it says it is; null: the time
     "next": 1,                               the next job id
     "accounting": "on",                      or "none", "down"
     "modes": {"squeue": ["down", "cut"]},    how the next calls of a command go ("*": of any other), one that ends
                                              with "!" for good: ok, down, slow, cut, lost, noise, garbage, refuse:TEXT
     "slow_s": 600,                           seconds that a slow command sleeps after its work, marked by a file `slow`
     "user": "me",
     "refuses": {"--account=x": "TEXT"},      submissions with such an option are refused with this text
     "plan": {"NAME": [...]},                 states of jobs of this name ("*": of any other), one for each look at the
                                              queue; the last one stays. A state may be {"state": ..., "exit": "1:0",
                                              "reason": ..., "nodes": ...}; "gone": squeue does not list it any more
     "run": false,                            whether RUNNING means that the script runs, as a child; its exit status is
                                              the end then
     "partitions": [{"name": "p", "default": true, "state": "UP", "max_time": "1-00:00:00", "nodes": [
        {"name": "n1", "state": "idle", "cpus": [0, 8, 0, 8], "memory": 1000, "gres": "gpu:h100:2", "used": "..."}]}],
     "jobs": {...}}                           what it knows, by id

Every call is a line of `calls.jsonl`: {"at": ..., "argv": [...], "env": {Slurm's own variables}, "stdin": ...}.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

COMMANDS = ("sbatch", "squeue", "sacct", "scancel", "sinfo", "scontrol")
PREFIXES = ("SBATCH_", "SQUEUE_", "SACCT_", "SINFO_", "SCANCEL_", "SCONTROL_", "SLURM_", "LC_ALL")
OVER = (
    "COMPLETED",
    "FAILED",
    "CANCELLED",
    "TIMEOUT",
    "NODE_FAIL",
    "OUT_OF_MEMORY",
    "PREEMPTED",
    "BOOT_FAIL",
    "DEADLINE",
)
SLOW = "slow"
EMPTY: dict[str, Any] = {
    "now": None, "next": 1, "accounting": "on", "modes": {}, "slow_s": 600, "user": "me", "refuses": {}, "plan": {},
    "run": False, "partitions": [], "jobs": {},
}  # fmt: skip

Json = dict[str, Any]


def install(folder: Path, **table: Any) -> Path:
    """Put the commands into a folder, with a table; returns the folder, for PATH."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in COMMANDS:
        path = folder / name
        path.write_text(f'#!/bin/sh\nexec {sys.executable} -S {Path(__file__).resolve()} {folder} {name} "$@"\n')
        path.chmod(0o755)
    (folder / "table.json").write_text(json.dumps({**EMPTY, **table}))
    return folder


def calls(folder: Path) -> list[Json]:
    """What was called, in order."""
    path = folder / "calls.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@contextmanager
def table_of(folder: Path) -> Iterator[Json]:
    """The table, to be changed: nobody else reads or writes it meanwhile."""
    path = folder / "table.json"
    with (folder / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        table = json.loads(path.read_text())
        yield table
        draft = path.with_suffix(".new")
        draft.write_text(json.dumps(table))
        draft.rename(path)


def main(folder: Path, command: str, argv: Sequence[str]) -> int:
    """One call."""
    stdin = sys.stdin.read() if command == "scontrol" and list(argv) == ["-o"] else None
    told = {name: value for name, value in os.environ.items() if name.startswith(PREFIXES)}
    with (folder / "calls.jsonl").open("a") as log:
        log.write(json.dumps({"at": time.time(), "argv": [command, *argv], "env": told, "stdin": stdin}) + "\n")
    with table_of(folder) as table:
        mode = _mode(table, command)
        fault = _fault(command, mode, table)
        out, err, status = ("", fault, 1) if fault else _COMMANDS[command](table, list(argv), stdin, folder)
    if mode == "slow":
        (folder / SLOW).touch()
        time.sleep(table["slow_s"])
    return _answer(mode, out, err, status)


def _mode(table: Json, command: str) -> str:
    modes = table["modes"].get(command) or table["modes"].get("*") or ["ok"]
    if modes[0].endswith("!"):
        return str(modes[0][:-1])
    return str(modes.pop(0))


def _fault(command: str, mode: str, table: Json) -> str | None:
    if mode == "down":
        who = {"sbatch": "sbatch: error: Batch job submission failed", "scancel": "scancel: error: Kill job error"}
        return f"{who.get(command, 'slurm_load_jobs error')}: Unable to contact slurm controller (connect failure)\n"
    if mode.startswith("refuse:"):
        return f"{command}: error: {mode[7:]}\n"
    if command == "sacct" and table["accounting"] == "none":
        return "Slurm accounting storage is disabled\n"
    if command == "sacct" and table["accounting"] == "down":
        return "sacct: error: Problem talking to the database: Connection refused\n"
    return None


def _answer(mode: str, out: str, err: str, status: int) -> int:
    """What was done is done; what is told of it depends."""
    if mode == "lost":
        err, status, out = "socket: Socket timed out on send/recv operation\n", 1, ""
    if mode == "noise":
        out = f"Welcome to the cluster!\n2026\n{out}"
    if mode == "garbage":
        out = "\x00\x1b[31m???\n1\x1f2\n"
    sys.stdout.write(out[: len(out) // 2] if mode == "cut" else out)
    sys.stderr.write(err)
    sys.stdout.flush()
    if mode == "cut":
        os.kill(os.getpid(), signal.SIGKILL)
    return status


def _sbatch(table: Json, argv: list[str], stdin: str | None, folder: Path) -> tuple[str, str, int]:
    *words, script = argv
    for option, text in table["refuses"].items():
        if option in words:
            return "", f"sbatch: error: Batch job submission failed: {text}\n", 1
    options = dict(word[2:].partition("=")[::2] for word in words)
    if not Path(script).read_text().startswith("#!"):
        return "", "sbatch: error: This does not look like a batch script.\n", 1
    job = str(table["next"])
    table["next"] += 1
    array = re.fullmatch(r"0-(\d+)(?:%(\d+))?", options.get("array", ""))
    tasks: list[int | None] = [None] if array is None else list(range(int(array[1]) + 1))
    for task in tasks:
        raw = job if task in (None, 0) else str(table["next"])
        table["next"] += task not in (None, 0)
        table["jobs"][raw] = {
            "array": None if task is None else job, "task": task, "state": "PENDING", "reason": "None", "exit": "0:0",
            "name": options["job-name"], "comment": options.get("comment"), "partition": options["partition"],
            "submitted": _now(table), "started": None, "ended": None, "nodes": "", "restarts": 0, "looks": 0,
            "pid": None, "script": str(Path(script).resolve()), "options": options, "listed": True, "by": None,
        }  # fmt: skip
    return f"{job}\n", "", 0


def _squeue(table: Json, argv: list[str], stdin: str | None, folder: Path) -> tuple[str, str, int]:
    form = argv[argv.index("-o") + 1]
    names = next((word[7:].split(",") for word in argv if word.startswith("--name=")), None)
    every = "--states=all" in argv
    for raw, job in table["jobs"].items():
        _advance(table, raw, job, folder)
    lines = [
        _formed(form, _columns(table, raw, job))
        for raw, job in table["jobs"].items()
        if job["listed"] and (names is None or job["name"] in names) and (every or job["state"] not in OVER)
    ]
    return "".join(f"{line}\n" for line in lines), "", 0


def _formed(form: str, columns: Json) -> str:
    return re.sub("%([a-zA-Z])", lambda found: str(columns[found[1]]), form)


def _columns(table: Json, raw: str, job: Json) -> Json:
    started = job["started"]
    return {
        "A": raw, "F": job["array"] or raw, "K": "N/A" if job["task"] is None else job["task"], "T": job["state"],
        "r": job["reason"], "u": table["user"], "P": job["partition"], "V": round(job["submitted"]),
        "S": "N/A" if started is None else round(started), "e": "N/A" if started is None else round(started + 3600),
        "N": job["nodes"], "j": job["name"], "k": job["comment"] or "(null)",
    }  # fmt: skip


def _sacct(table: Json, argv: list[str], stdin: str | None, folder: Path) -> tuple[str, str, int]:
    chosen = dict(word[2:].partition("=")[::2] for word in argv if word.startswith("--"))
    jobs = chosen["jobs"].split(",") if "jobs" in chosen else None
    lines = []
    for raw, job in table["jobs"].items():
        shown = raw if job["task"] is None else f"{job['array']}_{job['task']}"
        if jobs is not None and not {raw, shown, job["array"]} & set(jobs):
            continue
        if "name" in chosen and job["name"] != chosen["name"]:
            continue
        state = f"CANCELLED by {job['by']}" if job["by"] is not None and job["state"] == "CANCELLED" else job["state"]
        columns = {
            "JobID": shown, "JobIDRaw": raw, "State": state, "ExitCode": job["exit"],
            "Submit": round(job["submitted"]), "Start": _told(job["started"]), "End": _told(job["ended"]),
            "Partition": job["partition"], "NodeList": job["nodes"] or "None assigned", "JobName": job["name"],
            "Comment": "",
        }  # fmt: skip
        lines.append(chosen["delimiter"].join(str(columns[name]) for name in chosen["format"].split(",")))
    return "".join(f"{line}\n" for line in lines), "", 0


def _scancel(table: Json, argv: list[str], stdin: str | None, folder: Path) -> tuple[str, str, int]:
    sent = next((word[9:] for word in argv if word.startswith("--signal=")), None)
    err = ""
    for each in (word for word in argv if not word.startswith("--")):
        mine = [(raw, job) for raw, job in table["jobs"].items() if each in _names(raw, job)]
        if not mine and sent is not None:
            err += f"scancel: error: Kill job error on job id {each}: Invalid job id specified\n"
        for raw, job in mine:
            _cancel(table, raw, job, sent)
    return "", err, 1 if err else 0


def _names(raw: str, job: Json) -> tuple[str, ...]:
    return (raw,) if job["task"] is None else (raw, job["array"], f"{job['array']}_{job['task']}")


def _cancel(table: Json, raw: str, job: Json, sent: str | None) -> None:
    if job["pid"] is not None:
        _signal(job["pid"], getattr(signal, f"SIG{sent or 'TERM'}"))
        if sent is None:
            job["by"] = 0
        return
    if job["state"] not in OVER and sent is None:
        job.update(state="CANCELLED", by=0, ended=_now(table), plan_over=True)


def _sinfo(table: Json, argv: list[str], stdin: str | None, folder: Path) -> tuple[str, str, int]:
    if argv == ["--version"]:
        return "slurm-fake 22.05.8\n", "", 0
    form = argv[argv.index("-O") + 1]
    wanted = next((word[12:].split(",") for word in argv if word.startswith("--partition=")), None)
    fields = [part.partition(":")[::2] for part in form.split(",")]
    lines = []
    for partition in table["partitions"]:
        if wanted is not None and partition["name"] not in wanted:
            continue
        for node in partition["nodes"]:
            busy, idle, other, total = node["cpus"]
            columns = {
                "NodeList": node["name"], "Partition": partition["name"] + ("*" if partition.get("default") else ""),
                "Available": partition.get("state", "UP").lower(), "StateLong": node["state"],
                "CPUsState": f"{busy}/{idle}/{other}/{total}", "Memory": node.get("memory", 64000), "AllocMem": 0,
                "Gres": node.get("gres", "(null)"), "GresUsed": node.get("used", "gpu:0"),
                "Time": partition.get("max_time", "infinite"), "Features": "(null)", "Reason": "none",
            }  # fmt: skip
            lines.append("".join(f"{columns[name]}{end}" for name, end in fields))
    return "".join(f"{line}\n" for line in lines), "", 0


def _scontrol(table: Json, argv: list[str], stdin: str | None, folder: Path) -> tuple[str, str, int]:
    if argv == ["ping"]:
        return "Slurmctld(primary) at fake is UP\n", "", 0
    if argv[-2:] == ["show", "config"]:
        return (
            "Configuration data as of now\nMaxArraySize            = 1001\nMinJobAge               = 300 sec\n",
            "",
            0,
        )
    if argv[-2:] == ["show", "partition"]:
        return "".join(map(_partition, table["partitions"])), "", 0
    out, err = "", ""
    for line in (stdin or "").splitlines():
        wanted = line.rpartition(" ")[2]
        out += f"scontrol: {line}\n"
        mine = [(raw, job) for raw, job in table["jobs"].items() if wanted in _names(raw, job)]
        for raw, job in mine:
            _advance(table, raw, job, folder, look=False)
            out += _record(table, raw, job)
        if not mine:
            err += "slurm_load_jobs error: Invalid job id specified\n"
    return f"{out}scontrol: \n", err, 1 if err else 0


def _partition(each: Json) -> str:
    rules = f"AllowAccounts=ALL AllowQos=ALL Default={'YES' if each.get('default') else 'NO'} DefaultTime=NONE"
    state = f"MaxTime={each.get('max_time', 'UNLIMITED')} State={each.get('state', 'UP')}"
    return f"PartitionName={each['name']} {rules} {state} TRES=cpu=8,node=1\n"


def _record(table: Json, raw: str, job: Json) -> str:
    of_array = "" if job["task"] is None else f"ArrayJobId={job['array']} ArrayTaskId={job['task']} "
    times = f"SubmitTime={round(job['submitted'])} StartTime={_told(job['started'])} EndTime={_told(job['ended'])}"
    return (
        f"JobId={raw} {of_array}JobName={job['name']} UserId={table['user']}(0) JobState={job['state']} "
        f"Reason={job['reason']} Requeue=0 Restarts={job['restarts']} ExitCode={job['exit']} {times} "
        f"Partition={job['partition']} NodeList={job['nodes'] or '(null)'} Comment={job['comment']} \n"
    )


def _advance(table: Json, raw: str, job: Json, folder: Path, *, look: bool = True) -> None:
    """What happens to a job from one look to the next: what its plan says, or what its script does."""
    if job["pid"] is not None:
        _reap(table, job)
        return
    if not look or job.get("plan_over") or (job["state"] in OVER and table["run"]):
        return
    plan = table["plan"].get(job["name"], table["plan"].get("*", ["PENDING"]))
    said = plan[min(job["looks"], len(plan) - 1)]
    job["looks"] += 1
    said = {"state": said} if isinstance(said, str) else said
    if said["state"] == "gone":
        job["listed"] = False
        return
    job.update({key: value for key, value in said.items() if key in ("state", "exit", "reason", "nodes")})
    if job["state"] == "RUNNING" and job["started"] is None:
        job.update(started=_now(table), nodes=job["nodes"] or "n1")
        if table["run"]:
            job["pid"] = _start(raw, job, folder)
    if job["state"] in OVER and job["ended"] is None:
        job["ended"] = _now(table)


def _start(raw: str, job: Json, folder: Path) -> int:
    """The script as a child of a shell that notes how it ends; in a session of its own."""
    options = job["options"]
    pattern = options["output"].replace("%%", "\x00").replace("%j", raw).replace("%A", job["array"] or raw)
    output = pattern.replace("%a", str(job["task"])).replace("\x00", "%")
    env = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), "SLURM_JOB_ID": raw}
    env |= {"SLURM_JOB_END_TIME": str(round(time.time()) + 3600), "SLURM_CPUS_PER_TASK": options["cpus-per-task"]}
    if job["task"] is not None:
        env |= {"SLURM_ARRAY_JOB_ID": job["array"], "SLURM_ARRAY_TASK_ID": str(job["task"])}
    gpus = int(options.get("gres", "gpu:0").rpartition(":")[2])
    if gpus:
        env |= dict.fromkeys(("SLURM_JOB_GPUS", "CUDA_VISIBLE_DEVICES"), ",".join(map(str, range(gpus))))
    if job["restarts"]:
        env["SLURM_RESTART_COUNT"] = str(job["restarts"])
    ended = str(folder / f"ended.{raw}.{job['restarts']}")
    job["ended_file"] = ended
    noting = 'trap : TERM; /bin/bash "$1" & p=$!; trap "kill -TERM $p" TERM; while :; do wait $p; s=$?; '
    noting += 'kill -0 $p 2>/dev/null || break; done; echo $s > "$2"'
    with Path(output).open("ab") as out:
        child = subprocess.Popen(
            ["/bin/bash", "-c", noting, "noting", job["script"], ended],
            stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=env, cwd=options.get("chdir"), start_new_session=True,
        )  # fmt: skip
    return child.pid


def _reap(table: Json, job: Json) -> None:
    path = Path(job["ended_file"])
    if not path.exists() or not path.read_text().endswith("\n"):
        return
    status = int(path.read_text())
    code = f"0:{status - 128}" if status > 128 else f"{status}:0"
    state = "CANCELLED" if job["by"] is not None else "FAILED" if status else "COMPLETED"
    job.update(pid=None, exit=code, ended=_now(table), state=state, plan_over=True)


def _signal(pid: int, number: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def _now(table: Json) -> float:
    return float(time.time() if table["now"] is None else table["now"])


def _told(moment: float | None) -> str:
    return "Unknown" if moment is None else str(round(moment))


_COMMANDS = {
    "sbatch": _sbatch, "squeue": _squeue, "sacct": _sacct, "scancel": _scancel, "sinfo": _sinfo, "scontrol": _scontrol,
}  # fmt: skip


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:]))
