"""Records: what source tasks give, what sink tasks get, and what transforms change on the way."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from connect_runtime.api import headers as header_list
from connect_runtime.api import schema

AnyRecord = TypeVar("AnyRecord", bound="ConnectRecord")

_CHANGEABLE = frozenset(
    {
        "topic",
        "kafka_partition",
        "key_schema",
        "key",
        "value_schema",
        "value",
        "timestamp",
        "headers",
    }
)


class TimestampType(enum.Enum):
    """Who set a consumed record's timestamp; the value is Kafka's number for it."""

    NO_TIMESTAMP_TYPE = -1
    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectRecord:
    """What both kinds share. Equal if all parts are; unhashable, as its parts may be.

    `timestamp` is in milliseconds since 1970-01-01 UTC. A key or value without a schema is
    schemaless data: numbers, text, bytes, lists, mappings.
    """

    topic: str
    kafka_partition: int | None = None
    key_schema: schema.Schema | None = None
    key: Any = None
    value_schema: schema.Schema | None = None
    value: Any = None
    timestamp: int | None = None
    headers: header_list.Headers = field(default_factory=header_list.Headers)

    __hash__ = None  # type: ignore[assignment]  # parts of it are mutable

    def new_record(self: AnyRecord, **changes: Any) -> AnyRecord:
        """This record with some of `topic`, `kafka_partition`, `key_schema`, `key`,
        `value_schema`, `value`, `timestamp`, `headers` changed.

        Everything else stays, above all where the record came from. Headers that are not given
        are copied. Raises TypeError for any other name.
        """
        unknown = sorted(set(changes) - _CHANGEABLE)
        if unknown:
            raise TypeError(f"new_record cannot change {', '.join(unknown)}")
        given: Iterable[header_list.Header] = changes.get("headers", self.headers)
        changes["headers"] = header_list.Headers(given)
        return dataclasses.replace(self, **changes)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRecord(ConnectRecord):
    """A record for Kafka, with what the source must know to go on after it.

    `source_partition` names a part of the source, such as `{"filename": "a.txt"}`, and
    `source_offset` the place behind this record in it, such as `{"position": 17}`; both of JSON's
    types. None for either: no offset is kept.
    """

    source_partition: Mapping[str, Any] | None = None
    source_offset: Mapping[str, Any] | None = None

    __hash__ = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkRecord(ConnectRecord):
    """A record from Kafka.

    `original_…` say where it was consumed, whatever transforms have made of its topic and
    partition (KIP-793): it is those that a task's own bookkeeping and `pre_commit` need. Left
    out, they are this record's own.
    """

    kafka_offset: int
    timestamp_type: TimestampType = TimestampType.NO_TIMESTAMP_TYPE
    original_topic: str = field(default=None)  # type: ignore[assignment]  # set below
    original_kafka_partition: int = field(default=None)  # type: ignore[assignment]  # set below
    original_kafka_offset: int = field(default=None)  # type: ignore[assignment]  # set below

    __hash__ = None

    def __post_init__(self) -> None:
        for name in ("topic", "kafka_partition", "kafka_offset"):
            if getattr(self, f"original_{name}") is None:
                object.__setattr__(self, f"original_{name}", getattr(self, name))


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordMetadata:
    """Where a source record is now; `offset` is -1 if the producer was not told."""

    topic: str
    partition: int
    offset: int
    timestamp: int | None = None


@dataclass(frozen=True, slots=True)
class SourceOffset:
    """A place in a part of the source; `offset` None is its removal.

    `partition` None: users may say so, and a connector may keep an offset for no part at all.
    """

    partition: Mapping[str, Any] | None
    offset: Mapping[str, Any] | None
