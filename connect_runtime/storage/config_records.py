"""Encodes and decodes keys and values of config topic records.

Keys are plain strings; values are JSON without schemas. The key of a connector or logger ends with
its name, which may contain any character. Formats: KafkaConfigBackingStore; KIP-507 (session key),
KIP-618 (fencing), KIP-745 (restarts), KIP-875 (`state.v2`), KIP-976 (loggers).
"""

from __future__ import annotations

import base64
import binascii
import enum
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from connect_runtime.base.ids import ConnectorTaskId
from connect_runtime.storage import java_hash_map_json
from connect_runtime.storage.cluster_config_state import RawConfig, SessionKey, TargetState
from connect_runtime.storage.java_hash_map_json import Json


class ConfigRecordKind(enum.Enum):
    """Kind of config topic record. Each enum value is the key, or the prefix of the keys, of the
    records. A key is compared with the prefixes in the order of the enum."""

    TARGET_STATE = "target-state-"
    CONNECTOR = "connector-"
    TASK = "task-"
    COMMIT = "commit-"
    RESTART = "restart-connector-"
    FENCING = "tasks-fencing-"
    LOGGER = "logger-cluster-"
    SESSION_KEY = "session-key"


_TASK_NUMBER = re.compile(r"[0-9]{1,10}")
_MAX_INT32 = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedRecord:
    """A record to write. A value of None deletes the record's key."""

    key: bytes
    value: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartRequest:
    """Request to restart a connector, optionally with its tasks, and optionally only failed
    instances."""

    connector: str
    include_tasks: bool = False
    only_failed: bool = False

    @property
    def impact_rank(self) -> int:
        """Rank of the effect of a restart request, from 0 (smallest) to 3. Of two requests for a
        connector, the one with the larger impact is used."""
        return 2 * (not self.only_failed) + self.include_tasks


# Encoding


def encode_connector_config(name: str, config: RawConfig) -> KeyedRecord:
    """Encode the record `connector-C`, which creates a connector or updates its configuration."""
    return _encode_record(ConfigRecordKind.CONNECTOR.value + name, {"properties": dict(config)})


def encode_connector_deletion(name: str) -> tuple[KeyedRecord, KeyedRecord]:
    """Encode the two tombstones that delete a connector: first that of its configuration, then that
    of its target state. Write both together, in the returned order."""
    return (
        KeyedRecord(key=encode_record_key(ConfigRecordKind.CONNECTOR.value + name), value=None),
        KeyedRecord(key=encode_record_key(ConfigRecordKind.TARGET_STATE.value + name), value=None),
    )


def encode_target_state(name: str, state: TargetState) -> KeyedRecord:
    """Encode the record `target-state-C`, the requested state of connector C. Workers older than
    Kafka 3.5 do not support STOPPED and read PAUSED instead."""
    stopped = state is TargetState.STOPPED
    older = TargetState.PAUSED if stopped else state
    return _encode_record(
        ConfigRecordKind.TARGET_STATE.value + name, {"state": older.value, "state.v2": state.value}
    )


def encode_connector_creation(
    name: str,
    config: RawConfig,
    state: TargetState | None = None,
) -> tuple[KeyedRecord, ...]:
    """Encode the records that create a connector: its target state, if given, then its
    configuration."""
    written = encode_connector_config(name, config)
    return (written,) if state is None else (encode_target_state(name, state), written)


def encode_task_configs(name: str, configs: Sequence[RawConfig]) -> tuple[KeyedRecord, ...]:
    """Encode the record `task-C-N` for each task N of connector C.

    The task configs take effect when the record of `encode_task_config_commit` follows. Write that
    record only after the task configs have been read back.
    """
    return tuple(
        _encode_record(
            f"{ConfigRecordKind.TASK.value}{name}-{number}", {"properties": dict(config)}
        )
        for number, config in enumerate(configs)
    )


def encode_task_config_commit(name: str, tasks: int) -> KeyedRecord:
    """Encode the record `commit-C`: the task configs of connector C that precede it are complete,
    with this number of tasks."""
    return _encode_record(ConfigRecordKind.COMMIT.value + name, {"tasks": tasks})


def encode_restart_request(request: RestartRequest) -> KeyedRecord:
    """Encode the record `restart-connector-C`: every worker must restart its instances of connector
    C."""
    value = {"include-tasks": request.include_tasks, "only-failed": request.only_failed}
    return _encode_record(ConfigRecordKind.RESTART.value + request.connector, value)


def encode_fencing_count(name: str, tasks: int) -> KeyedRecord:
    """Encode the record `tasks-fencing-C`: the producers of connector C's previous tasks have been
    fenced.

    `tasks` is the number of connector C's new tasks. The next fencing must fence the producers of
    these tasks.
    """
    return _encode_record(ConfigRecordKind.FENCING.value + name, {"task-count": tasks})


def encode_session_key(key: SessionKey) -> KeyedRecord:
    """Encode the record `session-key`: workers sign their requests to each other with this key from
    now on."""
    value: dict[str, Json] = {
        "key": base64.b64encode(key.key).decode(),
        "algorithm": key.algorithm,
        "creation-timestamp": key.created_ms,
    }
    return _encode_record(ConfigRecordKind.SESSION_KEY.value, value)


