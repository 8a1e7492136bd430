"""Records of the status topic: what connectors and tasks are doing, and which topics they use.

Format: KafkaStatusBackingStore; KIP-558 (topics), KIP-891 (`version`, since 4.1).
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from connect_runtime.base import ids
from connect_runtime.core.state import config_records, json_bytes

CONNECTOR = "status-connector-"
TASK = "status-task-"
TOPIC = "status-topic-"
TOPIC_SEPARATOR = ":connector-"


Record = config_records.Record


class State(enum.Enum):
    """STOPPED is for connectors alone; DESTROYED is written as a deletion, and never read."""

    UNASSIGNED = "UNASSIGNED"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    FAILED = "FAILED"
    RESTARTING = "RESTARTING"
    DESTROYED = "DESTROYED"
    STOPPED = "STOPPED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """What one worker says of a connector or a task.

    `worker_id` is its advertised `host:port`, `generation` that of the group when it wrote (0
    standalone), `version` the plugin's.
    """

    state: State
    worker_id: str
    generation: int
    trace: str | None = None
    version: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicStatus:
    """`connector` uses `topic`; `task` was the first to, at `discovered_ms` wall time."""

    topic: str
    connector: str
    task: int
    discovered_ms: int


Subject: TypeAlias = "str | ids.ConnectorTaskId"
"""Of whom a status is: the connector of that name, or a task."""


@dataclass(frozen=True, slots=True)
class TopicKey:
    """A topic as used by a connector."""

    topic: str
    connector: str


# What is written


def status(subject: Subject, value: Status) -> Record:
    """`status-connector-C` or `status-task-C-N`; a destroyed one's is deleted."""
    if value.state is State.DESTROYED:
        return Record(key=_key(subject), value=None)
    written = {
        "state": value.state.value,
        "trace": value.trace,
        "worker_id": value.worker_id,
        "generation": value.generation,
        "version": value.version,
    }
    return Record(key=_key(subject), value=json_bytes.encode(written))


def _key(subject: Subject) -> bytes:
    prefix = CONNECTOR if isinstance(subject, str) else TASK
    return config_records.key_bytes(f"{prefix}{subject}")


def topic(value: TopicStatus) -> Record:
    """`status-topic-T:connector-C`."""
    written: dict[str, json_bytes.Json] = {
        "name": value.topic,
        "connector": value.connector,
        "task": value.task,
        "discoverTimestamp": value.discovered_ms,
    }
    key = TopicKey(value.topic, value.connector)
    return Record(key=_topic_key(key), value=json_bytes.encode({"topic": written}))


def topic_removal(key: TopicKey) -> Record:
    """The connector does not use the topic, as far as anybody knows."""
    return Record(key=_topic_key(key), value=None)


def _topic_key(key: TopicKey) -> bytes:
    return config_records.key_bytes(f"{TOPIC}{key.topic}{TOPIC_SEPARATOR}{key.connector}")


# What is read

Invalid = config_records.Invalid


def split_key(key: str) -> Subject | TopicKey:
    """Whose record it is. Raises `Invalid`."""
    if key.startswith(CONNECTOR):
        return _given(key.removeprefix(CONNECTOR), "connector")
    if key.startswith(TASK):
        return config_records.task_id(key.removeprefix(TASK), before=TASK)
    if key.startswith(TOPIC):
        # Java cuts at the first colon, takes for granted what follows it, and so do we.
        name, _, rest = key.removeprefix(TOPIC).partition(":")
        connector = rest[len(TOPIC_SEPARATOR) - 1 :]
        return TopicKey(_given(name, "topic"), _given(connector, "connector"))
    raise Invalid("no record of the status topic has such a key")


def _given(name: str, what: str) -> str:
    if not name:
        raise Invalid(f"the key names no {what}")
    return name


def status_of(value: json_bytes.Json) -> Status:
    """Raises `Invalid`."""
    given = config_records.fields(value)
    generation = json_bytes.integer(given.get("generation"))
    if generation is None:
        raise Invalid("'generation' is no integer")
    return Status(
        state=_state(given.get("state")),
        worker_id=_text(given, "worker_id") or "",
        generation=generation,
        trace=_text(given, "trace"),
        version=_text(given, "version"),
    )


def _state(given: json_bytes.Json) -> State:
    try:
        return State(given)
    except ValueError:
        raise Invalid(f"'state' is none of {', '.join(each.value for each in State)}") from None


def _text(given: Mapping[str, json_bytes.Json], name: str) -> str | None:
    text = given.get(name)
    if not isinstance(text, str | None):
        raise Invalid(f"'{name}' is {json_bytes.kind(text)}, not a string")
    return text


def topic_of(value: json_bytes.Json) -> TopicStatus:
    """Raises `Invalid`."""
    given = config_records.fields(config_records.fields(value).get("topic"))
    task = json_bytes.integer(given.get("task"))
    discovered_ms = json_bytes.integer(given.get("discoverTimestamp"))
    if task is None or discovered_ms is None:
        raise Invalid("'task' and 'discoverTimestamp' of a topic are integers")
    return TopicStatus(
        topic=_text(given, "name") or "",
        connector=_text(given, "connector") or "",
        task=task,
        discovered_ms=discovered_ms,
    )
