from __future__ import annotations

import pytest

from connect_runtime.base.ids import ConnectorTaskId
from connect_runtime.storage import config_records
from connect_runtime.storage.cluster_config_state import SessionKey, TargetState
from connect_runtime.storage.config_records import (
    ConfigRecordKind,
    InvalidRecord,
    KeyedRecord,
    RestartRequest,
)

KEY = SessionKey(
    key=b"0123456789abcdef0123456789abcdef", algorithm="HmacSHA256", created_ms=1700000000000
)


@pytest.mark.parametrize(
    ("record", "key", "value"),
    [
        (config_records.encode_connector_config("a-b", {"name": "a-b", "k": None}),
         "connector-a-b", '{"properties":{"name":"a-b","k":null}}'),
        (config_records.encode_target_state("c", TargetState.STARTED),
         "target-state-c", '{"state":"STARTED","state.v2":"STARTED"}'),
        (config_records.encode_target_state("c", TargetState.STOPPED),
         "target-state-c", '{"state":"PAUSED","state.v2":"STOPPED"}'),
        (config_records.encode_task_config_commit("c", 2), "commit-c", '{"tasks":2}'),
        (config_records.encode_restart_request(RestartRequest(connector="c", include_tasks=True)),
         "restart-connector-c", '{"include-tasks":true,"only-failed":false}'),
        (config_records.encode_fencing_count("c", 3), "tasks-fencing-c", '{"task-count":3}'),
        (config_records.encode_session_key(KEY), "session-key",
         '{"key":"MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=","algorithm":"HmacSHA256",'
         '"creation-timestamp":1700000000000}'),
        (config_records.encode_logger_level("org.x", "DEBUG"),
         "logger-cluster-org.x", '{"level":"DEBUG"}'),
    ],
)  # fmt: skip
def test_records_are_written_as_java_writes_them(record, key, value):
    assert record == KeyedRecord(key=key.encode(), value=value.encode())


def test_a_key_is_utf_8_whatever_the_name_is():
    assert config_records.encode_task_config_commit("ü😀", 0).key == "commit-ü😀".encode()
    assert config_records.encode_task_config_commit("\ud800", 0).key == b"commit-?"


def test_task_configs_are_numbered_from_zero():
    records = config_records.encode_task_configs("c", [{"a": "1"}, {}])
    assert [(each.key, each.value) for each in records] == [
        (b"task-c-0", b'{"properties":{"a":"1"}}'),
        (b"task-c-1", b'{"properties":{}}'),
    ]


def test_a_removal_deletes_the_connector_before_its_target_state():
    records = config_records.encode_connector_deletion("c")
    assert [(each.key, each.value) for each in records] == [
        (b"connector-c", None),
        (b"target-state-c", None),
    ]


def test_a_creation_writes_a_wanted_target_state_before_the_connector():
    stopped = TargetState.STOPPED
    keys = [each.key for each in config_records.encode_connector_creation("c", {}, stopped)]
    assert keys == [b"target-state-c", b"connector-c"]
    assert config_records.encode_connector_creation("c", {}) == (
        config_records.encode_connector_config("c", {}),
    )


@pytest.mark.parametrize(
    ("key", "kind", "rest"),
    [
        ("target-state-x", ConfigRecordKind.TARGET_STATE, "x"),
        ("connector-", ConfigRecordKind.CONNECTOR, ""),
        ("connector-connector-x", ConfigRecordKind.CONNECTOR, "connector-x"),
        ("task-a-b-0", ConfigRecordKind.TASK, "a-b-0"),
        ("tasks-fencing-a", ConfigRecordKind.FENCING, "a"),
        ("commit-a b/ü", ConfigRecordKind.COMMIT, "a b/ü"),
        ("restart-connector-a", ConfigRecordKind.RESTART, "a"),
        ("logger-cluster-a.b", ConfigRecordKind.LOGGER, "a.b"),
        ("session-key", ConfigRecordKind.SESSION_KEY, ""),
    ],
)
def test_a_key_says_what_the_record_is_about(key, kind, rest):
    assert config_records.split_record_key(key) == (kind, rest)


