"""Limits of the memory that the records of a worker's internal topics (configs, offsets, statuses)
occupy.

Brokers limit only the compressed size of a record, so a topic of some 100 KB can contain gigabytes.
`TopicStateSize` estimates the memory that the newest record of each key occupies, and decides
whether the next record is applied.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from connect_runtime.storage import config_records, offset_topic, status_records
from connect_runtime.storage.config_records import ConfigRecordKind, InvalidRecord
from connect_runtime.storage.offset_topic import InvalidSourceOffset

STATE_BYTES_MAX = 64 * 1024 * 1024
"""Maximum memory in bytes for the records of a config topic or a status topic, and for the source
offsets of one flow of `mm2 run`."""
OFFSET_BYTES_MAX = 512 * 1024 * 1024
"""Maximum memory in bytes for the records of the offsets topic of a Connect worker."""
VALUE_BYTES_MAX = 1024 * 1024
"""Maximum size of a record's value in bytes. Brokers reject larger records by default."""
KEY_BYTES_MAX = 64 * 1024
"""Maximum size of a record's key in bytes."""
FETCH_BYTES = 1024 * 1024
"""Maximum compressed size of the batches that a Connect worker reads at once."""
FLOW_FETCH_BYTES = 16 * 1024
"""Maximum compressed size of the batches that a flow of `mm2 run` reads at once. They can occupy up
to about 20,000 times as much memory while they are read (zstd)."""
RECORD_OVERHEAD_BYTES = 512
"""Estimated memory of the objects that are created for a record, in addition to its contents."""
FIELD_OVERHEAD_BYTES = 256
"""Estimated memory of the objects that are created for a field of a JSON object."""
_WIDE_TEXT_FACTOR = 4
"""Python stores a text with 4 bytes per character if one of its characters needs them."""

IsKeptKey = Callable[[bytes], bool]
"""Decides by the record key whether a record is applied. Other records are ignored."""


def _keep_all_keys(_: bytes) -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicStateLimits:
    """Limits of the state that is built from one internal topic."""

    bytes_max: int = STATE_BYTES_MAX
    """Maximum estimated memory in bytes. Records with new keys are not kept above it. Known keys
    may grow up to a quarter above it."""
    is_kept_key: IsKeptKey = _keep_all_keys
    keeps_deleted_keys: bool = False
    """True if the state keeps an entry for a deleted key, for example a deleted connector."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerStateLimits:
    """Limits of a worker's state: its configurations, source offsets and statuses."""

    configs: TopicStateLimits = TopicStateLimits(keeps_deleted_keys=True)
    offsets: TopicStateLimits = TopicStateLimits(bytes_max=OFFSET_BYTES_MAX)
    statuses: TopicStateLimits = TopicStateLimits(keeps_deleted_keys=True)
    fetch_bytes: int = FETCH_BYTES


CONNECT_WORKER_LIMITS = WorkerStateLimits()
"""Limits of a worker that runs every stored connector."""


def build_fixed_connector_limits(
    connectors: Collection[str], *, with_offsets: Collection[str]
) -> WorkerStateLimits:
    """Build the limits of a worker that runs only `connectors`: records of all other connectors are
    ignored. Source offsets are kept only for the connectors `with_offsets`."""
    names, offset_names = frozenset(connectors), frozenset(with_offsets)
    return WorkerStateLimits(
        configs=TopicStateLimits(
            is_kept_key=lambda key: _is_config_key_of(key, names), keeps_deleted_keys=True
        ),
        offsets=TopicStateLimits(is_kept_key=lambda key: _is_offset_key_of(key, offset_names)),
        statuses=TopicStateLimits(
            is_kept_key=lambda key: _is_status_key_of(key, names), keeps_deleted_keys=True
        ),
        fetch_bytes=FLOW_FETCH_BYTES,
    )


def _is_config_key_of(key: bytes, connectors: frozenset[str]) -> bool:
    try:
        kind, rest = config_records.split_record_key(key.decode("utf-8", "replace"))
        if kind is ConfigRecordKind.TASK:
            return config_records.parse_task_id(rest).connector in connectors
    except InvalidRecord:
        return False
    return kind in (ConfigRecordKind.LOGGER, ConfigRecordKind.SESSION_KEY) or rest in connectors


def _is_offset_key_of(key: bytes, connectors: frozenset[str]) -> bool:
    try:
        return offset_topic.decode_offset_key(key).connector in connectors
    except InvalidSourceOffset:
        return False


def _is_status_key_of(key: bytes, connectors: frozenset[str]) -> bool:
    try:
        subject = status_records.split_status_key(key.decode("utf-8", "replace"))
    except InvalidRecord:
        return False
    return (subject if isinstance(subject, str) else subject.connector) in connectors


class RecordAdmission(enum.Enum):
    """Decision whether a record is applied to a topic state."""

    APPLY = enum.auto()
    IGNORE = enum.auto()
    """The record does not concern this worker."""
    TOO_LARGE = enum.auto()
    """The record's key or value is larger than any valid record."""
    NO_ROOM = enum.auto()
    """Applying the record could exceed the state's memory limit."""


@dataclass(slots=True)
class TopicStateSize:
    """Estimated memory of a topic state, by record key. Call `admit_record` with each record before
    it is applied.

    Invariant: `total_bytes` is the sum of the values of `_bytes_by_key`.
    """

    limits: TopicStateLimits
    total_bytes: int = 0
    is_incomplete: bool = False
    """True if a record was not applied because there was no room for it."""
    _bytes_by_key: dict[bytes, int] = field(default_factory=dict)

    def admit_record(self, key: bytes | None, value: bytes | None) -> RecordAdmission:
        """Decide whether the next record is applied, and count it if so. A tombstone frees the room
        of its key."""
        if key is None:
            return RecordAdmission.APPLY  # every state skips a record without a key
        if len(key) > KEY_BYTES_MAX or (value is not None and len(value) > VALUE_BYTES_MAX):
            return RecordAdmission.TOO_LARGE
        if not self.limits.is_kept_key(key):
            return RecordAdmission.IGNORE
        if value is None and not self.limits.keeps_deleted_keys:
            self._count_key(key, 0)
            return RecordAdmission.APPLY
        size = estimate_record_memory(key, value)
        growth = size - self._bytes_by_key.get(key, 0)
        most = self.limits.bytes_max
        if key in self._bytes_by_key:
            most += most // 4
        if growth > 0 and self.total_bytes + growth > most:
            self.is_incomplete = self.is_incomplete or value is not None
            return RecordAdmission.NO_ROOM
        self._count_key(key, size)
        return RecordAdmission.APPLY

    def _count_key(self, key: bytes, size: int) -> None:
        self.total_bytes += size - self._bytes_by_key.pop(key, 0)
        if size:
            self._bytes_by_key[key] = size

    def check_invariants(self) -> None:
        assert self.total_bytes == sum(self._bytes_by_key.values())


def estimate_record_memory(key: bytes, value: bytes | None) -> int:
    """Estimate the memory in bytes that a record occupies once it is decoded."""
    return RECORD_OVERHEAD_BYTES + _estimate_text_memory(key) + _estimate_text_memory(value or b"")


def _estimate_text_memory(text: bytes) -> int:
    """Estimate the memory of an encoded JSON text. Each colon may separate the name and the value
    of a field."""
    is_wide = not text.isascii() or b"\\u" in text
    return len(text) * (_WIDE_TEXT_FACTOR if is_wide else 1) + FIELD_OVERHEAD_BYTES * text.count(
        b":"
    )
