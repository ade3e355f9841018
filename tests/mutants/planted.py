"""Defects planted by hand in the product: each breaks one promise of `docs/reliability.md`, and names the tests that
look after it."""

from __future__ import annotations

from collections.abc import Sequence

from hostler.model.record import record
from tests.mutants.places import Place


@record
class Planted:
    """A defect planted by hand."""

    name: str
    kind: str
    """What it breaks: durability, order, fencing, validation, limits, access or counting."""
    place: Place
    new: str
    tests: Sequence[str]


def _at(file: str, symbol: str, old: str) -> Place:
    return Place(file=file, symbol=symbol, old=old)


PLANTED = (
    Planted(
        name="sqlite-commits-without-fsync",
        kind="durability",
        place=_at("store/dialect.py", "", '"pragma synchronous = full"'),
        new='"pragma synchronous = off"',
        tests=["tests/store/test_private.py", "tests/store/test_postgres.py"],
    ),
    Planted(
        name="facts-acknowledged-before-the-commit",
        kind="durability",
        place=_at("runtime/link.py", "Link._post", "given=each) for each in given), done=done)"),
        new="given=each) for each in given))\n        if done is not None:\n            done(())",
        tests=["tests/runtime/test_link.py", "tests/integration/test_unwritable.py"],
    ),
    Planted(
        name="fetched-files-named-without-fsync",
        kind="durability",
        place=_at("backends/arriving.py", "_sync", "os.fsync(descriptor)"),
        new="pass",
        tests=["tests/test_durable_files.py", "tests/backends/test_arriving.py"],
    ),
    Planted(
        name="backup-named-without-fsync",
        kind="durability",
        place=_at("store/archive.py", "", "            os.fsync(file.fileno())\n"),
        new="",
        tests=["tests/store/test_archive.py", "tests/test_durable_files.py"],
    ),
    Planted(
        name="state-file-named-without-fsync",
        kind="durability",
        place=_at("runtime/statedir.py", "StateDir._publish", "                os.fsync(file.fileno())\n"),
        new="",
        tests=["tests/runtime/test_statedir.py", "tests/test_durable_files.py"],
    ),
    Planted(
        name="fetched-files-named-before-they-are-written-through",
        kind="order",
        place=_at("backends/arriving.py", "Disk.publish", "        self._sync_all(self._small)\n"),
        new="",
        tests=[
            "tests/backends/test_volumes.py",
            "tests/test_durable_files.py",
            "tests/backends/test_arriving.py",
        ],
    ),
    Planted(
        name="commands-before-the-commit",
        kind="order",
        place=_at("runtime/pump.py", "Pump._write", "        self._writer.write(batch, durable)"),
        new="        self._execute(outcome.commands)\n        self._writer.write(batch, durable)",
        tests=["tests/runtime/test_pump.py", "tests/runtime/test_controller.py"],
    ),
    Planted(
        name="answers-before-the-commit",
        kind="order",
        place=_at("runtime/pump.py", "Pump._write", "        self._writer.write(batch, durable)"),
        new="        self._writer.write(batch, lambda: None)\n        durable()",
        tests=["tests/runtime/test_pump.py", "tests/runtime/test_controller.py"],
    ),
    Planted(
        name="copies-not-read-before-the-last-deletion",
        kind="order",
        place=_at("runtime/disks/cleaning.py", "Cleaner._is_still_proved", "if file.sha256 is None:"),
        new="if True:",
        tests=["tests/runtime/disks"],
    ),
    Planted(
        name="torn-line-of-the-agent-not-cut",
        kind="order",
        place=_at("agent/journal.py", "Journal._cut_torn_line", "os.ftruncate(self._fd, end)"),
        new="pass",
        tests=["tests/agent/test_journal.py"],
    ),
    Planted(
        name="sqlite-fence-removed",
        kind="fencing",
        place=_at("store/leading.py", "hold_row", ".rowcount != 1"),
        new=".rowcount < 0",
        tests=["tests/store/test_compacting.py", "tests/store/test_journal.py", "tests/store/test_leading.py"],
    ),
    Planted(
        name="postgresql-fence-removed",
        kind="fencing",
        place=_at("store/leading.py", "", "where epoch = %s and controller = %s and id = %s"),
        new="where epoch >= %s - 9 and controller <> %s || 'x' and id = %s",
        tests=["tests/store/test_journal.py", "tests/store/test_leading.py", "tests/store/test_postgres.py"],
    ),
    Planted(
        name="agent-obeys-an-old-controller",
        kind="fencing",
        place=_at("agent/supervisor.py", "", "if epoch < self._epoch:"),
        new="if epoch < 0:",
        tests=["tests/agent/test_berth.py", "tests/agent/test_connection.py", "tests/agent/test_recovery.py"],
    ),
    Planted(
        name="inventory-of-another-agent-taken-for-the-known-one",
        kind="fencing",
        place=_at("core/intake.py", "_link_up", "node.agent in (None, given.agent)"),
        new="True",
        tests=["tests/core/test_nodes.py", "tests/core/test_restoring.py", "tests/core/loop/test_closing.py"],
    ),
    Planted(
        name="refused-data-tried-again",
        kind="validation",
        place=_at("runtime/writer.py", "Writer._commit", "(StoreFenced, StoreRefused)"),
        new="StoreFenced",
        tests=["tests/runtime/test_writer.py"],
    ),
    Planted(
        name="events-not-read-back",
        kind="validation",
        place=_at("model/readback.py", "readback_fault", "    shape = adapter(type(value))"),
        new="    return None\n    shape = adapter(type(value))",
        tests=["tests/core/test_readback.py"],
    ),
    Planted(
        name="checksums-not-compared",
        kind="validation",
        place=_at("store/checking.py", "_fault", "found != row.checksum"),
        new="found != found",
        tests=["tests/store/test_checking.py", "tests/runtime/test_repairing.py"],
    ),
    Planted(
        name="hash-of-fetched-files-not-compared",
        kind="validation",
        place=_at("backends/arriving.py", "verified", "found == told and wanted.sha256 in (None, found)"),
        new="found or told",
        tests=["tests/backends/test_carrier.py", "tests/backends/test_landing.py"],
    ),
    Planted(
        name="more-bytes-than-a-file-may-have",
        kind="limits",
        place=_at("backends/receiver.py", "misfit", "if size > most:"),
        new="if size < 0:",
        tests=["tests/backends/test_landing.py"],
    ),
    Planted(
        name="nodes-report-as-fast-as-they-like",
        kind="limits",
        place=_at("backends/bounds.py", "Pace.wait_s", "now - self._behind_since > BEHIND_S"),
        new="False",
        tests=["tests/backends/test_bounds.py"],
    ),
    Planted(
        name="lines-as-long-as-nodes-like",
        kind="limits",
        place=_at("backends/bounds.py", "expect_bearable", "len(line) > bounds.longest_line"),
        new="False",
        tests=["tests/backends/test_bounds.py", "tests/backends/test_facts.py"],
    ),
    Planted(
        name="faults-of-a-node-recorded-without-end",
        kind="limits",
        place=_at("core/conduct.py", "Conduct.records", "self.recorded >= FAULTS_MOST"),
        new="False",
        tests=["tests/core/test_reports.py"],
    ),
    Planted(
        name="attempts-of-other-nodes-ended",
        kind="access",
        place=_at("core/ownership.py", "_attempt_fault", "None if node in nodes"),
        new="None if nodes",
        tests=["tests/core/test_reports.py"],
    ),
    Planted(
        name="chunks-of-other-nodes-finished",
        kind="access",
        place=_at("core/ownership.py", "_chunk_fault", "None if owner == node"),
        new="None if owner",
        tests=["tests/core/test_reports.py"],
    ),
    Planted(
        name="every-scope-covers-every-other",
        kind="access",
        place=_at("model/access.py", "Scope.covers", "ranks.index(self) >= ranks.index(wanted)"),
        new="ranks.index(self) >= 0",
        tests=["tests/model/test_access.py", "tests/web/test_access.py"],
    ),
    Planted(
        name="token-good-for-ever",
        kind="access",
        place=_at("core/access/state.py", "", "at < self.expires_at"),
        new="at > 0",
        tests=["tests/core/test_access.py", "tests/web/test_access.py"],
    ),
    Planted(
        name="cookie-good-for-ever",
        kind="access",
        place=_at("web/sessions.py", "Sessions.found", "self._now() >= ends_at or "),
        new="",
        tests=["tests/web/test_session.py"],
    ),
    Planted(
        name="forms-of-other-sites-taken",
        kind="access",
        place=_at("web/guard.py", "", ' or not hmac.compare_digest((told or "").encode(), expected.encode())'),
        new="",
        tests=["tests/web/test_session.py", "tests/web/test_guard.py"],
    ),
    Planted(
        name="another-request-under-a-used-key",
        kind="access",
        place=_at("core/access/intake.py", "known_answer", "known.fingerprint != given.fingerprint"),
        new="False",
        tests=["tests/core/test_access.py"],
    ),
    Planted(
        name="second-end-of-an-attempt-judged-again",
        kind="counting",
        place=_at("core/intake.py", "_ended", "job.attempt.ended is not None"),
        new="False",
        tests=["tests/core/test_fetching.py", "tests/core/test_jobs.py"],
    ),
    Planted(
        name="late-result-of-a-chunk-counted",
        kind="counting",
        place=_at("core/intake.py", "_searched", "    if fault is not None:"),
        new="    if fault is None and not given.hits and given.elapsed_s < 0:",
        tests=["tests/core/test_sweeps.py", "tests/core/test_poison.py"],
    ),
    Planted(
        name="chunks-that-a-new-agent-lacks-stay-leased",
        kind="counting",
        place=_at("core/intake.py", "_link_up", '                _give_back(state, name, "node_lost", emit)\n'),
        new="",
        tests=["tests/core/test_nodes.py", "tests/core/test_sweeps.py"],
    ),
    Planted(
        name="ledger-settles-one-item-too-many",
        kind="counting",
        place=_at("core/ledger.py", "Ledger.settle", "_merge(self.done, (start, position))"),
        new="_merge(self.done, (start, min(position + 1, stop)))",
        tests=["tests/core/test_ledger.py"],
    ),
    Planted(
        name="one-copy-fewer-is-enough",
        kind="counting",
        place=_at("policy/retention.py", "", "if len(elsewhere) < (least"),
        new="if len(elsewhere) + 1 < (least",
        tests=["tests/policy/test_retention.py"],
    ),
    Planted(
        name="sprt-accepts-at-the-lower-bound",
        kind="counting",
        place=_at("learning/sprt.py", "", "if llr >= bounds[1]:"),
        new="if llr >= bounds[0]:",
        tests=["tests/learning/test_sprt.py"],
    ),
)
"""Taken from what a review of the product tried, and from kinds of the same."""
