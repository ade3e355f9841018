"""Readings of which everything is known, and of which nothing is."""

from __future__ import annotations

from dataclasses import replace

from hostler.model.artifact_views import BacklogView, KeepingView, ReplicationView, StockRow, StockView
from hostler.model.artifacts import ArtifactKind, Standing
from hostler.model.fleet import Link
from hostler.model.inputs import RlTelemetry
from hostler.model.learning import Losses, Rating
from hostler.model.readings import (
    ConfigReading,
    DeviceReading,
    Gist,
    LoopReading,
    NodeReading,
    Pace,
    PlaceReading,
    Readings,
    RlReading,
    SweepReading,
    WorkReading,
)
from hostler.model.rl_telemetry import AdviceTold, Waits
from hostler.model.steering import KindShare, QuotaView, ShareRow, TierShares
from hostler.model.views import ForeignUseView, PressureView, VelocityView
from hostler.model.work import JobState, WorkKind

NOW = 1_000_000.0

NODE = NodeReading(
    name="rig-1",
    backend="ssh",
    provider="vast",
    tier="1",
    link=Link.UP,
    since=NOW - 60,
    cordoned=False,
    told_at=NOW - 3,
    memory_used=0.5,
    load=0.25,
    disk_used=0.75,
    disk_free_gb=100.0,
    disk_full_in_s=7200.0,
    backlog_s=12.0,
    price_per_h=2.5,
    games=41,
    games_at_risk=0,
    levels={"memory": "critical"},
)
DEVICE = DeviceReading(
    id="rig-1/cuda0",
    node="rig-1",
    kind="cuda",
    model='H100 "SXM"\\80\nGB',
    vram_gb=80.0,
    held={WorkKind.SELFPLAY: 2},
    lanes=2,
    utilization=0.875,
    vram_used_gb=20.0,
    temperature_c=61.0,
    told_at=NOW - 3,
    quarantined=True,
    cordoned=False,
    foreign_use=ForeignUseView(kind="others", since=NOW - 60, who='python of "ann" (pid 4711)', vram_gb=12.5),
    unproved=False,
)
WORK = WorkReading(
    work=WorkKind.SELFPLAY,
    jobs={state: number for number, state in enumerate(JobState)},
    oldest_at=NOW - 500,
    attempts={"done": 3, "exit": 1},
    device_s=3600.0,
    cost=2.5,
    unpriced_s=10.0,
)
CONFIG = ConfigReading(
    name="hex8_2p",
    state="open",
    generation=4,
    rating=Rating(elo=700.0, low=650.0, high=750.0, games=400),
    velocity=VelocityView(per_day=-3.0, low=-9.0, high=3.0),
    made_at=NOW - 900,
    loss=Losses(policy=2.5, value=0.5),
    fresh_games=17,
    games_per_h=120.0,
    games=1000,
    datasets=5,
    models=6,
    promotions=4,
    rejections=1,
    resting=1,
)
ROW = ShareRow(
    name="hex8_2p", pattern="hex8_*", configs=("hex8_2p",), target=0.5, had=0.25, device_s=9.0, holds=1.0, wants=True
)
TIER = TierShares(tier="1", devices=1, device_s=9.0, error_points=25.0, patterns=(ROW,), configs=(ROW,))
QUOTAS = QuotaView(
    at=NOW,
    tiers=(TIER,),
    kinds=(KindShare(work=WorkKind.SELFPLAY, target=0.6, had=0.5, device_s=9.0, holds=1.0),),
    contradictions=(),
    plan=None,
)
PRESSURE = PressureView(
    signal="queue",
    event="BACKPRESSURE_ACTIVATED",
    level="warning",
    value=200.0,
    limit=100.0,
    unit="jobs",
    since=NOW - 5,
    expires_at=None,
    holds_back=(),
)
GIST = Gist(
    at=NOW,
    seq=77,
    epoch=2,
    begun_at=NOW - 1000,
    blocked=3,
    works=(WORK,),
    nodes=1,
    nodes_up=1,
    devices=1,
    devices_busy=1,
    pressures=(PRESSURE,),
    pace=Pace(
        window_s=3600.0,
        games_per_h=120.0,
        chunks_per_h=4.0,
        items_per_s=300.0,
        attempts_per_h=4.0,
        failed_per_h=1.0,
        datasets=1,
        models=1,
        promotions=0,
    ),
)
REPLICATION = ReplicationView(
    at=NOW,
    backlog=BacklogView(
        at=NOW - 7, artifacts=3, bytes=300, at_risk=1, oldest_due_at=NOW - 900, at_least=False, shortfalls=("no room",)
    ),
    stock=StockView(
        at=NOW - 60,
        rows=(
            StockRow(
                kind=ArtifactKind.GAMES,
                standing=Standing.GAMES,
                artifacts=10,
                bytes=1000,
                copies=17,
                wanted=20,
                possible=20,
                short=3,
                at_risk=1,
            ),
        ),
    ),
    places=(
        KeepingView(
            name="shelf",
            domain="home",
            keeps=True,
            reachable=False,
            full=False,
            trouble="nobody answers",
            again_at=NOW + 5,
            free_bytes=5000,
            looked_at=NOW - 30,
            bytes_per_s=1e6,
            moved_bytes=700,
            copies=8,
            damaged=1,
        ),
    ),
)
TOLD = RlTelemetry(
    job="j7",
    attempt="j7.1",
    steps=90_000,
    seconds=60.0,
    episodes=12,
    envs=16,
    per_s=1500.0,
    reward=3.5,
    largest_share=0.8,
    over_share=("rooms",),
    advice_share=0.125,
    advice=AdviceTold(
        calls={"answered": 40, "refused": 10},
        success=0.8,
        resting=0.5,
        waits=Waits(within=((0.25, 10), (5.0, 39)), calls=40, seconds=30.0),
    ),
)
LESSON = RlReading(told=TOLD, at=NOW - 20)

