"""Records of the status topic: states of connectors and tasks, and the topics they use.

Format: KafkaStatusBackingStore; KIP-558 (topics), KIP-891 (`version`, since 4.1).
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from connect_runtime.base import ids
from connect_runtime.storage import config_records, java_json
from connect_runtime.storage.java_json import Json

CONNECTOR_KEY_PREFIX = "status-connector-"
TASK_KEY_PREFIX = "status-task-"
TOPIC_KEY_PREFIX = "status-topic-"
TOPIC_SEPARATOR = ":connector-"


KeyedRecord = config_records.KeyedRecord


class RunState(enum.Enum):
    """STOPPED is for connectors alone; DESTROYED is written as a deletion, and never read."""

    UNASSIGNED = "UNASSIGNED"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    FAILED = "FAILED"
    RESTARTING = "RESTARTING"
    DESTROYED = "DESTROYED"
    STOPPED = "STOPPED"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStatus:
    """What one worker says of a connector or a task.

    `worker_id` is its advertised `host:port`, `generation` that of the group when it wrote (0
    standalone), `version` the plugin's.
    """

    state: RunState
    worker_id: str
    generation: int
    trace: str | None = None
    version: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicStatus:
    """`connector` uses `encode_topic_status`; `task` was the first to, at `discovered_ms` wall
    time."""

    topic: str
    connector: str
    task: int
    discovered_ms: int


StatusSubject: TypeAlias = "str | ids.ConnectorTaskId"
"""Of whom a status is: the connector of that name, or a task."""


@dataclass(frozen=True, slots=True)
class TopicStatusKey:
    """A topic as used by a connector."""

    topic: str
    connector: str


# What is written


def encode_status(subject: StatusSubject, value: RunStatus) -> KeyedRecord:
    """`status-connector-C` or `status-task-C-N`; a destroyed one's is deleted."""
    if value.state is RunState.DESTROYED:
        return KeyedRecord(key=_encode_status_key(subject), value=None)
    written = {
        "state": value.state.value,
        "trace": value.trace,
        "worker_id": value.worker_id,
        "generation": value.generation,
        "version": value.version,
    }
    return KeyedRecord(key=_encode_status_key(subject), value=java_json.encode_json(written))


def _encode_status_key(subject: StatusSubject) -> bytes:
    prefix = CONNECTOR_KEY_PREFIX if isinstance(subject, str) else TASK_KEY_PREFIX
    return config_records.encode_key(f"{prefix}{subject}")


def encode_topic_status(value: TopicStatus) -> KeyedRecord:
    """`status-topic-T:connector-C`."""
    written: dict[str, Json] = {
        "name": value.topic,
        "connector": value.connector,
        "task": value.task,
        "discoverTimestamp": value.discovered_ms,
    }
    key = TopicStatusKey(value.topic, value.connector)
    return KeyedRecord(key=_encode_topic_key(key), value=java_json.encode_json({"topic": written}))


def encode_topic_removal(key: TopicStatusKey) -> KeyedRecord:
    """The connector does not use the topic, as far as anybody knows."""
    return KeyedRecord(key=_encode_topic_key(key), value=None)


def _encode_topic_key(key: TopicStatusKey) -> bytes:
    return config_records.encode_key(
        f"{TOPIC_KEY_PREFIX}{key.topic}{TOPIC_SEPARATOR}{key.connector}"
    )


# What is read

InvalidRecord = config_records.InvalidRecord


def split_key(key: str) -> StatusSubject | TopicStatusKey:
    """Whose record it is. Raises `InvalidRecord`."""
    if key.startswith(CONNECTOR_KEY_PREFIX):
        return _require_name(key.removeprefix(CONNECTOR_KEY_PREFIX), "connector")
    if key.startswith(TASK_KEY_PREFIX):
        return config_records.parse_task_id(
            key.removeprefix(TASK_KEY_PREFIX), before=TASK_KEY_PREFIX
        )
    if key.startswith(TOPIC_KEY_PREFIX):
        # Java cuts at the first colon, takes for granted what follows it, and so do we.
        name, _, rest = key.removeprefix(TOPIC_KEY_PREFIX).partition(":")
        connector = rest[len(TOPIC_SEPARATOR) - 1 :]
        return TopicStatusKey(_require_name(name, "topic"), _require_name(connector, "connector"))
    raise InvalidRecord("no record of the status topic has such a key")


def _require_name(name: str, what: str) -> str:
    if not name:
        raise InvalidRecord(f"the key names no {what}")
    return name


def read_status(value: Json) -> RunStatus:
    """Raises `InvalidRecord`."""
    given = config_records.read_fields(value)
    generation = java_json.read_integer(given.get("generation"))
    if generation is None:
        raise InvalidRecord("'generation' is no integer")
    return RunStatus(
        state=_read_state(given.get("state")),
        worker_id=_read_text(given, "worker_id") or "",
        generation=generation,
        trace=_read_text(given, "trace"),
        version=_read_text(given, "version"),
    )


def _read_state(given: Json) -> RunState:
    try:
        return RunState(given)
    except ValueError:
        raise InvalidRecord(
            f"'state' is none of {', '.join(each.value for each in RunState)}"
        ) from None


def _read_text(given: Mapping[str, Json], name: str) -> str | None:
    text = given.get(name)
    if not isinstance(text, str | None):
        raise InvalidRecord(f"'{name}' is {java_json.name_json_type(text)}, not a string")
    return text


def read_topic_status(value: Json) -> TopicStatus:
    """Raises `InvalidRecord`."""
    given = config_records.read_fields(config_records.read_fields(value).get("topic"))
    task = java_json.read_integer(given.get("task"))
    discovered_ms = java_json.read_integer(given.get("discoverTimestamp"))
    if task is None or discovered_ms is None:
        raise InvalidRecord("'task' and 'discoverTimestamp' of a topic are integers")
    return TopicStatus(
        topic=_read_text(given, "name") or "",
        connector=_read_text(given, "connector") or "",
        task=task,
        discovered_ms=discovered_ms,
    )
