"""What is told of partitions of which nothing can be made anew, or that somebody takes."""

from __future__ import annotations

import contextlib
import dataclasses
from types import SimpleNamespace
from typing import Any, cast

import pytest

from connect_runtime.base import errors, ids
from mm2.app.looks import workers
from mm2.app.offsets import rebuilding
from mm2.connectors.share import flow_ledger
from mm2.core.copy import match_messages
from mm2.core.offsets import matched_runs, offset_map, rebuild_plan, rebuilt_map
from mm2.formats import map_record
from tests.fakes import admin, copied_map, flow_log, logs, plugin_contexts, taking

PLACE = copied_map.T7


class Questions:
    """To a mirror whose log begins there."""

    def __init__(self, start: int) -> None:
        self.start = start

    def leader(self, topic: str, partition: int) -> int:
        return 1

    def ask(self, to: object, message: object) -> Any:
        found = SimpleNamespace(error_code=0, offset=self.start)
        return SimpleNamespace(topics=[SimpleNamespace(partitions=[found])])


def looking(questions: Any, **more: Any) -> rebuilding.Rebuilding:
    """At one partition of which nothing is known, 3 records of it on the source."""
    source = SimpleNamespace(logs=logs.FakeLogs({PLACE: logs.FakeLog(times_ms=[1_000] * 3)}))
    given: dict[str, Any] = {
        "clock": plugin_contexts.Clock(),
        "timeout_s": 60.0,
        "tell": lambda line: None,
        "all_differ": False,
        "questions": lambda: contextlib.nullcontext(questions),
        "both": SimpleNamespace(source=source),
    }
    run = rebuilding.Rebuilding(cast(Any, SimpleNamespace(**given | more)), writes=False)
    run._setups[PLACE] = taking.where()
    run._kinds[PLACE] = rebuild_plan.Wanted(kind=rebuild_plan.Kind.LOST)
    return run


@pytest.mark.parametrize(("start", "well"), [(0, True), (40, False)])
def test_a_mirror_from_which_all_was_deleted_is_not_one_that_never_held_anything(start, well):
    run = looking(Questions(start))
    (bounds,) = run._bounds([PLACE])
    run._compared(match_messages.Compared(partition=bounds.partition, source=3))
    found = run.found[PLACE]
    assert (found.is_well, "mm2 topic reset" in found.why) == (well, not well)


@pytest.mark.parametrize("all_differ", [False, True])
def test_where_copies_of_equal_records_may_be_there_it_says_what_would_settle_it(all_differ):
    run = looking(Questions(0), all_differ=all_differ)
    run._compared(match_messages.Compared(partition=PLACE, source=3, target=2))
    assert ("--all-differ" in run.found[PLACE].why) != all_differ


def test_one_partition_that_cannot_be_asked_stands_in_nobodys_way():
    class Silent(Questions):
        def leader(self, topic: str, partition: int) -> int:
            raise errors.RetriableError("it has no leader")

    other = ids.TopicPartition(PLACE.topic, PLACE.partition + 1)
    both_logs = {each: logs.FakeLog(times_ms=[1_000] * 9) for each in (PLACE, other)}
    source = SimpleNamespace(logs=logs.FakeLogs(both_logs))
    run = looking(Silent(0), both=SimpleNamespace(source=source))
    run._setups[other] = taking.where()
    run._kinds[other] = rebuild_plan.Wanted(kind=rebuild_plan.Kind.BEFORE, source_to=2, target_to=1)
    found = run._bounds([PLACE, other])
    assert [(each.partition, each.source_to, each.target_to) for each in found] == [(other, 2, 1)]
    assert "it has no leader" in run.found[PLACE].why


