"""Records of the status topic: connector and task states, and the topics that connectors use.

Format: KafkaStatusBackingStore; KIP-558 (topics), KIP-891 (`version`, since 4.1).
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from connect_runtime.base import ids
from connect_runtime.storage import config_records, java_hash_map_json
from connect_runtime.storage.config_records import InvalidRecord, KeyedRecord
from connect_runtime.storage.java_hash_map_json import Json

CONNECTOR_KEY_PREFIX = "status-connector-"
TASK_KEY_PREFIX = "status-task-"
TOPIC_KEY_PREFIX = "status-topic-"
TOPIC_SEPARATOR = ":connector-"


MAX_TRACE_CHARS = 64 * 1024
"""Maximum number of characters of a stack trace in a status record. A character needs at most 12
bytes in JSON, so a record stays below the 1 MB that brokers accept by default."""


class RunState(enum.Enum):
    """State of a connector or task, as in Connect's REST API. STOPPED applies only to connectors.
    DESTROYED is written as a deletion and never read."""

    UNASSIGNED = "UNASSIGNED"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    FAILED = "FAILED"
    RESTARTING = "RESTARTING"
    DESTROYED = "DESTROYED"
    STOPPED = "STOPPED"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStatus:
    """Status of a connector or task, as its worker reported it."""

    state: RunState
    worker_id: str
    """Advertised `host:port` of the worker."""
    generation: int
    """Group generation in which the status was written; 0 for standalone workers."""
    trace: str | None = None
    version: str | None = None
    """Version of the plugin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicStatus:
    """Value of a topic status record, which states that a connector uses a topic (KIP-558)."""

    topic: str
    connector: str
    task: int
    """Number of the task that used the topic first."""
    discovered_ms: int
    """Time of the first use in milliseconds since the epoch."""


StatusSubject: TypeAlias = "str | ids.ConnectorTaskId"
"""Connector or task that a status belongs to: the connector's name, or the task id."""


@dataclass(frozen=True, slots=True)
class TopicStatusKey:
    """Key of a topic status: a connector and a topic that the connector uses."""

    topic: str
    connector: str


# Encoding


def encode_status(subject: StatusSubject, value: RunStatus) -> KeyedRecord:
    """Encode the record `status-connector-C` or `status-task-C-N`. The status DESTROYED deletes the
    record."""
    if value.state is RunState.DESTROYED:
        return KeyedRecord(key=_encode_status_key(subject), value=None)
    written = {
        "state": value.state.value,
        "trace": _cut_trace(value.trace),
        "worker_id": value.worker_id,
        "generation": value.generation,
        "version": value.version,
    }
    return KeyedRecord(
        key=_encode_status_key(subject), value=java_hash_map_json.encode_json(written)
    )


def _cut_trace(trace: str | None) -> str | None:
    """Cut a long stack trace at its end, because it starts with the error message."""
    if trace is None or len(trace) <= MAX_TRACE_CHARS:
        return trace
    return (
        f"{trace[:MAX_TRACE_CHARS]}\n[cut: the status contains {MAX_TRACE_CHARS:,} of "
        f"{len(trace):,} characters; the worker's log contains the whole error]"
    )


def _encode_status_key(subject: StatusSubject) -> bytes:
    prefix = CONNECTOR_KEY_PREFIX if isinstance(subject, str) else TASK_KEY_PREFIX
    return config_records.encode_record_key(f"{prefix}{subject}")


def encode_topic_status(value: TopicStatus) -> KeyedRecord:
    """Encode the record `status-topic-T:connector-C`: connector C uses topic T."""
    written: dict[str, Json] = {
        "name": value.topic,
        "connector": value.connector,
        "task": value.task,
        "discoverTimestamp": value.discovered_ms,
    }
    key = TopicStatusKey(value.topic, value.connector)
    return KeyedRecord(
        key=_encode_topic_key(key), value=java_hash_map_json.encode_json({"topic": written})
    )


def encode_topic_removal(key: TopicStatusKey) -> KeyedRecord:
    """Encode the tombstone of a topic status record: the connector no longer uses the topic."""
    return KeyedRecord(key=_encode_topic_key(key), value=None)


def _encode_topic_key(key: TopicStatusKey) -> bytes:
    return config_records.encode_record_key(
        f"{TOPIC_KEY_PREFIX}{key.topic}{TOPIC_SEPARATOR}{key.connector}"
    )


# Decoding


def split_status_key(key: str) -> StatusSubject | TopicStatusKey:
    """Parse the key of a status topic record: a connector, a task, or a topic that a connector
    uses. Raises `InvalidRecord`."""
    if key.startswith(CONNECTOR_KEY_PREFIX):
        return _require_name(key.removeprefix(CONNECTOR_KEY_PREFIX), "connector")
    if key.startswith(TASK_KEY_PREFIX):
        return config_records.parse_task_id(
            key.removeprefix(TASK_KEY_PREFIX), key_prefix=TASK_KEY_PREFIX
        )
    if key.startswith(TOPIC_KEY_PREFIX):
        # Like Java: split at the first colon, and do not check what follows it.
        name, _, rest = key.removeprefix(TOPIC_KEY_PREFIX).partition(":")
        connector = rest[len(TOPIC_SEPARATOR) - 1 :]
        return TopicStatusKey(_require_name(name, "topic"), _require_name(connector, "connector"))
    raise InvalidRecord("not a valid key for the status topic")


def _require_name(name: str, what: str) -> str:
    if not name:
        raise InvalidRecord(f"the key has no {what} name")
    return name


def decode_status(value: Json) -> RunStatus:
    """Decode the value of a connector or task status record. Raises `InvalidRecord`."""
    given = config_records.decode_record_fields(value)
    generation = java_hash_map_json.get_integer_or_none(given.get("generation"))
    if generation is None:
        raise InvalidRecord("'generation' is not an integer")
    return RunStatus(
        state=_decode_run_state(given.get("state")),
        worker_id=_decode_text_field(given, "worker_id") or "",
        generation=generation,
        trace=_decode_text_field(given, "trace"),
        version=_decode_text_field(given, "version"),
    )


def _decode_run_state(given: Json) -> RunState:
    try:
        return RunState(given)
    except ValueError:
        raise InvalidRecord(
            f"'state' is not one of {', '.join(each.value for each in RunState)}"
        ) from None


def _decode_text_field(given: Mapping[str, Json], name: str) -> str | None:
    text = given.get(name)
    if not isinstance(text, str | None):
        raise InvalidRecord(
            f"'{name}' is {java_hash_map_json.get_json_type_name(text)}, not a string"
        )
    return text


def decode_topic_status(value: Json) -> TopicStatus:
    """Decode the value of a topic status record. Raises `InvalidRecord`."""
    given = config_records.decode_record_fields(
        config_records.decode_record_fields(value).get("topic")
    )
    task = java_hash_map_json.get_integer_or_none(given.get("task"))
    discovered_ms = java_hash_map_json.get_integer_or_none(given.get("discoverTimestamp"))
    if task is None or discovered_ms is None:
        raise InvalidRecord("'task' and 'discoverTimestamp' of a topic must be integers")
    return TopicStatus(
        topic=_decode_text_field(given, "name") or "",
        connector=_decode_text_field(given, "connector") or "",
        task=task,
        discovered_ms=discovered_ms,
    )
