"""Records of the config topic: what is written, and what their keys and values mean.

Keys are plain strings, values JSON without schemas. The key of a connector or a logger ends with
its name, whatever characters that has. Formats: KafkaConfigBackingStore; KIP-507 (session key),
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

from connect_runtime.base import ids
from connect_runtime.core.state import cluster_config, json_bytes


class Kind(enum.Enum):
    """What a record is about: its key begins with this. Tried in this order."""

    TARGET_STATE = "target-state-"
    CONNECTOR = "connector-"
    TASK = "task-"
    COMMIT = "commit-"
    RESTART = "restart-connector-"
    FENCING = "tasks-fencing-"
    LOGGER = "logger-cluster-"
    SESSION_KEY = "session-key"


_TASK_NUMBER = re.compile(r"[0-9]{1,10}")
_INT32_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One record to write; value None deletes its key."""

    key: bytes
    value: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartRequest:
    """Restart a connector: with its tasks or without, all of that or only what failed."""

    connector: str
    include_tasks: bool = False
    only_failed: bool = False

    @property
    def impact(self) -> int:
        """0 to 3: of two requests for one connector the one that restarts more is carried out."""
        return 2 * (not self.only_failed) + self.include_tasks


# What is written


def connector(name: str, config: cluster_config.RawConfig) -> Record:
    """`connector-C`: the connector is, or is now, configured like this."""
    return _record(Kind.CONNECTOR.value + name, {"properties": dict(config)})


def removal(name: str) -> tuple[Record, Record]:
    """The connector and its target state are gone; to be written in this order, at once."""
    return (
        Record(key=key_bytes(Kind.CONNECTOR.value + name), value=None),
        Record(key=key_bytes(Kind.TARGET_STATE.value + name), value=None),
    )


def target_state(name: str, state: cluster_config.TargetState) -> Record:
    """`target-state-C`. Workers before 3.5 know no STOPPED: for them it is PAUSED."""
    stopped = state is cluster_config.TargetState.STOPPED
    older = cluster_config.TargetState.PAUSED if stopped else state
    return _record(Kind.TARGET_STATE.value + name, {"state": older.value, "state.v2": state.value})


def creation(
    name: str,
    config: cluster_config.RawConfig,
    state: cluster_config.TargetState | None = None,
) -> tuple[Record, ...]:
    """A connector's configuration; a target state, where one is wanted, goes before it."""
    written = connector(name, config)
    return (written,) if state is None else (target_state(name, state), written)


def task_configs(name: str, configs: Sequence[cluster_config.RawConfig]) -> tuple[Record, ...]:
    """`task-C-N` for each; they mean nothing before `commit` follows.

    That must be written only after these were read back.
    """
    return tuple(
        _record(f"{Kind.TASK.value}{name}-{number}", {"properties": dict(config)})
        for number, config in enumerate(configs)
    )


def commit(name: str, tasks: int) -> Record:
    """`commit-C`: the task configs written before are complete, and there are that many."""
    return _record(Kind.COMMIT.value + name, {"tasks": tasks})


def restart(request: RestartRequest) -> Record:
    """`restart-connector-C`: every worker restarts what it runs of it."""
    value = {"include-tasks": request.include_tasks, "only-failed": request.only_failed}
    return _record(Kind.RESTART.value + request.connector, value)


def fencing_count(name: str, tasks: int) -> Record:
    """`tasks-fencing-C`: so many producers were fenced before these tasks."""
    return _record(Kind.FENCING.value + name, {"task-count": tasks})


def session_key(key: cluster_config.SessionKey) -> Record:
    """`session-key`: from now on requests between workers are signed with this one."""
    value: dict[str, json_bytes.Json] = {
        "key": base64.b64encode(key.key).decode(),
        "algorithm": key.algorithm,
        "creation-timestamp": key.created_ms,
    }
    return _record(Kind.SESSION_KEY.value, value)


def logger_level(namespace: str, level: str) -> Record:
    """`logger-cluster-…`: every worker logs this namespace at this level."""
    return _record(Kind.LOGGER.value + namespace, {"level": level})


def _record(key: str, value: json_bytes.Json) -> Record:
    return Record(key=key_bytes(key), value=json_bytes.encode(value))