def test_who_wrote_for_a_flow_back_is_read_once_and_after_the_ends_of_the_source():
    asked: list[str] = []

    class Ends(logs.FakeLogs):
        def ends(self, partitions: Any, timeout_s: float) -> Any:
            asked.append("ends")
            return super().ends(partitions, timeout_s)

    def opposite() -> Any:
        asked.append("opposite")
        return SimpleNamespace(partition=lambda place: SimpleNamespace(producers={41: place}))

    ends = Ends({PLACE: logs.FakeLog(times_ms=[1_000] * 3)})
    both = SimpleNamespace(source=SimpleNamespace(logs=ends))
    run = looking(Questions(0), both=both, opposite=opposite)
    run._setups[PLACE] = dataclasses.replace(taking.where(), opposite_map="mm2-offset-map")
    (bounds,) = run._bounds([PLACE])
    assert (bounds.source_to, bounds.opposite, asked) == (3, frozenset({41}), ["ends", "opposite"])


MATCHED = matched_runs.Matched(
    first_source=0,
    first_target=0,
    stretches=(matched_runs.Stretch(0, 5, 5, ((0, 0),)),),
    matched=5,
    unsure=0,
    tail=0,
    writers=(7,),
)


class Ledger(flow_ledger.FlowLedger):
    """Before the map is read for the second time, `between` is appended by somebody else."""

    reads = 0
    between: tuple[rebuilt_map.Record, ...] = ()

    def catch_up(self, timeout_s: float = 1.0) -> offset_map.OffsetMap:
        self.reads += 1
        known = super().catch_up(timeout_s)
        if self.reads == 2:
            for key, value in self.between:
                known.apply(map_record.encode_key(key), map_record.encode_value(value))
        return known


def storing(monkeypatch: pytest.MonkeyPatch, *, hosts=(), between=()) -> rebuilding.Rebuilding:
    """One that has fenced and compared the partition."""
    log = flow_log.FakeFlowLog(admin.FakeCluster(), source_alias="east")
    ledger = Ledger(log)
    ledger.between = between
    ledger.open(5.0)
    monkeypatch.setattr(workers, "look", lambda *_, **__: SimpleNamespace(hosts=hosts))
    both = SimpleNamespace(target=None, flow=SimpleNamespace(name="east->west", target="west"))
    tools: Any = SimpleNamespace(
        clock=plugin_contexts.Clock(),
        timeout_s=60.0,
        tell=lambda line: None,
        ledger=ledger,
        both=both,
        worker_props={},
        reaching=SimpleNamespace(transforms={}),
    )
    run = rebuilding.Rebuilding(tools, writes=True)
    run._setups[PLACE] = taking.where()
    run._kinds[PLACE] = rebuild_plan.Wanted(kind=rebuild_plan.Kind.LOST)
    by = rebuilt_map.Fenced(producer_id=40, epoch=6, marker=5, leader_epoch=0)
    run._fences[PLACE] = by
    return run


COMPARED = match_messages.Compared(partition=PLACE, matched=MATCHED, source=5, target=5)


def test_what_was_stored_stands(monkeypatch):
    run = storing(monkeypatch)
    run._compared(COMPARED)
    assert (run.found[PLACE].stored, run.found[PLACE].why) == (4, "")


def test_a_flow_that_was_started_while_logs_were_compared_is_left_alone(monkeypatch):
    run = storing(monkeypatch, hosts=("here",))
    with pytest.raises(rebuilding.FlowRunsError):
        run._compared(COMPARED)
    assert run._tools.ledger.catch_up(5.0).partition(PLACE).begun == {}


def test_a_flow_of_which_nobody_tells_whether_it_runs_is_left_alone(monkeypatch):
    run = storing(monkeypatch, hosts=None)
    with pytest.raises(errors.RetriableError, match="anybody runs flow east->west is not told"):
        run._compared(COMPARED)
    assert run._tools.ledger.catch_up(5.0).partition(PLACE).begun == {}


def test_what_somebody_newer_wrote_meanwhile_is_told(monkeypatch):
    other = rebuilt_map.lost(
        PLACE,
        MATCHED,
        copied_map.era_of(0, 0),
        by=rebuilt_map.Fenced(producer_id=40, epoch=7, marker=5, leader_epoch=0),
    )
    run = storing(monkeypatch, between=tuple(other))
    run._compared(COMPARED)
    assert "somebody has taken it" in run.found[PLACE].why