FULL = Readings(
    gist=GIST,
    version="1",
    fleet="test fleet",
    refused=1,
    troubles=2,
    nodes=(NODE,),
    devices=(DEVICE,),
    places=(PlaceReading(tier="1", provider="vast", device_s=3600.0, cost=2.5, unpriced_s=10.0),),
    configs=(CONFIG,),
    sweeps=SweepReading(chunks={"done": 4}, items=10**6, hits=2, chunks_out=1, left=10**7, per_s=5e5),
    quotas=QUOTAS,
    bans={"quarantine": 1},
    trainings=(LESSON,),
    loop=LoopReading(lag_s=0.25, readers=1, readers_lost=2),
    replication=REPLICATION,
)
"""Everything is known."""

UNKNOWN = replace(
    FULL,
    nodes=(
        replace(
            NODE, told_at=None, memory_used=None, load=None, disk_used=None, disk_free_gb=None, disk_full_in_s=None,
            backlog_s=None, price_per_h=None, levels={},
        ),
    ),
    devices=(
        replace(
            DEVICE, held={}, utilization=None, vram_gb=None, vram_used_gb=None, temperature_c=None, told_at=None,
        ),
    ),
    configs=(
        replace(CONFIG, generation=None, rating=None, velocity=None, made_at=None, loss=None, games_per_h=None),
    ),
    quotas=replace(
        QUOTAS, tiers=(replace(TIER, error_points=None, configs=(replace(ROW, had=None),), patterns=()),), kinds=()
    ),
    gist=replace(GIST, works=(replace(WORK, oldest_at=None),), pressures=()),
    bans={},
    trainings=(
        replace(
            LESSON,
            told=replace(
                TOLD, episodes=None, envs=None, per_s=None, reward=None, largest_share=None, over_share=(),
                advice_share=None, advice=None,
            ),
        ),
    ),
    loop=LoopReading(),
    replication=replace(
        REPLICATION, backlog=None, stock=None,
        places=(replace(REPLICATION.places[0], free_bytes=None, copies=None, damaged=None),),
    ),
)  # fmt: skip
"""Nothing is known that may be unknown."""
