"""A loop of somebody's own: four stages that keep to docs/reference/learning.md, and know nothing of Hostler.

`own_loop.py STAGE [FAULT]`. Its game needs no play: a segment is a line of text, a model the number of its trainings,
of which the first is all that helps: a trained model wins four games in five against an untrained one. With a FAULT the
stage breaks its contract in that way.
"""

import hashlib
import json
import os
import random
import sys
import time
from pathlib import Path

PLIES = 10
ARTIFACTS = Path(os.environ["HOSTLER_ARTIFACTS"])
RESULT = Path(os.environ["HOSTLER_RESULT"])


def publish(suffix: str, text: str) -> dict:
    content = text.encode()
    sha256 = hashlib.sha256(content).hexdigest()
    path = ARTIFACTS / "objects" / sha256[:2] / (sha256 + suffix)
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_bytes(content)
    draft.rename(path)
    return {"sha256": sha256, "bytes": len(content)}


def leave(text: str) -> None:
    draft = RESULT.with_name(f".{RESULT.name}.{os.getpid()}")
    draft.write_text(text)
    draft.rename(RESULT)


def read(suffix: str, sha256: str) -> str:
    content = (ARTIFACTS / "objects" / sha256[:2] / (sha256 + suffix)).read_bytes()
    assert hashlib.sha256(content).hexdigest() == sha256
    return content.decode()


def selfplay(order: dict) -> dict:
    """What others have closed stays closed. With `pause_s` a segment takes so long, and is told of at once.

    `pad` makes each of them so many bytes larger.
    """
    closed, pause_s = order.get("closed", {"segments": []})["segments"], order["options"].get("pause_s", 0.0)
    pad = "x" * order["options"].get("pad", 0)
    known = {each["numbers"] for each in closed}
    for first in range(0, order["games"], order["segment_games"]):
        games = min(order["segment_games"], order["games"] - first)
        numbers = f"{first}-{first + games - 1}" if games > 1 else str(first)
        if numbers in known:
            continue
        time.sleep(pause_s)
        text = f"{order['config']}: {games} games of {order['player']} from {first}, seed {order['seed']}{pad}"
        told = {"games": games, "positions": games * PLIES, "numbers": numbers}
        closed = [*closed, {**publish(".segment.npz", text), **told}]
        if pause_s:
            leave(json.dumps({"schema": 1, **counted(closed)}))
    return counted(closed)


def counted(closed: list) -> dict:
    games = sum(each["games"] for each in closed)
    return {"segments": closed, "games": games, "positions": games * PLIES}


def export(order: dict) -> dict:
    told = []
    for offered in order["segments"]:
        assert f"{offered['games']} games" in read(".segment.npz", offered["sha256"])
        verdict = {"accepted": offered["games"], "rejected": {}, "quality": {"read": 1.0}, "score": 1.0}
        told.append({**offered, **verdict, "refused": None})
    games = sum(each["accepted"] for each in told)
    dataset = publish(".dataset.npz", f"{order['config']}: {[each['sha256'] for each in told]}")
    return {
        "dataset": {**dataset, "games": games, "positions": games * PLIES},
        "segments": told,
        "quality": {"read": 1.0},
        "lengths": {"mean": PLIES, "sd": 0, "games": games},
        "bootstrap": order["strength"] is None,
    }


def training(order: dict) -> dict:
    given = order["dataset"] or {"sha256": None, "positions": 0}
    trained = trainings(order["base"]) + 1 if order["base"] else 0
    told = {"base": order["base"], "dataset": given["sha256"], "steps": order["steps"], "stopped": "steps"}
    counts = {"positions_in": given["positions"], "positions_used": given["positions"]}
    measured = {"before": {"policy": 2.0, "value": 1.0}, "after": {"policy": 1.0, "value": 0.5}} if trained else {}
    model = publish(".safetensors", f"{trained} trainings of {order['config']}, seed {order['seed']}")
    return {"model": model, **told, **counts, "samples": order["steps"] * order["batch"], **measured}


def evaluation(order: dict) -> dict:
    chance = random.Random(order["seed"])
    matches = [
        {**match, "groups": [group(match, chance) for _ in range(match["groups"])]} for match in order["matches"]
    ]
    return {"matches": matches, "games": sum(len(each) for match in matches for each in match["groups"])}


