"""peers/measure.py against children that know their own CPU time, each scenario in a process tree of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest
from tests.patience import PATIENCE_S

PEERS = Path(__file__).resolve().parents[2] / "benchmarks" / "peers"
BURN_S = 0.3
LASTS_S = 900  # of a process that is to be killed: longer than anything here waits
SLACK_S = 0.1  # clock ticks of up to five processes

PREAMBLE = f"""
    import json, os, resource, sys, time
    import measure

    read_end, write_end = os.pipe()

    def burn_and_report():
        while time.process_time() < {BURN_S}:
            pass
        os.write(write_end, f"{{time.process_time()}}\\n".encode())

    def child(work):
        pid = os.fork()
        if pid == 0:
            work()
            os._exit(0)
        return pid

    def wait(pid):
        os.waitpid(pid, 0)

    def daemon(then):
        def detach():
            os.setsid()
            child(lambda: (burn_and_report(), then()))
        wait(child(detach))

    measure.become_subreaper()
"""

EPILOGUE = """
    reported = float(os.read(read_end, 100))
    own = time.process_time()
    counted = measure.tree_cpu_s(os.getpid())
    # This process counts too, and the reading itself takes it time: more on a busy machine.
    most, least = counted - own, counted - time.process_time()
    killed = measure.kill_descendants()
    left = len(measure.tree(os.getpid())) - 1
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    told = dict(reported=reported, most=most, least=least, burnt=ended.ru_utime + ended.ru_stime)
    print(json.dumps(dict(told, killed=killed, left=left)))
"""

SCENARIOS = {
    "ended child": ("wait(child(burn_and_report))", 0),
    "ended grandchild": ("wait(child(lambda: wait(child(burn_and_report))))", 0),
    "grandchild of a living child": (f"child(lambda: (wait(child(burn_and_report)), time.sleep({LASTS_S})))", 1),
    "living daemon": (f"daemon(then=lambda: time.sleep({LASTS_S}))", 1),
    "ended daemon": ("daemon(then=lambda: None)", 0),
}


@pytest.mark.parametrize(("scenario", "alive"), SCENARIOS.values(), ids=SCENARIOS.keys())
def test_counts_what_a_descendant_burnt_once_and_leaves_nothing(scenario: str, alive: int, tmp_path: Path) -> None:
    script = tmp_path / "scenario.py"
    script.write_text("\n".join(dedent(part) for part in (PREAMBLE, scenario, EPILOGUE)))
    answer = json.loads(_run(script).stdout)
    assert answer["reported"] >= BURN_S
    assert answer["most"] >= answer["reported"] - SLACK_S
    # The system has counted all descendants once by the end; what is counted twice is more than that.
    assert answer["least"] <= answer["burnt"] + SLACK_S
    assert answer["killed"] >= alive
    assert answer["left"] == 0


def test_a_run_past_its_limit_fails_with_the_reason_and_leaves_nothing(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    script = tmp_path / "stuck_peer.py"
    script.write_text(
        dedent(f"""
            import contextlib, os, subprocess, time
            import measure

            @contextlib.contextmanager
            def session(kind):
                daemon = subprocess.Popen(["sleep", "{LASTS_S}"], start_new_session=True)
                with open({str(pids)!r}, "w") as file:
                    file.write(f"{{os.getpid()}} {{daemon.pid}}")
                yield lambda n: time.sleep({LASTS_S})

            if __name__ == "__main__":
                measure.main("stuck", "1", session)
        """)
    )
    for limit in (2, 8, 32, PATIENCE_S):  # on a busy machine it takes a while until there is something to kill
        answer = _run(script, "--tasks=1", "--kind=noop", f"--limit={limit}")
        if pids.exists():
            break
    line = json.loads(answer.stdout)
    assert answer.returncode == 1
    assert (line["peer"], line["ok"], line["cpu_s"]) == ("stuck", 0, None)
    assert f"killed at the limit of {limit:g} s" in line["notes"]
    assert [pid for pid in pids.read_text().split() if Path("/proc", pid).exists()] == []


def _run(script: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a script in a process tree of its own; its errors show in the test's output."""
    environment = {**os.environ, "PYTHONPATH": str(PEERS)}
    command: list[str | Path] = [sys.executable, script, *arguments]
    return subprocess.run(
        command, env=environment, stdout=subprocess.PIPE, text=True, timeout=2 * PATIENCE_S, check=False
    )
