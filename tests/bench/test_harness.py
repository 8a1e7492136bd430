"""The whole benchmark with next to no data: does it still work? It judges no figure."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from tests.bench import (
    contestants,
    follow_report,
    following,
    rebalancing,
    recovery,
    report,
    rereading,
    results,
    rows,
    run,
    starting,
)
from tests.bench.benchmark import Options
from tests.bench.faulty_mirror import FaultyMirror
from tests.bench.rebalancing import Change
from tests.bench.recorded import Recorded
from tests.bench.results import Results
from tests.bench.rows import Following, Recovering, Rereading, Starting

pytestmark = [pytest.mark.system, pytest.mark.full, pytest.mark.timeout(1500)]


def test_every_contestant_copies_everything_and_is_measured(tmp_path: Path):
    options = Options(
        rows=rows.of_size(5)[:1],
        rounds=1,
        latency_s=1.0,
        contestants=contestants.ALL,
        warm_up_s=1.0,
    )
    done = run.run(options, tmp_path, tmp_path / "figures.json")
    measured = done.measured
    assert measured.faults() == []
    keys = {each.key for each in contestants.ALL}
    assert {each.contestant for each in measured.copies} == keys | {results.RELAY}
    assert {each.contestant for each in measured.trickles} == keys | {results.ONE_HOP}
    for copied in measured.copies:
        assert copied.peak_bytes is not None, copied
        assert copied.contestant == results.RELAY or copied.first_s is not None, copied
    read = Recorded.from_json((tmp_path / "figures.json").read_text())
    assert read == done
    assert report.BEGIN in report.insert(
        f"{report.BEGIN}{report.END}", report.brief(read.setting, read.measured)
    )


def test_starts_are_measured_cold_and_warm(tmp_path: Path):
    measured = Results()
    who = [contestants.MM2_INLINE]
    starting.run(Starting(), who=who, rounds=1, measured=measured, folder=tmp_path, say=print)
    assert measured.faults() == []
    assert [each.kind for each in measured.starts] == list(results.START_KINDS)
    assert all(0 < (each.first_s or 0) <= (each.all_s or 0) for each in measured.starts)


def test_a_start_with_a_mistake_is_no_start(tmp_path: Path):
    said = {
        "none": "",
        "doubles": "1 records doubled",
        "makes-up": "1 records that the source has not",
        "loses": "no sign of every record within 20 s",
    }
    measured = Results()
    starting.run(
        Starting(limit_s=20.0),
        who=[FaultyMirror(mistake=each, key=each) for each in said],
        rounds=1,
        measured=measured,
        folder=tmp_path,
        say=print,
    )
    cold = {each.contestant: each.fault for each in measured.starts if each.kind == "cold"}
    assert cold.keys() == said.keys()
    for mistake, words in said.items():
        assert cold[mistake].startswith(words), cold
        assert bool(cold[mistake]) is bool(words), cold


def test_a_node_is_killed_and_what_it_had_moves_again(tmp_path: Path):
    measured = Results()
    recovery.run(
        Recovering(),
        keys=[recovery.OURS_INLINE],
        rounds=1,
        measured=measured,
        folder=tmp_path,
        say=print,
        settings=[recovery.EQUAL],
    )
    assert measured.faults() == []
    (found,) = measured.recoveries
    assert found.doubled == 0
    assert 0 < (found.stood or 0) < Recovering().partitions
    assert (found.again_s or 0) > 5.0, "a session lasts ten seconds"


def test_groups_are_followed_and_what_they_read_again_is_counted(tmp_path: Path):
    measured = Results()
    following.run(
        Following(groups=30, partitions=3),
        who=[following.OURS],
        rounds=1,
        measured=measured,
        folder=tmp_path,
        say=print,
    )
    rereading.run(
        Rereading(records=1_000, groups=5),
        who=[rereading.OURS],
        rounds=1,
        measured=measured,
        folder=tmp_path,
        say=print,
    )
    assert measured.faults() == []
    (followed,) = measured.followings
    assert 0 < (followed.one_s or 0.0) < 60.0
    assert [each.case for each in measured.rereadings] == list(follow_report.CASES)
    assert [each.total for each in measured.rereadings] == [0.0] * len(follow_report.CASES)


def test_groups_that_nobody_writes_are_a_fault(tmp_path: Path):
    tuning = {**following.JAVA.tuning, "sync.group.offsets.enabled": "false"}
    idle = dataclasses.replace(
        following.OURS, like=dataclasses.replace(following.JAVA, tuning=tuning)
    )
    measured = Results()
    following.run(
        Following(groups=5, partitions=2, limit_s=60.0),
        who=[idle],
        rounds=1,
        measured=measured,
        folder=tmp_path,
        say=print,
    )
    (fault,) = measured.faults()
    assert "no sign of groups on the target" in fault


@pytest.mark.parametrize("key", [row.key for row in rows.of_size(1)[1:]])
def test_every_other_row_can_be_run_alone(tmp_path: Path, key: str):
    """Whether Java can mirror it in time is not ours to prove: with little data, ours alone."""
    (row,) = rows.chosen(rows.of_size(10), [key])
    options = Options(rows=[row], rounds=1, latency_s=0.0, contestants=[contestants.MM2_RUN])
    done = run.run(options, tmp_path)
    assert done.measured.faults() == []
    assert [each.topic for each in done.measured.copies] == [each.topic for each in row.workloads]
    assert all(produced.count > 0 for produced in done.setting.produced)


def test_groups_of_workers_come_and_go_and_are_measured(tmp_path: Path):
    """With few tasks, ours alone; that Java's can be watched alike `make bench` shows."""
    row = dataclasses.replace(rows.rebalancing(full=False), connectors=4, tasks_each=3)
    measured = Results()
    rebalancing.run(
        row,
        rounds=1,
        measured=measured,
        folder=tmp_path,
        say=print,
        kinds=[rebalancing.OURS],
    )
    assert measured.faults() == []
    assert [(each.setting, each.change) for each in measured.rebalances] == [
        ((12, setting.protocol, setting.delay_ms), change.value)
        for setting in rebalancing.settings(row)
        for change in Change
    ]
    assert all(each.stopped for each in measured.rebalances)
    waited_s = [each.all_run_s or 0.0 for each in measured.rebalances if each.change == "kill"]
    assert waited_s[-1] > row.default_delay_ms / 1000, "lost tasks rest"
