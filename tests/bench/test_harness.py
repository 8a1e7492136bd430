"""The whole benchmark with next to no data: does it still work? It judges no figure."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from tests.bench import (
    benchmark,
    contestants,
    rebalancing,
    recorded,
    report,
    results,
    rows,
    run,
)

pytestmark = [pytest.mark.system, pytest.mark.full, pytest.mark.timeout(1500)]


def test_every_contestant_copies_everything_and_is_measured(tmp_path: Path):
    options = benchmark.Options(
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
    read = recorded.Recorded.from_json((tmp_path / "figures.json").read_text())
    assert read == done
    assert report.BEGIN in report.insert(
        f"{report.BEGIN}{report.END}", report.brief(read.setting, read.measured)
    )


@pytest.mark.parametrize("key", [row.key for row in rows.of_size(1)[1:]])
def test_every_other_row_can_be_run_alone(tmp_path: Path, key: str):
    """Whether Java can mirror it in time is not ours to prove: with little data, ours alone."""
    (row,) = rows.chosen(rows.of_size(10), [key])
    options = benchmark.Options(
        rows=[row], rounds=1, latency_s=0.0, contestants=[contestants.MM2_RUN]
    )
    done = run.run(options, tmp_path)
    assert done.measured.faults() == []
    assert [each.topic for each in done.measured.copies] == [each.topic for each in row.workloads]
    assert all(produced.count > 0 for produced in done.setting.produced)


def test_groups_of_workers_come_and_go_and_are_measured(tmp_path: Path):
    """With few tasks, ours alone; that Java's can be watched alike `make bench` shows."""
    row = dataclasses.replace(rows.rebalancing(full=False), connectors=4, tasks_each=3)
    measured = results.Results()
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
        for change in rebalancing.Change
    ]
    assert all(each.stopped for each in measured.rebalances)
    waited_s = [each.all_run_s or 0.0 for each in measured.rebalances if each.change == "kill"]
    assert waited_s[-1] > row.default_delay_ms / 1000, "lost tasks rest"
