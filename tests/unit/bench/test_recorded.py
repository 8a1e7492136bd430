from __future__ import annotations

import dataclasses
import json

import pytest

from tests.bench import contestants, recorded, results, rows
from tests.bench.recorded import Recorded
from tests.bench.results import (
    Copy,
    Following,
    Rebalance,
    Recovery,
    Rereading,
    Results,
    Scraping,
    Start,
    Trickle,
)
from tests.bench.workloads import Produced, Workload

REBALANCE = Rebalance(
    contestant=results.CONNECT_OF["ours"],
    round=1,
    tasks=300,
    protocol="eager",
    delay_ms=0,
    change="add",
    all_run_s=2.5,
)


def run(*chosen: Workload, rounds: int = 3, groups: int = 0) -> Recorded:
    return Recorded(
        setting=recorded.setting_of(
            contestants.ALL,
            machine="2 cores of a machine",
            versions="Apache Kafka 4.3.1",
            rounds=rounds,
            latency_s=20.0,
            per_second=500.0,
            produced=[
                Produced(workload=each, records={0: 3, 1: 4}, batch_bytes_mean=173)
                for each in chosen
            ],
        ),
        measured=Results(
            copies=[
                Copy(contestant="java", topic=each.topic, round=1, peak_bytes=1e9)
                for each in chosen
            ],
            trickles=[Trickle(contestant="mm2", round=1, p50_ms=0.8)],
            rebalances=[REBALANCE] * groups,
            starts=[Start(contestant="mm2", kind="cold", round=1, first_s=4.5)] * groups,
            recoveries=[Recovery(contestant="java", setting="equal", round=1, again_s=11.5)]
            * groups,
            followings=[Following(contestant="java", round=1, groups=9, partitions=2, one_s=5.0)]
            * groups,
            rereadings=[Rereading(contestant="java", case="plain", round=1, total=7.0)] * groups,
            scrapings=[Scraping(path=results.BY_TOPIC, round=1, partitions=9)] * groups,
        ),
    )


WORKLOADS = [each for row in rows.of_size(1_000) for each in row.workloads]


def test_a_run_goes_into_a_file_and_back_whatever_its_workloads_are():
    one = run(*WORKLOADS, groups=1)
    assert Recorded.from_json(one.to_json()) == one


def test_rivals_are_the_others_and_none_where_ours_was_not_measured():
    assert run().setting.rivals == [
        each.key for each in contestants.ALL if each is not contestants.MM2_RUN
    ]
    alone = [each for each in contestants.ALL if each is not contestants.MM2_RUN]
    without = recorded.setting_of(
        alone, machine="m", versions="v", rounds=1, latency_s=0.0, per_second=1.0, produced=[]
    )
    assert without.rivals == []


def test_runs_are_joined_in_order():
    whole = recorded.joined([run(*WORKLOADS[2:], rounds=1), run(*WORKLOADS[:2])])
    assert whole.setting.rounds == 3
    assert [each.workload for each in whole.setting.produced] == WORKLOADS[2:] + WORKLOADS[:2]
    assert len(whole.measured.copies) == len(WORKLOADS)
    assert len(whole.measured.trickles) == 2


def test_groups_of_workers_are_joined_too_but_not_twice():
    whole = recorded.joined([run(WORKLOADS[0]), run(WORKLOADS[1], groups=1)])
    assert whole.measured.rebalances == [REBALANCE]
    assert len(whole.measured.starts) == len(whole.measured.recoveries) == 1
    assert len(whole.measured.followings) == len(whole.measured.rereadings) == 1
    assert len(whole.measured.scrapings) == 1
    with pytest.raises(
        ValueError, match="300 tasks, groups, records read again, recoveries, scrapes, starts"
    ):
        recorded.joined([run(WORKLOADS[0], groups=1), run(WORKLOADS[1], groups=1)])


def test_runs_that_make_no_common_table_are_refused():
    other = dataclasses.replace(run(WORKLOADS[1]).setting, machine="another")
    with pytest.raises(ValueError, match="differ in their machine"):
        recorded.joined(
            [
                run(WORKLOADS[0]),
                Recorded(setting=other, measured=Results()),
            ]
        )
    with pytest.raises(ValueError, match="more than one of these runs: big"):
        recorded.joined([run(WORKLOADS[0]), run(WORKLOADS[0])])


def test_another_version_s_file_is_refused():
    given = json.loads(run().to_json())
    with pytest.raises(ValueError, match="version 0 of a benchmark's file"):
        Recorded.from_json(json.dumps(given | {"version": 0}))
