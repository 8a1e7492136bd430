"""Who keeps maps within bounds: when, of which partitions, and how much at a time."""

from __future__ import annotations

import random

import pytest

from mm2.connectors import offset_map_compactor
from mm2.connectors.flow_state_store import FlowStateStore, TaskStateStore
from mm2.connectors.offset_map_compactor import MapCompactor
from mm2.copier.progress_reports import PartitionProgressReport
from mm2.formats import offset_map_records
from mm2.kafka.flow_state_log_writer import UnacknowledgedRecordLimits
from mm2.offsets.offset_map import OffsetMap, PartitionMap
from mm2.topics import replication_policy
from tests.fakes import copied_map, taking
from tests.fakes.admin import FakeCluster
from tests.fakes.flow_log import FakeFlowStateLog
from tests.fakes.plugin_contexts import Clock

HERE = copied_map.T7
WHERE = taking.where(topic=HERE.topic, partition=HERE.partition)
OWNERS = [(0, [(2, 1, 2, True)] * 200), (2, [(1, 0, 1, True), (0, 2, 1, True)] * 15)]


def gauge(phase="copying", log_start=0):
    return PartitionProgressReport(
        index=0,
        phase=phase,
        records=0,
        bytes=0,
        copied_to=0,
        source_end=0,
        log_start=log_start,
        age_ms=0,
        oldest_uncopied_ms=-1,
        transactional=False,
        reason="",
        cause="",
    )


class Kept:
    """A store with the map of one partition, and its keeper."""

    def __init__(self, *, budget: int = 1 << 20, pending: int = 1000) -> None:
        self.cluster = FakeCluster()
        self.clock = Clock()
        bounds = UnacknowledgedRecordLimits(records=pending, bytes=1 << 20)
        self.store = TaskStateStore(
            FlowStateStore(
                FakeFlowStateLog(self.cluster, source_alias="A", bounds=bounds), partitions=[HERE]
            ),
            clock=self.clock,
            random=random.Random(1),
        )
        self.store.open_or_read_store()
        self.log = self.cluster.topics[replication_policy.format_offset_map_topic("A")].log
        self.held = copied_map.history(OWNERS).known.get_partition(HERE)
        records = [*self.held.era_records.items(), *self.held.segments.items()]
        self.log += [
            (offset_map_records.encode_map_key(k), offset_map_records.encode_map_value(v))
            for k, v in records
        ]
        self.given = len(self.log)
        self.keeper = MapCompactor(
            self.store, budget_bytes=budget, clock=self.clock, random=random.Random(1)
        )

    def turn(self, after_s: float = offset_map_compactor.STEP_INTERVAL_S) -> int:
        """How many records were written in it."""
        before = len(self.log)
        self.clock.now += after_s
        self.keeper.run_once(self.clock.now)
        self.store.run_once()
        return len(self.log) - before

    def round(self) -> int:
        self.turn(offset_map_compactor.COMPACTION_INTERVAL_S)
        for _ in range(30):
            self.turn()
        return len(self.log) - self.given

    @property
    def now(self) -> PartitionMap:
        known = OffsetMap()
        for key, value in self.log:
            known.apply_record(key, value)
        return known.get_partition(HERE)


def test_what_the_source_no_longer_has_goes_from_its_map():
    made = Kept()
    made.keeper.record_progress_report(WHERE, gauge(log_start=600))
    assert made.round() > 5
    assert len(made.now.segments) < len(made.held.segments)
    assert made.now.resume_point == made.held.resume_point
    written = len(made.log)
    made.round()
    assert len(made.log) == written, "once is enough"


def test_what_outgrows_its_budget_is_thinned_and_said(caplog):
    caplog.set_level("INFO")
    made = Kept(budget=2000)
    made.keeper.record_progress_report(WHERE, gauge())
    made.round()
    made.round()
    lines = [each.getMessage() for each in caplog.records if "outgrew 2000" in each.getMessage()]
    assert len(made.now.segments) < len(made.held.segments)
    assert len(lines) <= 1


@pytest.mark.parametrize("phase", ["waiting", "acquiring", "halted", "fenced"])
def test_a_partition_that_is_not_copied_is_let_alone(phase):
    made = Kept()
    made.keeper.record_progress_report(WHERE, gauge(log_start=600))
    made.keeper.record_progress_report(WHERE, gauge(phase, log_start=600))
    assert made.round() == 0


def test_of_a_copy_that_has_ended_nothing_is_touched():
    made = Kept()
    made.keeper.record_progress_report(WHERE, gauge(log_start=600))
    made.keeper.clear_partitions()
    assert made.round() == 0


def test_a_step_is_small_and_the_next_follows_soon(monkeypatch):
    monkeypatch.setattr(offset_map_compactor, "MAX_CHANGES_PER_STEP", 3)
    made = Kept()
    made.keeper.record_progress_report(WHERE, gauge(log_start=600))
    assert made.turn(offset_map_compactor.COMPACTION_INTERVAL_S) == 3
    assert made.turn(0.1) == 0
    assert made.turn() == 3


def test_what_is_not_stored_yet_is_waited_for():
    made = Kept()
    made.keeper.record_progress_report(WHERE, gauge(log_start=600))
    made.clock.now += offset_map_compactor.COMPACTION_INTERVAL_S
    made.keeper.run_once(made.clock.now)
    assert made.store.store.is_busy
    made.cluster.away = True
    assert made.turn() == 0
    made.cluster.away = False
    made.store.run_once()
    assert len(made.log) > made.given


def test_without_room_for_all_none_overtakes_the_one_that_was_not_taken():
    made = Kept(pending=2)
    made.keeper.record_progress_report(WHERE, gauge(log_start=600))
    assert made.turn(offset_map_compactor.COMPACTION_INTERVAL_S) == 2
    gone = [
        offset_map_records.decode_map_key(key).first_source for key, _ in made.log[made.given :]
    ]
    firsts = sorted(each.first_source for each in made.held.segments)
    assert gone == firsts[:2]
    assert made.round() > 2
