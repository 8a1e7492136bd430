from __future__ import annotations

import dataclasses

import pytest

from connect_runtime.base.ids import ConnectorTaskId
from connect_runtime.storage import java_hash_map_json, status_records
from connect_runtime.storage.config_records import InvalidRecord, KeyedRecord
from connect_runtime.storage.status_records import (
    RunState,
    RunStatus,
    TopicStatus,
    TopicStatusKey,
)

RUNNING = RunStatus(state=RunState.RUNNING, worker_id="h:8083", generation=7, version="4.3.1")
FAILED = RunStatus(state=RunState.FAILED, worker_id="h:8083", generation=7, trace='a\n\t"b"')
TASK = ConnectorTaskId("a-b", 3)


@pytest.mark.parametrize(
    ("record", "key", "value"),
    [
        (status_records.encode_status("a-b", RUNNING), "status-connector-a-b",
         '{"state":"RUNNING","trace":null,"worker_id":"h:8083","generation":7,'
         '"version":"4.3.1"}'),
        (status_records.encode_status(TASK, FAILED), "status-task-a-b-3",
         '{"state":"FAILED","trace":"a\\n\\t\\"b\\"","worker_id":"h:8083","generation":7,'
         '"version":null}'),
        (status_records.encode_topic_status(TopicStatus(
            topic="t", connector="c", task=0, discovered_ms=1700000000000)),
         "status-topic-t:connector-c",
         '{"topic":{"name":"t","connector":"c","task":0,"discoverTimestamp":1700000000000}}'),
    ],
)  # fmt: skip
def test_records_are_written_as_java_writes_them(record, key, value):
    assert record == KeyedRecord(key=key.encode(), value=value.encode())


@pytest.mark.parametrize("character", ["x", "\x01", "\U0001f600"])
def test_a_status_with_a_long_trace_is_cut_so_that_brokers_accept_it(character):
    trace = "the error\n" + character * 1_000_000
    status = dataclasses.replace(FAILED, trace=trace)
    written = status_records.encode_status(TASK, status).value
    assert written is not None
    assert len(written) < 1_000_000
    shown = status_records.decode_status(java_hash_map_json.decode_json(written)).trace
    assert shown.startswith("the error\n" + character)
    assert shown.endswith(
        "[cut: the status contains 65,536 of 1,000,010 characters; the worker's log contains the "
        "whole error]"
    )


def test_deletions_have_no_value():
    destroyed = RunStatus(state=RunState.DESTROYED, worker_id="h", generation=0)
    assert status_records.encode_status(TASK, destroyed).value is None
    key = TopicStatusKey("t", "c")
    assert status_records.encode_topic_removal(key) == KeyedRecord(
        key=b"status-topic-t:connector-c", value=None
    )


@pytest.mark.parametrize(
    ("key", "about"),
    [
        ("status-connector-a:b", "a:b"),
        ("status-task-a-b-3", TASK),
        ("status-topic-t.x:connector-c-1", TopicStatusKey("t.x", "c-1")),
        ("status-topic-t:connector-a:connector-b", TopicStatusKey("t", "a:connector-b")),
    ],
)
def test_keys_say_whose_status_it_is(key, about):
    assert status_records.split_status_key(key) == about


@pytest.mark.parametrize(
    "key",
    ["", "status-", "status-connector-", "status-task-c", "status-task-c-x", "status-topic-",
     "status-topic-:connector-c", "status-topic-t", "status-topic-t:connector-", "connector-c"],
)  # fmt: skip
def test_other_keys_are_invalid(key):
    with pytest.raises(InvalidRecord):
        status_records.split_status_key(key)


@pytest.mark.parametrize("status", [RUNNING, FAILED])
def test_what_was_written_is_read_back(status):
    record = status_records.encode_status(TASK, status)
    assert status_records.split_status_key(record.key.decode()) == TASK
    assert status_records.decode_status(java_hash_map_json.decode_json(record.value)) == status


def test_a_status_of_before_4_1_has_no_version():
    read = status_records.decode_status({"state": "PAUSED", "worker_id": "h:1", "generation": 2})
    assert (read.version, read.trace) == (None, None)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "the value is null"),
        ({"worker_id": "h", "generation": 1}, "'state' is not one of UNASSIGNED, RUNNING"),
        ({"state": "running", "worker_id": "h", "generation": 1}, "'state' is not one of"),
        ({"state": [], "worker_id": "h", "generation": 1}, "'state' is not one of"),
        ({"state": "RUNNING", "worker_id": "h"}, "'generation' is not an integer"),
        ({"state": "RUNNING", "worker_id": 1, "generation": 1}, "'worker_id' is a number"),
        ({"state": "RUNNING", "trace": {}, "generation": 1}, "'trace' is an object"),
    ],
)
def test_what_is_no_status_is_invalid(value, reason):
    with pytest.raises(InvalidRecord, match=reason):
        status_records.decode_status(value)


@pytest.mark.parametrize(
    "value",
    [None, {}, {"topic": 1}, {"topic": {"name": "t", "connector": "c", "task": "0"}},
     {"topic": {"name": 1, "connector": "c", "task": 0, "discoverTimestamp": 1}}],
)  # fmt: skip
def test_what_is_no_topic_status_is_invalid(value):
    with pytest.raises(InvalidRecord):
        status_records.decode_topic_status(value)
