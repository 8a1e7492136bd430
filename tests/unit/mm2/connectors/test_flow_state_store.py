"""A store that is opened, and opened again."""

from __future__ import annotations

import random
from collections.abc import Collection

import pytest

from connect_runtime.base.errors import RetriableError
from connect_runtime.base.ids import TopicPartition
from mm2 import suggested_commands
from mm2.connectors import flow_state_store
from mm2.connectors.flow_state_store import FlowStateStore, RecoveredStateRequest, TaskStateStore
from mm2.formats import offset_map_records
from mm2.formats.offset_map_records import MapSegmentKey
from mm2.kafka.kafka_client_interfaces import FlowStateLogBrokenError, StoredRecordHandler
from mm2.replication.recovery_instructions import RecoveredState
from mm2.topics import replication_policy
from tests.fakes.admin import FakeCluster
from tests.fakes.flow_log import FakeFlowStateLog
from tests.fakes.plugin_contexts import Clock

T0 = TopicPartition("orders", 0)


class Kept:
    def __init__(self, share: Collection[TopicPartition] = (T0,)) -> None:
        self.cluster = FakeCluster()
        self.clock = Clock()
        self.log = FakeFlowStateLog(self.cluster, source_alias="A")
        self.kept = TaskStateStore(
            FlowStateStore(self.log, partitions=share),
            clock=self.clock,
            random=random.Random(1),
        )

    def tend(self, after_s: float = 0.0) -> bool:
        self.clock.now += after_s
        self.kept.open_or_read_store()
        return self.kept.is_ready


def test_it_is_opened_and_read():
    made = Kept()
    assert not made.kept.is_ready
    assert made.kept.unavailable_reason
    assert made.tend()
    assert made.kept.unavailable_reason == ""
    assert made.kept.read_offset_map() is not None


def test_while_the_target_is_away_it_is_tried_again_later(caplog):
    made = Kept()
    made.cluster.away = True
    assert not made.tend()
    assert flow_state_store.LEDGER_UNAVAILABLE in made.kept.unavailable_reason
    made.cluster.away = False
    assert not made.tend(), "not at once"
    assert made.tend(60.0)
    assert len(caplog.records) >= 1


def test_a_topic_that_must_not_be_used_is_waited_for_with_its_remedy(caplog):
    made = Kept()
    name = replication_policy.format_offset_map_topic("A")
    made.cluster.create(name, partitions=2, cleanup_policy="compact")
    assert not made.tend()
    assert suggested_commands.extract_remedy_from_message(made.kept.unavailable_reason).endswith(
        f"--delete --topic {name}"
    )
    assert suggested_commands.extract_remedy_from_message(caplog.messages[-1]).endswith(
        f"--delete --topic {name}"
    )
    del made.cluster.topics[name]
    assert made.tend(60.0)


def test_what_broke_is_opened_anew():
    made = Kept()
    made.tend()
    made.kept.mark_broken(FlowStateLogBrokenError("an append failed"))
    assert not made.kept.is_ready
    assert "an append failed" in made.kept.unavailable_reason
    assert made.tend(60.0)


def test_what_is_not_stored_when_it_closes_is_no_trouble(caplog):
    made = Kept()
    made.tend()
    made.kept.close(0.0)
    with caplog.at_level("INFO"):
        for _ in range(5):
            made.kept.mark_broken(FlowStateLogBrokenError("closed before 5 were stored"))
    (line,) = caplog.records
    assert line.levelname == "INFO"
    assert "closed before 5" in line.getMessage()


def segment(number: int) -> bytes:
    """The key of one that a newer release wrote, of a partition of orders."""
    key = MapSegmentKey(topic="orders", partition=number, era=1, ordinal=1, epoch=0, first_source=0)
    return offset_map_records.encode_map_key(key)


def ask(made: Kept, number: int, *, topic: str = "orders") -> RecoveredState:
    told: list[tuple[RecoveredState | None, str]] = []
    wanted = RecoveredStateRequest(
        partition=TopicPartition(topic, number),
        target=None,
        answer=lambda *answer: told.append(answer),
    )
    made.kept.store.request_recovered_state(wanted)
    made.kept.run_once()
    ((found, failure),) = told
    assert failure == ""
    assert found is not None
    return found


def test_a_record_that_nobody_can_read_concerns_all_partitions_until_it_is_replaced():
    made = Kept()
    log = made.cluster.create(
        replication_policy.format_offset_map_topic("A"), cleanup_policy="compact"
    ).log
    log.append((b"\x01\x03garbage", b"\x01\x02"))
    assert made.tend()
    for _ in range(2):
        found = ask(made, 0).unreadable
        assert found is not None
        assert (found.offset, found.why) == (0, "string of 26465 bytes is truncated after 5 bytes")
    log.append((b"\x01\x03garbage", None))
    assert ask(made, 0) == RecoveredState()


@pytest.mark.parametrize("value", [b"", b"\x63newer", b"\x01cut"])
def test_one_whose_partition_can_be_read_concerns_its_topic(value):
    made = Kept(share=[T0, TopicPartition("orders", 1), TopicPartition("users", 0)])
    log = made.cluster.create(
        replication_policy.format_offset_map_topic("A"), cleanup_policy="compact"
    ).log
    log.append((segment(1), value))
    assert made.tend()
    assert ask(made, 0, topic="users") == RecoveredState()
    assert ask(made, 0).unreadable is not None
    assert ask(made, 1).unreadable is not None
    log.append((segment(1), None))
    assert ask(made, 1) == RecoveredState()


def test_reading_that_takes_too_long_breaks_nothing(monkeypatch):
    made = Kept()
    made.tend()

    def late(timeout_s: float, take: StoredRecordHandler) -> None:
        raise RetriableError("not in time")

    monkeypatch.setattr(made.log, "read_to_end", late)
    assert made.kept.read_offset_map() is None
    assert made.kept.is_ready
