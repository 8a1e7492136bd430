from __future__ import annotations

import pytest

from connect_runtime.base import ids
from connect_runtime.core.state import cluster_config, config_records

KEY = cluster_config.SessionKey(
    key=b"0123456789abcdef0123456789abcdef", algorithm="HmacSHA256", created_ms=1700000000000
)


@pytest.mark.parametrize(
    ("record", "key", "value"),
    [
        (config_records.connector("a-b", {"name": "a-b", "k": None}),
         "connector-a-b", '{"properties":{"name":"a-b","k":null}}'),
        (config_records.target_state("c", cluster_config.TargetState.STARTED),
         "target-state-c", '{"state":"STARTED","state.v2":"STARTED"}'),
        (config_records.target_state("c", cluster_config.TargetState.STOPPED),
         "target-state-c", '{"state":"PAUSED","state.v2":"STOPPED"}'),
        (config_records.commit("c", 2), "commit-c", '{"tasks":2}'),
        (config_records.restart(config_records.RestartRequest(connector="c", include_tasks=True)),
         "restart-connector-c", '{"include-tasks":true,"only-failed":false}'),
        (config_records.fencing_count("c", 3), "tasks-fencing-c", '{"task-count":3}'),
        (config_records.session_key(KEY), "session-key",
         '{"key":"MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=","algorithm":"HmacSHA256",'
         '"creation-timestamp":1700000000000}'),
        (config_records.logger_level("org.x", "DEBUG"),
         "logger-cluster-org.x", '{"level":"DEBUG"}'),
    ],
)  # fmt: skip
def test_records_are_written_as_java_writes_them(record, key, value):
    assert record == config_records.Record(key=key.encode(), value=value.encode())


def test_a_key_is_utf_8_whatever_the_name_is():
    assert config_records.commit("ü😀", 0).key == "commit-ü😀".encode()
    assert config_records.commit("\ud800", 0).key == b"commit-?"


def test_task_configs_are_numbered_from_zero():
    records = config_records.task_configs("c", [{"a": "1"}, {}])
    assert [(each.key, each.value) for each in records] == [
        (b"task-c-0", b'{"properties":{"a":"1"}}'),
        (b"task-c-1", b'{"properties":{}}'),
    ]


def test_a_removal_deletes_the_connector_before_its_target_state():
    records = config_records.removal("c")
    assert [(each.key, each.value) for each in records] == [
        (b"connector-c", None),
        (b"target-state-c", None),
    ]


def test_a_creation_writes_a_wanted_target_state_before_the_connector():
    stopped = cluster_config.TargetState.STOPPED
    keys = [each.key for each in config_records.creation("c", {}, stopped)]
    assert keys == [b"target-state-c", b"connector-c"]
    assert config_records.creation("c", {}) == (config_records.connector("c", {}),)


@pytest.mark.parametrize(
    ("key", "kind", "rest"),
    [
        ("target-state-x", config_records.Kind.TARGET_STATE, "x"),
        ("connector-", config_records.Kind.CONNECTOR, ""),
        ("connector-connector-x", config_records.Kind.CONNECTOR, "connector-x"),
        ("task-a-b-0", config_records.Kind.TASK, "a-b-0"),
        ("tasks-fencing-a", config_records.Kind.FENCING, "a"),
        ("commit-a b/ü", config_records.Kind.COMMIT, "a b/ü"),
        ("restart-connector-a", config_records.Kind.RESTART, "a"),
        ("logger-cluster-a.b", config_records.Kind.LOGGER, "a.b"),
        ("session-key", config_records.Kind.SESSION_KEY, ""),
    ],
)
def test_a_key_says_what_the_record_is_about(key, kind, rest):
    assert config_records.split_key(key) == (kind, rest)


@pytest.mark.parametrize("key", ["", "session-key-2", "tasks-x", "Connector-x", "restart-x"])
def test_other_keys_are_invalid(key):
    with pytest.raises(config_records.Invalid):
        config_records.split_key(key)


@pytest.mark.parametrize(
    ("rest", "connector", "number"),
    [("c-0", "c", 0), ("a-b-12", "a-b", 12), ("a--1", "a-", 1), ("-7", "", 7)],
)
def test_the_number_of_a_task_follows_the_last_dash(rest, connector, number):
    assert config_records.task_id(rest) == ids.ConnectorTaskId(connector, number)


@pytest.mark.parametrize("rest", ["c", "c-", "c-x", "c-1x", "c-99999999999", "", "c-²"])
def test_a_key_without_a_task_is_invalid(rest):
    with pytest.raises(config_records.Invalid, match="names no task"):
        config_records.task_id(rest)


@pytest.mark.parametrize(
    ("value", "state"),
    [
        ({"state": "PAUSED"}, cluster_config.TargetState.PAUSED),
        ({"state": "PAUSED", "state.v2": "STOPPED"}, cluster_config.TargetState.STOPPED),
        ({"state": "STARTED", "state.v2": 7}, cluster_config.TargetState.STARTED),
    ],
)
def test_the_newer_field_of_a_target_state_is_preferred(value, state):
    assert config_records.state_of(value) is state


@pytest.mark.parametrize(
    ("reader", "value", "reason"),
    [
        (config_records.state_of, {"state": "RUNNING"}, "no target state; there are STARTED"),
        (config_records.state_of, {"state.v2": "x", "state": "STARTED"}, "no target state"),
        (config_records.state_of, {}, "'state' is null"),
        (config_records.state_of, 3, "the value is a number"),
        (config_records.properties, {"properties": []}, "'properties' is an array"),
        (config_records.properties, {"properties": {"a": 1}}, "the property 'a' is a number"),
        (config_records.properties, None, "the value is null"),
        (config_records.level_of, {"level": None}, "'level' is null"),
        (config_records.session_key_of, {"key": "AA=="}, "a session key has"),
        (config_records.session_key_of,
         {"key": "?", "algorithm": "x", "creation-timestamp": 1}, "base64"),
        (config_records.session_key_of,
         {"key": "", "algorithm": "x", "creation-timestamp": 1}, "empty"),
        (config_records.session_key_of,
         {"key": "AA==", "algorithm": "x", "creation-timestamp": True}, "a session key has"),
    ],
)  # fmt: skip
def test_values_that_say_nothing_are_invalid_and_are_not_quoted(reader, value, reason):
    with pytest.raises(config_records.Invalid, match=reason):
        reader(value)


@pytest.mark.parametrize("tasks", [-1, 2**31, True, "2", 1.0, None])
def test_a_count_is_an_integer_that_java_can_hold(tasks):
    with pytest.raises(config_records.Invalid, match="no number of tasks"):
        config_records.count({"tasks": tasks}, "tasks")


def test_missing_fields_of_a_restart_are_false():
    read = config_records.restart_of("c", {"only-failed": "true"})
    assert read == config_records.RestartRequest(connector="c")


def test_four_restarts_have_four_impacts():
    """RestartRequestTest: the order in which one replaces another."""
    ranked = [
        config_records.RestartRequest(connector="c", only_failed=failed, include_tasks=tasks)
        for failed, tasks in ((True, False), (True, True), (False, False), (False, True))
    ]
    assert [each.impact for each in ranked] == [0, 1, 2, 3]


def test_a_session_key_shows_no_key():
    assert "0123" not in repr(KEY)
    assert config_records.session_key_of(
        {"key": "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=", "algorithm": "HmacSHA256",
         "creation-timestamp": 1700000000000, "more": 1}
    ) == KEY  # fmt: skip