def group(match: dict, chance: random.Random) -> list:
    """Two games, the better one in both seats."""
    a, b = (min(trainings(match[side].partition("@")[2]), 1) for side in "ab")
    wins = [chance.random() < (0.5 if a == b else 0.8 if a > b else 0.2) for _ in range(2)]
    return [[0, 1] if won == (seat == 0) else [1, 0] for seat, won in enumerate(wins)]


def trainings(model: str) -> int:
    return int(read(".safetensors", model).split()[0]) if model else -1


def fewer_games(order: dict, result: dict) -> None:
    left = result["segments"].pop(0)
    result.update(games=result["games"] - left["games"], positions=result["positions"] - left["positions"])


def known_segments(order: dict, result: dict) -> None:
    for number, each in enumerate(result["segments"]):
        each.update(publish(".segment.npz", f"segment {number} of any job"))


def one_game_of_each(order: dict, result: dict) -> None:
    for each in result["segments"]:
        each["accepted"] = 1
    result["dataset"]["games"] = len(result["segments"])


def no_games(order: dict, result: dict) -> None:
    for match in result["matches"]:
        match["groups"] = []
    result["games"] = 0


def recorded(order: dict, result: dict) -> None:
    result["segments"] = [{**publish(".segment.npz", str(order["seed"])), "games": 1, "positions": 1}]


def a_segment_gone(order: dict, result: dict) -> None:
    segment(result, 0).unlink()


def a_segment_damaged(order: dict, result: dict) -> None:
    segment(result, 0).write_text("scratched")


def segment(result: dict, number: int) -> Path:
    sha256 = result["segments"][number]["sha256"]
    return ARTIFACTS / "objects" / sha256[:2] / (sha256 + ".segment.npz")


FAULTS = {
    "another schema": lambda order, result: result.update(schema=2),
    "no games told": lambda order, result: result.pop("games"),
    "an unknown field": lambda order, result: result.update(elo=3000),
    "an error and status 0": lambda order, result: result.update(error="the coins are gone"),
    "a segment gone": a_segment_gone,
    "a segment damaged": a_segment_damaged,
    "fewer games": fewer_games,
    "a wrong sum": lambda order, result: result.update(positions=result["positions"] + 1),
    "a segment twice": lambda order, result: result.update(segments=[result["segments"][0]] * 2),
    "the segments of another job": known_segments,
    "fewer segments": lambda order, result: result["segments"].pop(),
    "more rejected than there are": lambda order, result: result["segments"][0].update(rejected={"dull": 1}),
    "accepted and refused": lambda order, result: result["segments"][0].update(refused="dull"),
    "another count in the dataset": lambda order, result: result["dataset"].update(games=1),
    "no dataset": lambda order, result: result.update(dataset=None),
    "too few accepted": one_game_of_each,
    "the same dataset again": lambda order, result: result["dataset"].update(publish(".dataset.npz", "the same")),
    "another base": lambda order, result: result.update(base="0" * 64),
    "another dataset": lambda order, result: result.update(dataset="0" * 64),
    "fewer positions": lambda order, result: result.update(positions_used=1),
    "fewer steps": lambda order, result: result.update(steps=1),
    "nothing measured": lambda order, result: result.pop("after"),
    "the base again": lambda order, result: result["model"].update(sha256=order["base"]),
    "another match": lambda order, result: result["matches"][0].update(b="greedy"),
    "no games": no_games,
    "a group of one seat": lambda order, result: result["matches"][0]["groups"][0].pop(),
    "a tie": lambda order, result: result["matches"][0]["groups"][0].__setitem__(0, [0, 0]),
    "a wrong count of games": lambda order, result: result.update(games=1),
    "recorded unasked": recorded,
}


def main() -> int:
    stage, fault = sys.argv[1], " ".join(sys.argv[2:])
    order = json.loads(Path(os.environ["HOSTLER_INPUTS"]).read_text())
    if (order["schema"], order["stage"]) != (1, stage):
        return 2
    if fault in ("no result", "silent status 1"):
        return int(fault == "silent status 1")
    result = {"schema": 1, **globals()[stage](order)}
    begins = stage == "training" and order["base"] is None
    # The untrained model of the start is made as it should be.
    if fault in FAULTS and not begins:
        FAULTS[fault](order, result)
    text = "I am done" if fault == "no JSON" else json.dumps(result)
    if fault == "status 1":
        text = json.dumps({"schema": 1, "error": "3 coins of 7 are gone"})
    leave(text)
    return int(fault == "status 1")


sys.exit(main())
