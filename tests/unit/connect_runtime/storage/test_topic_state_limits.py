"""The records of the internal topics occupy a bounded amount of memory."""

from __future__ import annotations

import json
import logging
import tracemalloc

import pytest

from connect_runtime.storage import config_records, topic_state_limits
from connect_runtime.storage.config_store import ConfigBackingStore
from connect_runtime.storage.internal_topic_log import SharedLogRecord
from connect_runtime.storage.offset_store import LogOffsetBackingStore
from connect_runtime.storage.offset_topic import InvalidSourceOffset
from connect_runtime.storage.status_store import StatusBackingStore
from connect_runtime.storage.topic_state_limits import (
    RecordAdmission,
    TopicStateLimits,
    TopicStateSize,
)
from connect_runtime.system.system_clock import SystemClock

MIB = 1024 * 1024
OWN = ("MirrorSourceConnector", "MirrorHeartbeatConnector")
FLOW = topic_state_limits.build_fixed_connector_limits(OWN, with_offsets=OWN[:1])
GENERAL = topic_state_limits.CONNECT_WORKER_LIMITS
BIG = "a" * 900_000


class ReplayedLog:
    """A log whose records are created while they are read, so that only the store keeps them."""

    name = "replayed"

    def __init__(self, records):
        self.records = records

    def start(self, listener, timeout_s):
        for offset, (key, value) in enumerate(self.records):
            listener.on_record(
                SharedLogRecord(
                    topic="replayed", partition=0, offset=offset, key=key, value=value, wall_ms=1
                )
            )
        listener.on_replay_completed()

    def send(self, record, *, on_recorded):
        raise AssertionError("these tests only read")

    def read_to_end(self, timeout_s):
        pass

    def stop(self, timeout_s):
        pass


def store_configs(records, limits=FLOW):
    store = ConfigBackingStore(
        ReplayedLog(records), clock=SystemClock(), on_change=lambda _: None, limits=limits.configs
    )
    store.start(1.0)
    return store


def store_statuses(records, limits=FLOW):
    store = StatusBackingStore(ReplayedLog(records), clock=SystemClock(), limits=limits.statuses)
    store.start(1.0)
    return store


def store_offsets(records, limits=FLOW):
    store = LogOffsetBackingStore(ReplayedLog(records), limits=limits.offsets)
    store.start(1.0)
    return store


def status(**given):
    return json.dumps({"state": "FAILED", "worker_id": "w", "generation": 1, **given}).encode()


def config(properties):
    return json.dumps({"properties": properties}).encode()


def foreign_configs():
    return ((b"connector-x%d" % n, config({"p": BIG})) for n in range(1000))


def own_task_configs():
    return ((b"task-MirrorSourceConnector-%d" % n, config({"p": BIG})) for n in range(300))


def many_small_properties():
    text = {f"{n:x}": "" for n in range(60_000)}
    return ((b"task-MirrorSourceConnector-%d" % n, config(text)) for n in range(10))


def repeated_task_configs():
    for _ in range(20):
        for n in range(40):
            yield b"task-MirrorSourceConnector-%d" % n, config({"p": BIG})
        yield b"commit-MirrorSourceConnector", b'{"tasks":40}'


def own_traces():
    return ((b"status-task-MirrorSourceConnector-%d" % n, status(trace=BIG)) for n in range(300))


def own_worker_ids():
    return (
        (b"status-task-MirrorSourceConnector-%d" % n, status(worker_id=BIG)) for n in range(300)
    )


def offsets_of(connector, count=2000, value=BIG):
    return (
        (json.dumps([connector, {"p": n}]).encode(), json.dumps({"o": value}).encode())
        for n in range(count)
    )


@pytest.mark.parametrize(
    ("store", "records", "most"),
    [
        (store_configs, foreign_configs, 2 * MIB),
        (store_configs, own_task_configs, 80 * MIB),
        (store_configs, many_small_properties, 80 * MIB),
        (store_configs, repeated_task_configs, 230 * MIB),
        (store_statuses, own_traces, 80 * MIB),
        (store_statuses, own_worker_ids, 80 * MIB),
        (store_offsets, lambda: offsets_of("x"), 2 * MIB),
        (store_offsets, lambda: offsets_of(OWN[0]), 80 * MIB),
        (store_offsets, lambda: offsets_of(OWN[0], 90_000, "s"), 100 * MIB),
    ],
)
def test_the_memory_of_a_store_is_limited(store, records, most):
    logging.disable(logging.CRITICAL)
    tracemalloc.start()
    try:
        made = store(records())
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        logging.disable(logging.NOTSET)
    made.stop(0.1)
    assert kept < most, f"{kept / MIB:.0f} MiB"


def test_known_keys_continue_tombstones_free_room_and_one_error_is_logged():
    size = TopicStateSize(TopicStateLimits(bytes_max=10_000))
    for n in range(100):
        size.admit_record(b"k%d" % n, b"v" * 100)
    assert size.is_incomplete
    assert size.admit_record(b"k0", b"w" * 100) is RecordAdmission.APPLY
    assert size.admit_record(b"new", b"v") is RecordAdmission.NO_ROOM
    assert size.admit_record(b"k1", None) is RecordAdmission.APPLY
    assert size.admit_record(b"new", b"v") is RecordAdmission.APPLY
    size.check_invariants()


def test_an_incomplete_store_says_so_once_and_never_invents_a_missing_offset(caplog):
    limits = topic_state_limits.WorkerStateLimits(offsets=TopicStateLimits(bytes_max=10_000))
    store = store_offsets(offsets_of("c", 100, 1), limits)
    assert store.read_offsets("c", [{"p": 0}], 1.0) == [{"o": 1}]
    with pytest.raises(InvalidSourceOffset, match="unknown whether all partitions have offsets"):
        store.read_offsets("c", [{"p": 99}], 1.0)
    assert [each.levelname for each in caplog.records] == ["ERROR"]


def test_a_value_that_is_too_large_is_skipped_with_a_limited_number_of_warnings(caplog):
    store = store_offsets(offsets_of(OWN[0], 150, "a" * (MIB + 1)))
    assert store.connector_partitions(OWN[0], 1.0) == []
    assert len([each for each in caplog.records if each.levelname == "WARNING"]) == 100


def test_ignored_records_count_for_the_offset_of_the_configuration():
    own = config_records.encode_connector_creation(OWN[0], {"a": "b"}, None)
    store = store_configs([(each.key, each.value) for each in own] + list(foreign_configs())[:3])
    assert store.snapshot().connectors() == [OWN[0]]
    assert store.snapshot().offset == len(own) + 3
