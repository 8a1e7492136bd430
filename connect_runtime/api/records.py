"""SourceRecord and SinkRecord, with their headers.

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
    """A struct brings its schema with it; other values may go without."""

    key: str
    value: Any
    schema: Schema | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.key, str):
            raise DataError("Null header keys are not permitted")
        if self.schema is None and isinstance(self.value, Struct):
            object.__setattr__(self, "schema", self.value.schema)

    def renamed(self, key: str) -> Header:
        return Header(key, self.value, self.schema)


HeaderChange = Callable[[Header], Header | None]
"""What becomes of a header; None removes it."""


class Headers:
    """Mutable, as transforms need it; methods that change it return it."""

    __slots__ = ("_headers",)

    def __init__(self, headers: Iterable[Header] = ()) -> None:
        self._headers = list(headers)

    def add(self, key: str, value: Any, described: Schema | None = None) -> Headers:
        """Append one; DataError if the value is not of the schema's class."""
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
        """All of that name."""
        self._headers = [each for each in self._headers if each.key != key]
        return self

    def retain_latest(self, key: str | None = None) -> Headers:
        """Of each name, or of that one only, keep the last."""
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
        """Change every header, or those of that name, in its place."""
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
    """Java looks at the outermost class only, and so do we."""
    if value is None:
        if not described.optional:
            raise DataError(f"A null value requires an optional schema but was {described!r}")
    elif not structs.has_matching_class(described, value):
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
    key_schema: Schema | None = None
    key: Any = None
    value_schema: Schema | None = None
    value: Any = None
    timestamp: int | None = None
    headers: Headers = field(default_factory=Headers)

    __hash__ = None  # type: ignore[assignment]  # parts of it are mutable

    def new_record(self: AnyRecord, **changes: Any) -> AnyRecord:
        """This record with some of `topic`, `kafka_partition`, `key_schema`, `key`,
        `value_schema`, `value`, `timestamp`, `headers` changed.

        Everything else stays, above all where the record came from. Headers that are not given
        are copied. Raises TypeError for any other name.
        """
        unknown = sorted(set(changes) - _CHANGEABLE_FIELDS)
        if unknown:
            raise TypeError(f"new_record cannot change {', '.join(unknown)}")
        given: Iterable[Header] = changes.get("headers", self.headers)
        changes["headers"] = Headers(given)
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
