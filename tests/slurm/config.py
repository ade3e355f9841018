"""What the daemons of a lab are told. Every setting that is there for the tests says so."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.patience import PATIENCE_S

CLUSTER = "hostler"
DATABASE = "slurm_acct"
PASSWORD = "of-the-lab"


@dataclass(frozen=True)
class Node:
    """A machine that does not exist: a slurmd that claims this much."""

    name: str
    cpus: int
    gpu: str = ""
    gpus: int = 0
    features: str = ""

    @property
    def gres(self) -> str:
        return f"gpu:{self.gpu}:{self.gpus}" if self.gpus else ""


NODES = (
    Node("gpu-h1", 16, "h100", 2, "x86_64,h100,nvlink"),
    Node("gpu-h2", 16, "h100", 2, "x86_64,h100,nvlink"),
    Node("gpu-a1", 16, "a10", 4, "x86_64,a10"),
    Node("gh-1", 72, "gh200", 1, "aarch64,gh200"),
    Node("cpu-1", 32, features="x86_64"),
    Node("cpu-2", 32, features="x86_64"),
)
MEMORY_MB = 64000

PARTITIONS = """\
PartitionName=gpu-train Nodes=gpu-h[1-2] DefaultTime=60 MaxTime=12:00:00
PartitionName=gpu-selfplay Nodes=gpu-a1 DefaultTime=60 MaxTime=4:00:00
PartitionName=gpu-gh200 Nodes=gh-1 DefaultTime=60
PartitionName=cpu-eval Nodes=cpu-[1-2] DefaultTime=60 Default=YES
PartitionName=short Nodes=cpu-[1-2] DefaultTime=1 MaxTime=1
PartitionName=closed Nodes=cpu-[1-2] State=DOWN
"""


@dataclass(frozen=True)
class Place:
    """Where one lab is: its folder, its user, its ports."""

    folder: Path
    user: str
    host: str
    plugins: Path
    port: int  # the first of the block
    accounting: bool

    @property
    def munge(self) -> Path:
        return self.folder / "munge/s"

    @property
    def conf(self) -> Path:
        return self.folder / "etc/slurm.conf"

    def log(self, daemon: str) -> Path:
        return self.folder / "log" / daemon


DATABASE_PORT, DBD_PORT, CONTROLLER_PORT, NODE_PORT = range(4)  # of the block; every node has one from the last on


def slurm_conf(place: Place) -> str:
    """The file that everybody reads."""
    accounting = _with_accounting(place) if place.accounting else "AccountingStorageType=accounting_storage/none\n"
    return _daemons(place) + _scheduling() + accounting + _nodes(place) + PARTITIONS


def _daemons(place: Place) -> str:
    folder = place.folder
    return f"""\
ClusterName={CLUSTER}
SlurmctldHost={place.host}(127.0.0.1)
SlurmctldPort={place.port + CONTROLLER_PORT}
SlurmUser={place.user}
SlurmdUser={place.user}
AuthType=auth/munge
CredType=cred/munge
# A job that is put back waits for its old credential to be over: two minutes, unless told otherwise. Less than the
# slowest machine needs to start a job would break everything.
AuthInfo=socket={place.munge},cred_expire=5
PluginDir={place.plugins}
PlugStackConfig={folder}/etc/plugstack.conf
StateSaveLocation={folder}/state
SlurmctldPidFile={folder}/run/slurmctld.pid
SlurmdPidFile={folder}/run/slurmd.%n.pid
SlurmdSpoolDir={folder}/spool.%n
SlurmctldLogFile={place.log("slurmctld.log")}
SlurmdLogFile={place.log("slurmd.%n.log")}
# No cgroups: there are none to be had in a container, and none for ordinary users.
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/linux
# Somebody who sleeps in `sleep` uses memory for less than the default of 30 s.
JobAcctGatherFrequency=2
MpiDefault=none
MailProg=/bin/true
# Nodes come back by themselves when they were only silent; what a test has taken down stays down.
ReturnToService=1
# Nodes have more cores and memory than the machine.
SlurmdParameters=config_overrides
"""


def _scheduling() -> str:
    return f"""\
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
# Without it a job that says nothing takes all memory of its node.
DefMemPerCPU=100
# A pass over the queue every second instead of every minute, and soon after each submission.
SchedulerParameters=sched_interval=1,bf_interval=1,sched_min_interval=50000,batch_sched_delay=0
GresTypes=gpu
# How long commands wait for a slurmctld that is away.
SlurmctldTimeout=5
MessageTimeout=5
# A node that does not answer for so long is down, and its jobs get NODE_FAIL: on a busy machine answers come late.
SlurmdTimeout={PATIENCE_S:.0f}
# Between SIGTERM and SIGKILL: half a minute, unless told otherwise.
KillWait=10
# `scontrol show job` tells of ended jobs for so long: tests have to see that, and do not want to wait for its end.
MinJobAge=30
MaxArraySize=10001
MaxJobCount=20000
"""


def _with_accounting(place: Place) -> str:
    return f"""\
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={place.port + DBD_PORT}
AccountingStoragePass={place.munge}
AccountingStorageTRES=gres/gpu,gres/gpu:h100,gres/gpu:a10,gres/gpu:gh200
AccountingStoreFlags=job_comment
AccountingStorageEnforce=associations,limits,qos
PriorityType=priority/multifactor
PriorityWeightQOS=1000
PreemptType=preempt/qos
PreemptMode=REQUEUE
"""


def _nodes(place: Place) -> str:
    lines = []
    for at, node in enumerate(NODES):
        gres = f" Gres={node.gres}" if node.gres else ""
        lines.append(
            f"NodeName={node.name} NodeHostname={place.host} NodeAddr=127.0.0.1 Port={place.port + NODE_PORT + at}"
            f" CPUs={node.cpus} RealMemory={MEMORY_MB} Feature={node.features}{gres}\n"
        )
    return "".join(lines)


def gres_conf(place: Place) -> str:
    """Which device files the GPUs are: all the same ones, and none of them is a GPU."""
    return "".join(
        f"NodeName={node.name} Name=gpu Type={node.gpu} File={place.folder}/dev/nvidia[0-{node.gpus - 1}]\n"
        if node.gpus > 1
        else f"NodeName={node.name} Name=gpu Type={node.gpu} File={place.folder}/dev/nvidia0\n"
        for node in NODES
        if node.gpus
    )


def slurmdbd_conf(place: Place) -> str:
    """Only its owner may read it: there is a password in it."""
    return f"""\
AuthType=auth/munge
AuthInfo=socket={place.munge}
PluginDir={place.plugins}
DbdHost={place.host}
DbdAddr=127.0.0.1
DbdPort={place.port + DBD_PORT}
SlurmUser={place.user}
LogFile={place.log("slurmdbd.log")}
PidFile={place.folder}/run/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={place.port + DATABASE_PORT}
StorageUser=slurm
StoragePass={PASSWORD}
StorageLoc={DATABASE}
"""


# Even where nothing uses cgroups slurmd looks for them, and gives up where there are none of version 2.
CGROUP_CONF = "CgroupPlugin=cgroup/v1\n"