def key_bytes(key: str) -> bytes:
    """As Java's serializer of strings: half of a surrogate pair becomes a question mark."""
    return key.encode("utf-8", "replace")


# What is read

Fields: TypeAlias = Mapping[str, json_bytes.Json]


class Invalid(Exception):
    """A record that says nothing; the message says why. It names no value: they may be secret."""


def split_key(key: str) -> tuple[Kind, str]:
    """What the record is about, and the rest of its key: mostly a name. Raises `Invalid`."""
    for kind in Kind:
        if kind is Kind.SESSION_KEY and key == kind.value:
            return kind, ""
        if kind is not Kind.SESSION_KEY and key.startswith(kind.value):
            return kind, key.removeprefix(kind.value)
    raise Invalid("no record of the config topic has such a key")


def task_id(rest: str, *, before: str = "task-") -> ids.ConnectorTaskId:
    """The task of `C-N`, the rest of a key: N is what follows the last dash. Raises `Invalid`.

    `before` is how such a key begins, for messages.
    """
    name, dash, number = rest.rpartition("-")
    if not dash or not _TASK_NUMBER.fullmatch(number) or int(number) > _INT32_MAX:
        raise Invalid(f"the key names no task: {before}CONNECTOR-NUMBER was expected")
    return ids.ConnectorTaskId(name, int(number))


def fields(value: json_bytes.Json) -> Fields:
    """The members of the JSON object that every value is. Raises `Invalid`."""
    if not isinstance(value, Mapping):
        raise Invalid(f"the value is {json_bytes.kind(value)}, not an object")
    return value


def properties(value: json_bytes.Json) -> cluster_config.RawConfig:
    """A configuration: names with strings or nulls. Raises `Invalid`."""
    config = fields(value).get("properties")
    if not isinstance(config, Mapping):
        raise Invalid(f"'properties' is {json_bytes.kind(config)}, not an object")
    for name, each in config.items():
        if not isinstance(each, str | None):
            raise Invalid(f"the property '{name}' is {json_bytes.kind(each)}, not a string")
    return {name: each for name, each in config.items() if isinstance(each, str | None)}


def count(value: json_bytes.Json, name: str) -> int:
    """A number of tasks. Raises `Invalid`."""
    number = json_bytes.integer(fields(value).get(name))
    if number is None or not 0 <= number <= _INT32_MAX:
        raise Invalid(f"'{name}' is no number of tasks")
    return number


def state_of(value: json_bytes.Json) -> cluster_config.TargetState:
    """`state.v2`, or `state` where an older worker wrote. Raises `Invalid`."""
    given = fields(value).get("state.v2")
    if not isinstance(given, str):
        given = fields(value).get("state")
    if not isinstance(given, str):
        raise Invalid(f"'state' is {json_bytes.kind(given)}, not a string")
    try:
        return cluster_config.TargetState(given)
    except ValueError:
        known = ", ".join(each.value for each in cluster_config.TargetState)
        raise Invalid(f"'{given}' is no target state; there are {known}") from None


def restart_of(name: str, value: json_bytes.Json) -> RestartRequest:
    """What is no boolean is false, as in Java. Raises `Invalid`."""
    given = fields(value)
    return RestartRequest(
        connector=name,
        include_tasks=given.get("include-tasks") is True,
        only_failed=given.get("only-failed") is True,
    )


def session_key_of(value: json_bytes.Json) -> cluster_config.SessionKey:
    """Raises `Invalid`."""
    given = fields(value)
    key, algorithm = given.get("key"), given.get("algorithm")
    created_ms = json_bytes.integer(given.get("creation-timestamp"))
    if not isinstance(key, str) or not isinstance(algorithm, str) or created_ms is None:
        raise Invalid("a session key has 'key', 'algorithm' and 'creation-timestamp'")
    try:
        decoded = base64.b64decode(key, validate=True)
    except (binascii.Error, ValueError):
        raise Invalid("'key' is not base64") from None
    if not decoded or not algorithm:
        raise Invalid("the session key or its algorithm is empty")
    return cluster_config.SessionKey(key=decoded, algorithm=algorithm, created_ms=created_ms)


def level_of(value: json_bytes.Json) -> str:
    """Raises `Invalid`."""
    level = fields(value).get("level")
    if not isinstance(level, str):
        raise Invalid(f"'level' is {json_bytes.kind(level)}, not a string")
    return level