@pytest.mark.parametrize("key", ["", "session-key-2", "tasks-x", "Connector-x", "restart-x"])
def test_other_keys_are_invalid(key):
    with pytest.raises(InvalidRecord):
        config_records.split_record_key(key)


@pytest.mark.parametrize(
    ("rest", "connector", "number"),
    [("c-0", "c", 0), ("a-b-12", "a-b", 12), ("a--1", "a-", 1), ("-7", "", 7)],
)
def test_the_number_of_a_task_follows_the_last_dash(rest, connector, number):
    assert config_records.parse_task_id(rest) == ConnectorTaskId(connector, number)


@pytest.mark.parametrize("rest", ["c", "c-", "c-x", "c-1x", "c-99999999999", "", "c-²"])
def test_a_key_without_a_task_is_invalid(rest):
    with pytest.raises(InvalidRecord, match="has no task id"):
        config_records.parse_task_id(rest)


@pytest.mark.parametrize(
    ("value", "state"),
    [
        ({"state": "PAUSED"}, TargetState.PAUSED),
        ({"state": "PAUSED", "state.v2": "STOPPED"}, TargetState.STOPPED),
        ({"state": "STARTED", "state.v2": 7}, TargetState.STARTED),
    ],
)
def test_the_newer_field_of_a_target_state_is_preferred(value, state):
    assert config_records.decode_target_state(value) is state


@pytest.mark.parametrize(
    ("reader", "value", "reason"),
    [
        (
            config_records.decode_target_state,
            {"state": "RUNNING"},
            "not a target state; allowed: STARTED",
        ),
        (
            config_records.decode_target_state,
            {"state.v2": "x", "state": "STARTED"},
            "not a target state",
        ),
        (config_records.decode_target_state, {}, "'state' is null"),
        (config_records.decode_target_state, 3, "the value is a number"),
        (config_records.decode_config_properties, {"properties": []}, "'properties' is an array"),
        (
            config_records.decode_config_properties,
            {"properties": {"a": 1}},
            "the property 'a' is a number",
        ),
        (config_records.decode_config_properties, None, "the value is null"),
        (config_records.decode_logger_level, {"level": None}, "'level' is null"),
        (config_records.decode_session_key, {"key": "AA=="}, "a session key needs"),
        (config_records.decode_session_key,
         {"key": "?", "algorithm": "x", "creation-timestamp": 1}, "base64"),
        (config_records.decode_session_key,
         {"key": "", "algorithm": "x", "creation-timestamp": 1}, "empty"),
        (config_records.decode_session_key,
         {"key": "AA==", "algorithm": "x", "creation-timestamp": True}, "a session key needs"),
    ],
)  # fmt: skip
def test_values_that_say_nothing_are_invalid_and_are_not_quoted(reader, value, reason):
    with pytest.raises(InvalidRecord, match=reason):
        reader(value)


@pytest.mark.parametrize("tasks", [-1, 2**31, True, "2", 1.0, None])
def test_a_count_is_an_integer_that_java_can_hold(tasks):
    with pytest.raises(InvalidRecord, match="not a valid number of tasks"):
        config_records.decode_task_count({"tasks": tasks}, "tasks")


def test_missing_fields_of_a_restart_are_false():
    read = config_records.decode_restart_request("c", {"only-failed": "true"})
    assert read == RestartRequest(connector="c")


def test_four_restarts_have_four_impacts():
    """RestartRequestTest: the order in which one replaces another."""
    ranked = [
        RestartRequest(connector="c", only_failed=failed, include_tasks=tasks)
        for failed, tasks in ((True, False), (True, True), (False, False), (False, True))
    ]
    assert [each.impact_rank for each in ranked] == [0, 1, 2, 3]


def test_a_session_key_shows_no_key():
    assert "0123" not in repr(KEY)
    assert config_records.decode_session_key(
        {"key": "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=", "algorithm": "HmacSHA256",
         "creation-timestamp": 1700000000000, "more": 1}
    ) == KEY  # fmt: skip
