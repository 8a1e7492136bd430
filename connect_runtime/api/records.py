"""SourceRecord and SinkRecord, and their headers.

Headers are an ordered list in which a name may occur several times (Java's ConnectHeaders).
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from connect_runtime.api import schema, structs
from connect_runtime.api.errors import DataError
from connect_runtime.api.schema import Schema
from connect_runtime.api.structs import Struct


@dataclass(frozen=True, slots=True)
class Header:
    """A record header. If `schema` is omitted and the value is a Struct, `schema` defaults to the
    struct's schema."""

    key: str
    value: Any
    schema: Schema | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.key, str):
            raise DataError("Null header keys are not permitted")
        if self.schema is None and isinstance(self.value, Struct):
            object.__setattr__(self, "schema", self.value.schema)

    def rename(self, key: str) -> Header:
        return Header(key, self.value, self.schema)


HeaderChange = Callable[[Header], Header | None]
"""Returns the replacement for a header, or None to remove the header."""


class Headers:
    """Mutable list of record headers for transforms. Methods that modify the list return it."""

    __slots__ = ("_headers",)

    def __init__(self, headers: Iterable[Header] = ()) -> None:
        self._headers = list(headers)

    def add(self, key: str, value: Any, described: Schema | None = None) -> Headers:
        """Append a header to this list. Raises DataError if the value's class does not match the
        schema."""
        if described is not None:
            _check_header_value(described, value)
        return self.append(Header(key, value, described))

    def add_string(self, key: str, value: str | None) -> Headers:
        has = schema.OPTIONAL_STRING_SCHEMA if value is None else schema.STRING_SCHEMA
        return self.add(key, value, has)

    def add_bytes(self, key: str, value: bytes | None) -> Headers:
        has = schema.OPTIONAL_BYTES_SCHEMA if value is None else schema.BYTES_SCHEMA
        return self.add(key, value, has)

    def append(self, header: Header) -> Headers:
        self._headers.append(header)
        return self

    def last_with_name(self, key: str) -> Header | None:
        return next((each for each in reversed(self._headers) if each.key == key), None)

    def all_with_name(self, key: str) -> list[Header]:
        return [each for each in self._headers if each.key == key]

    def remove(self, key: str) -> Headers:
        """Remove all headers with this name."""
        self._headers = [each for each in self._headers if each.key != key]
        return self

    def retain_latest(self, key: str | None = None) -> Headers:
        """Keep only the last header of each name. If `key` is given, do this only for headers named
        `key`, and keep all other headers."""
        kept: list[Header] = []
        seen: set[str] = set()
        for each in reversed(self._headers):
            if each.key in seen and key in (None, each.key):
                continue
            seen.add(each.key)
            kept.append(each)
        self._headers = kept[::-1]
        return self

    def apply(self, change: HeaderChange, key: str | None = None) -> Headers:
        """Replace every header, or every header named `key`, with the header that `change` returns
        for it. Headers for which `change` returns None are removed. The order is kept."""
        changed = (change(each) if key in (None, each.key) else each for each in self._headers)
        self._headers = [each for each in changed if each is not None]
        return self

    def clear(self) -> Headers:
        self._headers.clear()
        return self

    def duplicate(self) -> Headers:
        return Headers(self._headers)

    def __iter__(self) -> Iterator[Header]:
        return iter(self._headers)

    def __len__(self) -> int:
        return len(self._headers)

    def __eq__(self, other: object) -> bool:
        return self._headers == other._headers if isinstance(other, Headers) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # mutable

    def __repr__(self) -> str:
        return f"Headers({self._headers})"


def _check_header_value(described: Schema, value: Any) -> None:
    """Check the class of a header value against its schema. As in Java, elements of lists, mappings
    and structs are not checked."""
    if value is None:
        if not described.optional:
            raise DataError(f"A null value requires an optional schema but was {described!r}")
    elif not structs.is_value_class_valid(described, value):
        raise DataError(
            f"A header value of class {type(value).__name__} is not compatible with "
            f"the schema {described!r}"
        )


AnyRecord = TypeVar("AnyRecord", bound="ConnectRecord")

_CHANGEABLE_FIELDS = frozenset(
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
    """Origin of a consumed record's timestamp, such as create time or log append time. Each
    member's value is Kafka's numeric code."""

    NO_TIMESTAMP_TYPE = -1
    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectRecord:
    """Base class of records. Two records are equal if all fields are equal. Records are not
    hashable.

    A key or value without a schema is schemaless data: numbers, strings, bytes, lists, mappings.
    """

    topic: str
    kafka_partition: int | None = None
    key_schema: Schema | None = None
    key: Any = None
    value_schema: Schema | None = None
    value: Any = None
    timestamp: int | None = None
    """Timestamp in milliseconds since 1970-01-01 UTC."""
    headers: Headers = field(default_factory=Headers)

    __hash__ = None  # type: ignore[assignment]  # parts of it are mutable

    def new_record(self: AnyRecord, **changes: Any) -> AnyRecord:
        """Return a copy of this record with the given fields changed.

        Allowed fields are `topic`, `kafka_partition`, `key_schema`, `key`, `value_schema`, `value`,
        `timestamp` and `headers`; any other name raises TypeError. All other fields are kept,
        including a SourceRecord's source partition and offset and a SinkRecord's original topic,
        partition and offset. Headers are copied.
        """
        unknown = sorted(set(changes) - _CHANGEABLE_FIELDS)
        if unknown:
            raise TypeError(f"new_record cannot change {', '.join(unknown)}")
        given: Iterable[Header] = changes.get("headers", self.headers)
        changes["headers"] = Headers(given)
        return dataclasses.replace(self, **changes)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRecord(ConnectRecord):
    """A record to write to Kafka, with the source position from which to resume after the record.

    The source partition and source offset may contain only JSON values. No position is committed
    for a record without a source partition or source offset.
    """

    source_partition: Mapping[str, Any] | None = None
    """Partition of the source, such as `{"filename": "a.txt"}`."""
    source_offset: Mapping[str, Any] | None = None
    """Position after this record in the source partition, such as `{"position": 17}`."""

    __hash__ = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkRecord(ConnectRecord):
    """A record consumed from Kafka.

    The `original_…` fields are the position from which the record was consumed, even if transforms
    changed the topic or partition (KIP-793). Use them to track offsets and in `pre_commit`. They
    default to the record's current position.
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
    """Position at which a source record was written to Kafka."""

    topic: str
    partition: int
    offset: int
    """Offset of the record; -1 if the producer received no offset."""
    timestamp: int | None = None


@dataclass(frozen=True, slots=True)
class SourceOffset:
    """An offset of a source partition. If `offset` is None, the stored offset is deleted."""

    partition: Mapping[str, Any] | None
    """Source partition; None only if a user or connector uses null as the partition."""
    offset: Mapping[str, Any] | None