def encode_logger_level(namespace: str, level: str) -> KeyedRecord:
    """Encode the record `logger-cluster-…`: every worker must set the logger namespace to this
    level."""
    return _encode_record(ConfigRecordKind.LOGGER.value + namespace, {"level": level})


def _encode_record(key: str, value: Json) -> KeyedRecord:
    return KeyedRecord(key=encode_record_key(key), value=java_hash_map_json.encode_json(value))


def encode_record_key(key: str) -> bytes:
    """Encode a record key like Java's string serializer, which replaces lone surrogates with a
    question mark."""
    return key.encode("utf-8", "replace")


# Decoding

RecordFields: TypeAlias = Mapping[str, Json]


class InvalidRecord(Exception):
    """Raised if a record of an internal topic is invalid. The message contains the reason but no
    value, because values may be secret."""


def split_record_key(key: str) -> tuple[ConfigRecordKind, str]:
    """Split a record key into its record kind and the rest, which is usually a name. Raises
    `InvalidRecord`."""
    for kind in ConfigRecordKind:
        if kind is ConfigRecordKind.SESSION_KEY and key == kind.value:
            return kind, ""
        if kind is not ConfigRecordKind.SESSION_KEY and key.startswith(kind.value):
            return kind, key.removeprefix(kind.value)
    raise InvalidRecord("not a valid key for the config topic")


def parse_task_id(rest: str, *, key_prefix: str = "task-") -> ConnectorTaskId:
    """Parse the task id from `C-N`, the part of a record key after its prefix. N follows the last
    dash. Raises `InvalidRecord`.

    `key_prefix` is the key's prefix, for error messages.
    """
    name, dash, number = rest.rpartition("-")
    if not dash or not _TASK_NUMBER.fullmatch(number) or int(number) > _MAX_INT32:
        raise InvalidRecord(f"the key has no task id: expected {key_prefix}CONNECTOR-NUMBER")
    return ConnectorTaskId(name, int(number))


def decode_record_fields(value: Json) -> RecordFields:
    """Return the fields of a record value, which must be a JSON object. Raises `InvalidRecord`."""
    if not isinstance(value, Mapping):
        raise InvalidRecord(
            f"the value is {java_hash_map_json.get_json_type_name(value)}, not an object"
        )
    return value


def decode_config_properties(value: Json) -> RawConfig:
    """Decode the properties of a connector or task configuration: strings or nulls by name. Raises
    `InvalidRecord`."""
    config = decode_record_fields(value).get("properties")
    if not isinstance(config, Mapping):
        raise InvalidRecord(
            f"'properties' is {java_hash_map_json.get_json_type_name(config)}, not an object"
        )
    for name, each in config.items():
        if not isinstance(each, str | None):
            raise InvalidRecord(
                f"the property '{name}' is {java_hash_map_json.get_json_type_name(each)}, not a "
                "string"
            )
    return {name: each for name, each in config.items() if isinstance(each, str | None)}


def decode_task_count(value: Json, name: str) -> int:
    """Parse the number of tasks in a config record. `name` is the name of the JSON field that
    contains it. Raises `InvalidRecord`."""
    number = java_hash_map_json.get_integer_or_none(decode_record_fields(value).get(name))
    if number is None or not 0 <= number <= _MAX_INT32:
        raise InvalidRecord(f"'{name}' is not a valid number of tasks")
    return number


def decode_target_state(value: Json) -> TargetState:
    """Decode the target state from the field `state.v2`, or from `state` in a record by an older
    worker. Raises `InvalidRecord`."""
    given = decode_record_fields(value).get("state.v2")
    if not isinstance(given, str):
        given = decode_record_fields(value).get("state")
    if not isinstance(given, str):
        raise InvalidRecord(
            f"'state' is {java_hash_map_json.get_json_type_name(given)}, not a string"
        )
    try:
        return TargetState(given)
    except ValueError:
        allowed = ", ".join(each.value for each in TargetState)
        raise InvalidRecord(f"'{given}' is not a target state; allowed: {allowed}") from None


def decode_restart_request(name: str, value: Json) -> RestartRequest:
    """Decode a restart request. As in Java, values that are not booleans count as false. Raises
    `InvalidRecord`."""
    given = decode_record_fields(value)
    return RestartRequest(
        connector=name,
        include_tasks=given.get("include-tasks") is True,
        only_failed=given.get("only-failed") is True,
    )


def decode_session_key(value: Json) -> SessionKey:
    """Decode a session key record. Raises `InvalidRecord`."""
    given = decode_record_fields(value)
    key, algorithm = given.get("key"), given.get("algorithm")
    created_ms = java_hash_map_json.get_integer_or_none(given.get("creation-timestamp"))
    if not isinstance(key, str) or not isinstance(algorithm, str) or created_ms is None:
        raise InvalidRecord("a session key needs 'key', 'algorithm' and 'creation-timestamp'")
    try:
        decoded = base64.b64decode(key, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidRecord("'key' is not base64") from None
    if not decoded or not algorithm:
        raise InvalidRecord("the session key or its algorithm is empty")
    return SessionKey(key=decoded, algorithm=algorithm, created_ms=created_ms)


def decode_logger_level(value: Json) -> str:
    """Decode a logger level record. Raises `InvalidRecord`."""
    level = decode_record_fields(value).get("level")
    if not isinstance(level, str):
        raise InvalidRecord(
            f"'level' is {java_hash_map_json.get_json_type_name(level)}, not a string"
        )
    return level
