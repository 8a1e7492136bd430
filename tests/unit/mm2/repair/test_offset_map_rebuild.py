"""What is told of partitions of which nothing can be recreated, or that somebody takes."""

from __future__ import annotations

import contextlib
import dataclasses
from types import SimpleNamespace
from typing import Any, cast

import pytest

from connect_runtime.base.errors import RetriableError
from connect_runtime.base.ids import TopicPartition
from mm2.clusters import connect_group_state
from mm2.connectors.flow_state_store import FlowStateStore
from mm2.copier.partition_log_comparison_messages import LogCompareResult
from mm2.formats import offset_map_records
from mm2.offsets import offset_map_rebuild_plan
from mm2.offsets.offset_map import OffsetMap
from mm2.offsets.offset_map_rebuild_plan import (
    FencingProducer,
    MapRecord,
    RebuildPlan,
    RebuildScope,
)
from mm2.offsets.partition_log_alignment import AlignedRange, LogAlignment
from mm2.repair.offset_map_rebuild import FlowRunningError, MapRebuild
from tests.fakes import copied_map, taking
from tests.fakes.admin import FakeCluster
from tests.fakes.flow_log import FakeFlowStateLog
from tests.fakes.logs import FakeLog, FakeLogs
from tests.fakes.plugin_contexts import Clock

PLACE = copied_map.T7


class Questions:
    """To a mirror whose log begins there."""

    def __init__(self, start: int) -> None:
        self.start = start

    def find_leader(self, topic: str, partition: int) -> int:
        return 1

    def send_request(self, to: object, message: object) -> Any:
        found = SimpleNamespace(error_code=0, offset=self.start)
        return SimpleNamespace(topics=[SimpleNamespace(partitions=[found])])


def looking(questions: Any, **more: Any) -> MapRebuild:
    """At one partition of which nothing is known, 3 records of it on the source."""
    source = SimpleNamespace(logs=FakeLogs({PLACE: FakeLog(times_ms=[1_000] * 3)}))
    given: dict[str, Any] = {
        "clock": Clock(),
        "timeout_s": 60.0,
        "print_line": lambda line: None,
        "all_differ": False,
        "connect": lambda: contextlib.nullcontext(questions),
        "pair": SimpleNamespace(source=source),
    }
    run = MapRebuild(cast(Any, SimpleNamespace(**given | more)), writes=False)
    run._setups[PLACE] = taking.where()
    run._plans[PLACE] = RebuildPlan(kind=RebuildScope.LOST)
    return run


@pytest.mark.parametrize(("start", "well"), [(0, True), (40, False)])
def test_a_mirror_from_which_all_was_deleted_is_not_one_that_never_held_anything(start, well):
    run = looking(Questions(start))
    (bounds,) = run._determine_log_ranges_to_compare([PLACE])
    run._handle_comparison_result(LogCompareResult(partition=bounds.partition, source_records=3))
    found = run.results[PLACE]
    assert (found.is_complete, "mm2 topic reset" in found.reason) == (well, not well)


@pytest.mark.parametrize("all_differ", [False, True])
def test_where_copies_of_equal_records_may_be_there_it_says_what_would_settle_it(all_differ):
    run = looking(Questions(0), all_differ=all_differ)
    run._handle_comparison_result(
        LogCompareResult(partition=PLACE, source_records=3, target_records=2)
    )
    assert ("--all-differ" in run.results[PLACE].reason) != all_differ


def test_one_partition_that_cannot_be_asked_stands_in_nobodys_way():
    class Silent(Questions):
        def find_leader(self, topic: str, partition: int) -> int:
            raise RetriableError("it has no leader")

    other = TopicPartition(PLACE.topic, PLACE.partition + 1)
    both_logs = {each: FakeLog(times_ms=[1_000] * 9) for each in (PLACE, other)}
    source = SimpleNamespace(logs=FakeLogs(both_logs))
    run = looking(Silent(0), pair=SimpleNamespace(source=source))
    run._setups[other] = taking.where()
    run._plans[other] = RebuildPlan(kind=RebuildScope.BEFORE, source_to=2, target_to=1)
    found = run._determine_log_ranges_to_compare([PLACE, other])
    assert [(each.partition, each.source_end, each.target_end) for each in found] == [(other, 2, 1)]
    assert "it has no leader" in run.results[PLACE].reason


