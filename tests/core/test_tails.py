"""The ends of sweeps: idle devices take over parts of what others hold, and still everything is searched once."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings, strategies as st

from hostler.model import commands, events, inputs
from hostler.model.events import job_of
from hostler.model.fleet import Link
from hostler.model.work import FailureClass, JobState, Retry, SweepPayload
from hostler.policy import chunking
from hostler.runtime.proof import proof_of
from tests.core.builders import Driver, ended, fleet, link_up, node, replayed, script, snapshot, sweep

PER_S = 100.0
EVERY = 7
"""Items that are multiples of this are hits."""


def multiples(start: int, stop: int) -> tuple[dict[str, Any], ...]:
    return tuple({"at": at} for at in range(start + -start % EVERY, stop, EVERY))


def result(world: Driver, chunk: str, stop: int | None = None) -> inputs.Searched:
    """The chunk, searched at the usual speed; to a stop of before, if one is given."""
    start, end = world.state.sweeps[job_of(chunk)].ledger.leased[chunk]
    stop = end if stop is None else stop
    return world.searched(chunk, multiples(start, stop), stop=stop, elapsed_s=(stop - start) / PER_S, overhead_s=0.0)


def progress(world: Driver, chunk: str, position: int, known: bool = True) -> inputs.Progress:
    """A device tells how far its chunk is, and with `known` what it found."""
    job = job_of(chunk)
    payload = world.state.jobs[job].spec.payload
    assert isinstance(payload, SweepPayload)
    start, _ = world.state.sweeps[job].ledger.leased[chunk]
    hits = multiples(start, position)
    found = {chunk: inputs.Found(digest=payload.digest, hits=hits)} if known else {}
    return inputs.Progress(chunks={chunk: (position, len(hits))}, found=found)


def trained(*nodes: str) -> Driver:
    """A world of nodes with a device each, whose speed is known."""
    world = fleet()
    for name in nodes:
        world.tell(inputs.NodeFound(node=node(name)), link_up(name))
    world.submit(sweep("first", stop=2000, kernel="k", min_chunk=200, max_chunk=200))
    while world.job_state("j1") is not JobState.DONE:
        for name in list(world.state.sweeps["j1"].leases):
            world.tell(result(world, name), after_s=0.5)
    return world


def of(world: Driver, device: str) -> str:
    """The chunk that a device has of the second sweep."""
    return next(name for name, lease in world.state.sweeps["j2"].leases.items() if lease.device == device)


def divided() -> tuple[Driver, str]:
    """A world in which `m` had nothing to do any more and was given a part of what `n` has; and what `n` has."""
    world = trained("m")
    world.submit(sweep("second", stop=100_000, kernel="k", target_s=1e9))
    owned = of(world, "n/cpu0")
    while not world.of(events.ChunkShortened):
        world.tell(result(world, of(world, "m/cpu0")), after_s=0.2)
    return world, owned


def finish(world: Driver, name: str = "j2") -> None:
    """Search whatever is leased until the sweep is over, and prove that it was all, once."""
    for _ in range(1000):
        if world.job_state(name) is JobState.DONE:
            break
        leases = [chunk for each in (name, *world.state.sweeps) for chunk in world.state.sweeps[each].leases]
        world.tell(result(world, leases[0]), after_s=0.5)
    prove(world, name)


def prove(world: Driver, name: str) -> None:
    payload = world.state.jobs[name].spec.payload
    assert isinstance(payload, SweepPayload)
    story = [entry for entry in world.entries if name in (getattr(entry.event, "job", None), _sweep_of(entry.event))]
    proof = proof_of(name, (payload.start, payload.stop), story)
    assert (proof.complete, proof.fault) == (True, None)
    found = [hit["at"] for entry in story for hit in getattr(entry.event, "hits", ())]
    assert sorted(found) == [hit["at"] for hit in multiples(payload.start, payload.stop)]


def _sweep_of(event: Any) -> str | None:
    chunk = getattr(event, "chunk", None)
    return None if chunk is None else job_of(chunk)


class TestShortening:
    def test_the_chunk_at_work_is_divided_so_that_both_end_together(self) -> None:
        world, owned = divided()
        (shortened,) = world.of(events.ChunkShortened)
        (lease,) = world.of(events.ChunkLeased)
        assert (shortened.chunk, shortened.device, lease.device) == (owned, "n/cpu0", "m/cpu0")
        assert lease.start == shortened.stop
        assert "m/cpu0 is idle, n/cpu0 has work for" in shortened.why
        start, stop = world.state.sweeps["j2"].ledger.leased[owned]
        reached = (world.now - world.state.sweeps["j2"].leases[owned].leased_at) * PER_S
        assert abs((stop - start - reached) - (lease.stop - lease.start)) < 5
        trim, lend = world.commands
        assert trim == commands.Trim(node="n", chunk=owned, stop=shortened.stop)
        assert isinstance(lend, commands.Lend)
        assert replayed(world.entries).state == world.state
        assert snapshot(world.state) == world.state
        finish(world)

    def test_a_result_for_the_whole_of_before_counts_for_what_is_left_of_the_chunk(self) -> None:
        world, owned = divided()
        sweep_state = world.state.sweeps["j2"]
        lent_stop = sweep_state.leases[owned].lent_stop
        assert lent_stop is not None
        start, stop = sweep_state.ledger.leased[owned]
        world.tell(result(world, owned, lent_stop))
        (done,) = world.of(events.ChunkDone)
        assert done.hits == multiples(start, stop)
        assert abs(done.elapsed_s - (stop - start) / PER_S) < 1e-6
        assert (start, stop) in sweep_state.ledger.done or sweep_state.ledger.done[0][1] >= stop
        finish(world)

    def test_one_for_more_than_was_ever_lent_or_for_less_than_is_left_is_refused(self) -> None:
        for by in (1, None):
            world, owned = divided()
            lease = world.state.sweeps["j2"].leases[owned]
            stop = world.state.sweeps["j2"].ledger.leased[owned][1]
            assert lease.lent_stop is not None
            world.tell(result(world, owned, stop - 1 if by is None else lease.lent_stop + by))
            assert len(world.of(events.ResultRefused)) == 1
            finish(world)

    def test_a_checkpoint_beyond_the_new_end_ends_the_chunk(self) -> None:
        world, owned = divided()
        start, stop = world.state.sweeps["j2"].ledger.leased[owned]
        lent_stop = world.state.sweeps["j2"].leases[owned].lent_stop
        assert lent_stop is not None
        world.tell(world.returned(owned, "trimmed", position=lent_stop, hits=multiples(start, lent_stop)))
        (returned,) = world.of(events.ChunkReturned)
        assert (returned.position, returned.hits, returned.blame) == (stop, multiples(start, stop), False)
        finish(world)

    def test_a_node_that_was_away_is_told_again(self) -> None:
        world, owned = divided()
        stop = world.state.sweeps["j2"].ledger.leased[owned][1]
        world.tell(inputs.LinkDown(node="n", why="cut"))
        world.tell(link_up("n", chunks=[owned]))
        assert commands.Trim(node="n", chunk=owned, stop=stop) in world.commands
        finish(world)

    def test_it_is_divided_again_where_it_goes_slower_than_it_should(self) -> None:
        world, owned = divided()
        start, stop = world.state.sweeps["j2"].ledger.leased[owned]
        for at in range(1, 5):
            world.tell(progress(world, owned, start + 8000 + at * 10), after_s=1.0)
        world.tell(result(world, of(world, "m/cpu0")), after_s=1.0)
        (again,) = world.of(events.ChunkShortened)
        assert (again.chunk, again.stop < stop) == (owned, True)
        assert again.stop > start + 8040
        finish(world)

    def test_what_little_is_left_is_left_to_its_owner(self) -> None:
        world, owned = divided()
        _, stop = world.state.sweeps["j2"].ledger.leased[owned]
        world.tell(progress(world, owned, stop - 250))
        world.tell(progress(world, owned, stop - 150))
        world.tell(result(world, of(world, "m/cpu0")), after_s=0.1)
        assert world.of(events.ChunkShortened) == []
        finish(world)

    def test_a_chunk_of_no_more_than_min_chunk_is_not_divided(self) -> None:
        world = trained("m")
        world.submit(sweep("second", stop=60_000, kernel="k", target_s=1e9, min_chunk=30_000))
        while len(world.state.sweeps["j2"].leases) == 2:
            world.tell(result(world, of(world, "m/cpu0")), after_s=0.2)
        assert world.state.sweeps["j2"].leases
        finish(world)
        assert not any(isinstance(entry.event, events.ChunkShortened) for entry in world.entries)


def wait_until_taken(world: Driver) -> None:
    """Nothing is heard of `n` for a while, and `m` ends what it has."""
    world.tell(inputs.Tick(), after_s=chunking.SILENT_S + 1)
    for _ in range(20):
        if world.of(events.ChunkTaken):
            return
        world.tell(result(world, of(world, "m/cpu0")), after_s=0.2)


class TestGivingWay:
    def test_a_script_does_not_wait_for_the_end_of_a_long_chunk(self) -> None:
        world = trained()
        world.submit(sweep("second", stop=100_000, kernel="k", target_s=1e9))
        owned = of(world, "n/cpu0")
        start, stop = world.state.sweeps["j2"].ledger.leased[owned]
        world.submit(script())
        (shortened,) = world.of(events.ChunkShortened)
        assert (shortened.chunk, shortened.why.startswith("j3 waits for the device")) == (owned, True)
        assert start < shortened.stop < start + 10 * PER_S < stop
        assert [type(each) for each in world.commands] == [commands.Launch, commands.Trim]
        world.tell(result(world, owned))
        assert world.of(events.ChunkLeased) == []
        world.tell(ended("j3.1"))
        finish(world)

    def test_the_end_of_a_short_one_is_waited_for(self) -> None:
        world = trained()
        world.submit(sweep("second", stop=100_000, kernel="k"))
        world.submit(script())
        assert world.of(events.AttemptLeased)
        assert world.of(events.ChunkShortened) == []


class TestTaking:
    def test_from_a_node_that_is_away_and_what_it_told_counts(self) -> None:
        world, owned = divided()
        start, stop = world.state.sweeps["j2"].ledger.leased[owned]
        world.tell(progress(world, owned, start + 5000))
        world.tell(inputs.LinkDown(node="n", why="cut"))
        world.tell(result(world, of(world, "m/cpu0")), after_s=1.0)
        assert world.of(events.ChunkTaken) == []
        wake_at = world.core.wake_at()
        assert wake_at is not None
        assert wake_at - world.now < 1.01
        wait_until_taken(world)
        (taken,) = world.of(events.ChunkTaken)
        assert (taken.chunk, taken.position, taken.silent) == (owned, start + 5000, True)
        assert taken.hits == multiples(start, start + 5000)
        assert {lease.device for lease in world.of(events.ChunkLeased)} == {"m/cpu0"}
        payload = world.state.jobs["j2"].spec.payload
        assert isinstance(payload, SweepPayload)
        whole: dict[str, Any] = {"digest": payload.digest, "start": start, "stop": stop, "hits": (), "elapsed_s": 1.0}
        world.tell(inputs.Searched(chunk=owned, **whole))
        assert len(world.of(events.ResultRefused)) == 1
        world.tell(link_up("n", chunks=[owned]))
        assert commands.Recall(node="n", chunk=owned, reason="not wanted") in world.commands
        assert replayed(world.entries).state == world.state
        finish(world)

    def test_progress_without_the_hits_does_not_count(self) -> None:
        world, owned = divided()
        start, _ = world.state.sweeps["j2"].ledger.leased[owned]
        world.tell(progress(world, owned, start + 5000, known=False))
        wait_until_taken(world)
        assert world.of(events.ChunkTaken)[0].position == start
        finish(world)

    def test_progress_of_other_parameters_does_not_count(self) -> None:
        world, owned = divided()
        start, _ = world.state.sweeps["j2"].ledger.leased[owned]
        found = {owned: inputs.Found(digest="0" * 64, hits=())}
        world.tell(inputs.Progress(chunks={owned: (start + 5000, 0)}, found=found))
        wait_until_taken(world)
        assert world.of(events.ChunkTaken)[0].position == start
        finish(world)

    def test_a_worker_that_never_tells_anything_is_not_robbed_before_it_is_late(self) -> None:
        world, owned = divided()
        left_s = world.state.sweeps["j2"].leases[owned].expected_s
        assert left_s is not None
        world.tell(result(world, of(world, "m/cpu0")), after_s=chunking.SILENT_S + 5)
        assert world.of(events.ChunkTaken) == []
        while len(world.state.sweeps["j2"].leases) > 1:
            world.tell(result(world, of(world, "m/cpu0")), after_s=0.2)
        world.tell(inputs.Tick(), after_s=chunking.SILENT_S + chunking.LATE * left_s)
        assert world.of(events.ChunkTaken)[0].chunk == owned
        finish(world)

    def test_who_lost_a_chunk_is_tried_with_little_and_after_a_rest(self) -> None:
        world, owned = divided()
        world.tell(progress(world, owned, 10))
        wait_until_taken(world)
        assert world.state.sweeps["j2"].silent.keys() == {"n/cpu0"}
        assert {lease.device for lease in world.state.sweeps["j2"].leases.values()} <= {"m/cpu0", "n/cpu0"}
        while not any(each.device == "n/cpu0" for each in world.of(events.ChunkLeased)):
            world.tell(progress(world, of(world, "m/cpu0"), int(world.now)), after_s=5.0)
        lease = next(each for each in world.of(events.ChunkLeased) if each.device == "n/cpu0")
        assert lease.stop - lease.start <= PER_S * chunking.SHORTEST_S + 200
        world.tell(result(world, of(world, "n/cpu0")))
        assert world.state.sweeps["j2"].silent == {}
        finish(world)


class TestUneven:
    """Items whose lengths differ by orders of magnitude, as calls of functions."""

    def test_speeds_of_other_sweeps_do_not_count(self) -> None:
        world = trained("m")
        world.submit(sweep("second", stop=8, kernel="k", uneven=True))
        assert {lease.stop - lease.start for lease in world.of(events.ChunkLeased)} == {1}
        finish(world)
        assert world.state.speeds.keys() == {"n/cpu0 k", "m/cpu0 k"}
        assert world.state.sweeps["j2"].speeds.keys() == {"n/cpu0", "m/cpu0"}

    def test_an_item_that_takes_long_is_not_taken_from_a_worker_that_reports(self) -> None:
        world = trained("m")
        world.submit(sweep("second", stop=8, uneven=True))
        long = of(world, "n/cpu0")
        for _ in range(300):
            for chunk in list(world.state.sweeps["j2"].leases):
                if chunk == long:
                    world.tell(progress(world, long, world.state.sweeps["j2"].ledger.leased[long][0]), after_s=0.5)
                else:
                    world.tell(result(world, chunk), after_s=0.5)
        assert world.state.sweeps["j2"].leases.keys() == {long}
        assert not [entry for entry in world.entries if getattr(entry.event, "silent", False)]
        finish(world)

    def test_items_behind_one_that_takes_long_go_to_an_idle_device(self) -> None:
        world = trained("m")
        world.submit(sweep("second", stop=1000, uneven=True, target_s=1.0))
        while not any(stop - start > 20 for start, stop in world.state.sweeps["j2"].ledger.leased.values()):
            world.tell(result(world, of(world, "n/cpu0")), after_s=0.01)
        long = of(world, "n/cpu0")
        start, _ = world.state.sweeps["j2"].ledger.leased[long]
        for _ in range(300):
            world.tell(progress(world, long, start), after_s=0.5)
            for chunk in [each for each in world.state.sweeps["j2"].leases if each != long]:
                if world.state.sweeps["j2"].leases[chunk].device == "m/cpu0":
                    world.tell(result(world, chunk), after_s=0.1)
        assert world.state.sweeps["j2"].ledger.leased == {long: (start, start + 1)}
        finish(world)

    def test_a_device_whose_item_takes_long_is_given_nothing_more(self) -> None:
        world = trained("m")
        world.submit(sweep("second", stop=20, uneven=True, target_s=1.0))
        held = world.state.sweeps["j2"].ledger
        while held.free:
            for device in ("n/cpu0", "m/cpu0"):
                world.tell(result(world, of(world, device)), after_s=0.01)
        while len(held.leased) > 2:
            for device in ("n/cpu0", "m/cpu0"):
                if len(world.state.devices[device].chunks) > 1:
                    world.tell(result(world, of(world, device)), after_s=0.01)
        chunk = of(world, "m/cpu0")
        start, stop = held.leased[chunk]
        assert stop - start > 1
        world.tell(world.returned(chunk, "parted", position=start + 1, hits=multiples(start, start + 1)), after_s=3.0)
        assert {lease.device for lease in world.of(events.ChunkLeased)} == {"m/cpu0"}
        finish(world)

    def test_items_of_a_chunk_that_is_not_reported_are_not_given_to_another(self) -> None:
        """After a restart of the controller nobody knows how far it is: it may be nearly done."""
        world = trained("m")
        world.submit(sweep("second", stop=1000, uneven=True, target_s=1.0))
        while not any(stop - start > 20 for start, stop in world.state.sweeps["j2"].ledger.leased.values()):
            world.tell(result(world, of(world, "n/cpu0")), after_s=0.01)
        owned = of(world, "n/cpu0")
        while any(lease.device == "m/cpu0" for lease in world.state.sweeps["j2"].leases.values()):
            world.tell(result(world, of(world, "m/cpu0")), after_s=0.1)
        for _ in range(10):
            world.tell(inputs.Tick(), after_s=1.0)
            assert world.of(events.ChunkShortened) == world.of(events.ChunkTaken) == []
        world.tell(progress(world, owned, world.state.sweeps["j2"].ledger.leased[owned][0]))
        world.tell(inputs.Tick(), after_s=1.5)
        assert [lease.device for lease in world.state.sweeps["j2"].leases.values()].count("m/cpu0") > 0
        finish(world)

    def test_an_item_of_a_node_that_was_away_is_taken_only_after_silence(self) -> None:
        world = trained("m")
        world.submit(sweep("second", stop=2, uneven=True))
        long, other = of(world, "n/cpu0"), of(world, "m/cpu0")
        world.tell(result(world, other))
        world.tell(progress(world, long, world.state.sweeps["j2"].ledger.leased[long][0]))
        world.tell(inputs.LinkDown(node="n", why="cut"))
        world.tell(link_up("n", chunks=[long]), after_s=1.0)
        world.tell(inputs.Tick(), after_s=chunking.SILENT_S - 2)
        assert world.of(events.ChunkTaken) == []
        world.tell(inputs.Tick(), after_s=3 * chunking.SILENT_S)
        assert [each.chunk for each in world.of(events.ChunkTaken)] == [long]
        finish(world)

    def test_what_a_worker_has_parted_is_accepted_and_not_held_against_it(self) -> None:
        world = fleet()
        world.submit(sweep("first", stop=100, uneven=True, min_chunk=50))
        chunk, start, _ = world.chunk("j1")
        world.tell(world.returned(chunk, "parted", position=start + 8, hits=multiples(start, start + 8)))
        (back,) = world.of(events.ChunkReturned)
        assert (back.position, back.blame) == (start + 8, False)
        assert world.state.sweeps["j1"].hits == 2
        finish(world, "j1")


ACTIONS = ("done", "done as lent", "progress", "quiet", "down", "up", "died", "restarted", "parted")


@settings(max_examples=8, deadline=None)
@given(
    steps=st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(0, 5), st.integers(1, 100)), max_size=40),
    sizes=st.lists(st.integers(100, 200_000), min_size=1, max_size=2),
    uneven=st.booleans(),
)
def test_whatever_happens_everything_is_searched_exactly_once(
    steps: list[tuple[str, int, int]], sizes: list[int], uneven: bool
) -> None:
    nodes = ("n", "m", "o")
    world = trained("m", "o")
    retry = Retry(max_attempts={FailureClass.WORKER: 100})
    names = world.submit(
        *[
            sweep(f"s{place}", 0, size, kernel="k", target_s=1e9, retry=retry, uneven=uneven)
            for place, size in enumerate(sizes)
        ]
    )
    for action, which, amount in steps:
        leases = [chunk for name in names for chunk in world.state.sweeps[name].leases]
        if leases:
            act(world, action, leases[which % len(leases)], amount, nodes[which % 3])
    for name in nodes:
        if world.state.nodes[name].link is Link.DOWN:
            world.tell(link_up(name, chunks=world.state.devices[f"{name}/cpu0"].chunks))
    for name in names:
        finish(world, name)
    assert replayed(world.entries).state == world.state


def act(world: Driver, action: str, chunk: str, amount: int, where: str) -> None:
    held = world.state.sweeps[job_of(chunk)]
    start, stop = held.ledger.leased[chunk]
    position = start + (stop - start) * amount // 100
    match action:
        case "done":
            world.tell(result(world, chunk), after_s=0.3)
        case "done as lent":
            world.tell(result(world, chunk, held.leases[chunk].lent_stop), after_s=0.3)
        case "progress":
            world.tell(progress(world, chunk, position), after_s=1.0)
        case "quiet":
            world.tell(inputs.Tick(), after_s=float(amount))
        case "down":
            world.tell(inputs.LinkDown(node=where, why="cut"))
        case "up":
            world.tell(link_up(where, chunks=world.state.devices[f"{where}/cpu0"].chunks))
        case "died" | "restarted" | "parted":
            reason = {"died": "worker_died", "restarted": "agent_restarted"}.get(action, action)
            world.tell(world.returned(chunk, reason, position=position, hits=multiples(start, position)))