def test_who_wrote_for_a_flow_back_is_read_once_and_after_the_ends_of_the_source():
    asked: list[str] = []

    class Ends(FakeLogs):
        def fetch_log_bounds(self, partitions: Any, timeout_s: float) -> Any:
            asked.append("ends")
            return super().fetch_log_bounds(partitions, timeout_s)

    def opposite() -> Any:
        asked.append("opposite")
        return SimpleNamespace(get_partition=lambda place: SimpleNamespace(producers={41: place}))

    ends = Ends({PLACE: FakeLog(times_ms=[1_000] * 3)})
    both = SimpleNamespace(source=SimpleNamespace(logs=ends))
    run = looking(Questions(0), pair=both, read_reverse_map=opposite)
    run._setups[PLACE] = dataclasses.replace(taking.where(), opposite_map="mm2-offset-map")
    (bounds,) = run._determine_log_ranges_to_compare([PLACE])
    assert (bounds.source_end, bounds.reverse_producers, asked) == (
        3,
        frozenset({41}),
        ["ends", "opposite"],
    )


MATCHED = LogAlignment(
    first_source=0,
    first_target=0,
    ranges=(AlignedRange(0, 5, 5, ((0, 0),)),),
    matched_offsets=5,
    bounded_offsets=0,
    unmatched_tail=0,
    producer_ids=(7,),
)


class Ledger(FlowStateStore):
    """Before the map is read for the second time, `between` is appended by somebody else."""

    reads = 0
    between: tuple[MapRecord, ...] = ()

    def read_offset_map_to_end(self, timeout_s: float = 1.0) -> OffsetMap:
        self.reads += 1
        known = super().read_offset_map_to_end(timeout_s)
        if self.reads == 2:
            for key, value in self.between:
                known.apply_record(
                    offset_map_records.encode_map_key(key),
                    offset_map_records.encode_map_value(value),
                )
        return known


def storing(monkeypatch: pytest.MonkeyPatch, *, hosts=(), between=()) -> MapRebuild:
    """One that has fenced and compared the partition."""
    log = FakeFlowStateLog(FakeCluster(), source_alias="east")
    store = Ledger(log)
    store.between = between
    store.open(5.0)
    monkeypatch.setattr(
        connect_group_state, "read_connect_group", lambda *_, **__: SimpleNamespace(hosts=hosts)
    )
    both = SimpleNamespace(target=None, flow=SimpleNamespace(name="east->west", target="west"))
    tools: Any = SimpleNamespace(
        clock=Clock(),
        timeout_s=60.0,
        print_line=lambda line: None,
        store=store,
        pair=both,
        worker_props={},
        copy_config=SimpleNamespace(transforms={}),
    )
    run = MapRebuild(tools, writes=True)
    run._setups[PLACE] = taking.where()
    run._plans[PLACE] = RebuildPlan(kind=RebuildScope.LOST)
    by = FencingProducer(producer_id=40, epoch=6, marker=5, leader_epoch=0)
    run._fences[PLACE] = by
    return run


COMPARED = LogCompareResult(partition=PLACE, alignment=MATCHED, source_records=5, target_records=5)


def test_what_was_stored_stands(monkeypatch):
    run = storing(monkeypatch)
    run._handle_comparison_result(COMPARED)
    assert (run.results[PLACE].stored, run.results[PLACE].reason) == (4, "")


def test_a_flow_that_was_started_while_logs_were_compared_is_left_alone(monkeypatch):
    run = storing(monkeypatch, hosts=("here",))
    with pytest.raises(FlowRunningError):
        run._handle_comparison_result(COMPARED)
    assert run._tools.store.read_offset_map_to_end(5.0).get_partition(PLACE).era_records == {}


def test_a_flow_of_which_nobody_tells_whether_it_runs_is_left_alone(monkeypatch):
    run = storing(monkeypatch, hosts=None)
    with pytest.raises(
        RetriableError, match="west does not report whether flow east->west is running"
    ):
        run._handle_comparison_result(COMPARED)
    assert run._tools.store.read_offset_map_to_end(5.0).get_partition(PLACE).era_records == {}


def test_what_somebody_newer_wrote_meanwhile_is_told(monkeypatch):
    other = offset_map_rebuild_plan.rebuild_lost_map(
        PLACE,
        MATCHED,
        copied_map.era_of(0, 0),
        fencing_owner=FencingProducer(producer_id=40, epoch=7, marker=5, leader_epoch=0),
    )
    run = storing(monkeypatch, between=tuple(other))
    run._handle_comparison_result(COMPARED)
    assert "another process has acquired the partition" in run.results[PLACE].reason
