"""Fetch requests and responses without copying records, and incremental fetch sessions (KIP-227).

Supports versions 12 (topics by name) to 17 (topics by id since 13). The `records` of a decoded
partition are a view of the response body. The view is writable if the body is, so that batches can
be patched in place. Unit tests compare the codec with kio's encoding.

The broker remembers the partitions and offsets of a fetch session. A request contains only changed
partitions and a response only partitions with new data, so idle partitions cost nothing. A session
has at most one request in flight, because its epoch counts requests. Lost, rejected and closed
sessions are handled as in Java's FetchSessionHandler.
"""

from __future__ import annotations

import struct
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from connect_runtime.protocol import api_versions, varints
from connect_runtime.protocol.request_errors import MalformedResponseError

FETCH_MIN_VERSION, FETCH_MAX_VERSION = 12, 17
TOPIC_NAME_VERSIONS = (12, 12)
"""Range of Fetch versions that identify topics by name."""
_REPLICA_IS_TAGGED = 15

# replica_id, max_wait, min_bytes, max_bytes, isolation_level, session_id, session_epoch
_REQUEST_HEAD_WITH_REPLICA = struct.Struct(">iiiibii")
_REQUEST_HEAD = struct.Struct(">iiibii")
# partition, leader epoch, fetch_offset, last_fetched_epoch, log_start_offset, max_bytes, tags
_REQUESTED_PARTITION = struct.Struct(">iiqiqib")
_INDEX = struct.Struct(">i")
# throttle_ms, error_code, session_id
_RESPONSE_HEAD = struct.Struct(">ihi")
# partition, error_code, high_watermark, last_stable_offset, log_start_offset
_PARTITION = struct.Struct(">ihqqq")
# producer_id, first_offset, tags
_ABORTED = struct.Struct(">qqb")
# preferred_read_replica
_REPLICA = struct.Struct(">i")
# epoch, end_offset | leader_id, leader_epoch
_DIVERGING = struct.Struct(">iq")
_LEADER = struct.Struct(">ii")

ABORTED_TRANSACTIONS_MAX = 1_000_000
"""Maximum number of aborted transactions in a response. An aborted transaction occupies more than
100 bytes of the fetched log, so a correct broker returns far fewer."""

_TAG_DIVERGING = 0
_TAG_LEADER = 1


class FetchRequestPartition(NamedTuple):
    """Fetch parameters of one partition. `topic_id` is 16 bytes long. An unknown epoch is -1."""

    topic: str
    topic_id: bytes
    partition: int
    leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    max_bytes: int


class FetchResponsePartition(NamedTuple):
    """One partition of a Fetch response.

    With topic ids (version 13 and later), `topic` is ""; otherwise `topic_id` is all zeros.
    """

    topic: str
    topic_id: bytes
    partition: int
    error_code: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: list[tuple[int, int]]
    """Aborted transactions as (producer_id, first_offset), in the broker's order (not sorted)."""
    preferred_read_replica: int
    diverging_end_offset: int
    """End offset at which the leader's log diverges from the fetched log (KIP-595); -1 if the logs
    do not diverge."""
    current_leader: tuple[int, int] | None
    """(node id, leader epoch) of the current leader, if the broker reported it with error 6 or 74;
    otherwise None."""
    records: memoryview
    diverging_epoch: int = -1
    """Leader epoch of `diverging_end_offset`; -1 if the logs do not diverge."""


class FetchResponse(NamedTuple):
    """A decoded Fetch response. It has no partitions if `error_code` is not 0."""

    throttle_ms: int
    error_code: int
    session_id: int
    partitions: list[FetchResponsePartition]


def choose_fetch_versions(topic_ids: Iterable[bytes]) -> tuple[int, int]:
    """Return the lowest and highest Fetch version for a request that reads topics with these ids.

    As in Java's consumer (`AbstractFetch`), topics are identified by id, or all by name if any
    topic has no id. Brokers of Kafka 3.1 to 3.9 on ZooKeeper support Fetch versions that require
    topic ids, but assign no topic ids while inter.broker.protocol.version is below 2.8.
    """
    return TOPIC_NAME_VERSIONS if varints.NO_TOPIC_ID in topic_ids else api_versions.FETCH_VERSIONS


def encode_fetch_request(
    version: int,
    *,
    max_wait_ms: int,
    min_bytes: int,
    max_bytes: int,
    isolation_level: int,
    session_id: int,
    session_epoch: int,
    partitions: Iterable[FetchRequestPartition],
    forgotten: Iterable[FetchRequestPartition],
    rack_id: str,
) -> bytes:
    """Encode the body of a Fetch request (without the header). Partitions are grouped by topic and
    otherwise keep their order."""
    assert FETCH_MIN_VERSION <= version <= FETCH_MAX_VERSION, version
    limits = (max_wait_ms, min_bytes, max_bytes, isolation_level, session_id, session_epoch)
    if version < _REPLICA_IS_TAGGED:
        out = bytearray(_REQUEST_HEAD_WITH_REPLICA.pack(-1, *limits))
    else:
        out = bytearray(_REQUEST_HEAD.pack(*limits))
    asked: dict[bytes, list[bytes]] = {}
    for part in partitions:
        row = _REQUESTED_PARTITION.pack(part[2], part[3], part[4], part[5], -1, part[6], 0)
        asked.setdefault(_encode_topic_key(version, part), []).append(row)
    _write_topics(out, asked)
    dropped: dict[bytes, list[bytes]] = {}
    for part in forgotten:
        dropped.setdefault(_encode_topic_key(version, part), []).append(_INDEX.pack(part[2]))
    _write_topics(out, dropped)
    out += varints.encode_compact_string(rack_id)
    out.append(0)
    return bytes(out)


def _encode_topic_key(version: int, part: FetchRequestPartition) -> bytes:
    return (
        part[1]
        if version >= varints.FIRST_VERSION_BY_TOPIC_ID
        else varints.encode_compact_string(part[0])
    )


def _write_topics(out: bytearray, topics: dict[bytes, list[bytes]]) -> None:
    out += varints.encode_varint(len(topics) + 1)
    for key, rows in topics.items():
        out += key
        out += varints.encode_varint(len(rows) + 1)
        out += b"".join(rows)
        out.append(0)


def decode_fetch_response(version: int, body: memoryview, *, max_partitions: int) -> FetchResponse:
    """Decode the body of a Fetch response (without the header). Raises MalformedResponseError.

    `max_partitions` is the number of requested partitions; with a fetch session, of all partitions
    of the session. A response with more partitions, or with more than `ABORTED_TRANSACTIONS_MAX`
    aborted transactions, is malformed.
    """
    assert FETCH_MIN_VERSION <= version <= FETCH_MAX_VERSION, version
    try:
        return _decode_response_body(version, body, max_partitions)
    except (struct.error, IndexError, ValueError) as error:
        raise MalformedResponseError("fetch", version, str(error)) from error


def _decode_response_body(version: int, body: memoryview, max_partitions: int) -> FetchResponse:
    throttle_ms, error_code, session_id = _RESPONSE_HEAD.unpack_from(body)
    found, position = varints.decode_topic_partitions(
        body,
        _RESPONSE_HEAD.size,
        _PartitionDecoder(ABORTED_TRANSACTIONS_MAX).decode,
        version=version,
        max_partitions=max_partitions,
    )
    position = varints.skip_tagged_fields(body, position)
    if position != len(body):
        raise ValueError(f"{len(body) - position} unexpected bytes at the end")
    return FetchResponse(throttle_ms, error_code, session_id, found)


@dataclass(slots=True)
class _PartitionDecoder:
    """Decodes the partitions of one response."""

    aborted_left: int
    """Number of aborted transactions that the rest of the response may contain. A response with
    more is malformed."""

    def decode(
        self, body: memoryview, position: int, topic: str, topic_id: bytes
    ) -> tuple[FetchResponsePartition, int]:
        index, error_code, high, stable, start = _PARTITION.unpack_from(body, position)
        position += _PARTITION.size
        aborted: list[tuple[int, int]] = []
        count = body[position]
        if count <= 1:
            position += 1
        else:
            aborted, position = self._decode_aborted_transactions(body, position)
        (replica,) = _REPLICA.unpack_from(body, position)
        size, position = varints.read_varint(body, position + 4)
        end = position + size - 1 if size else position
        if end >= len(body):
            raise IndexError(
                f"{size - 1} bytes of records at {position}, {len(body) - position} left"
            )
        records = body[position:end]
        if body[end] == 0:
            part = (
                topic, topic_id, index, error_code, high, stable, start, aborted, replica, -1, None,
                records, -1,
            )  # fmt: skip
            return tuple.__new__(FetchResponsePartition, part), end + 1
        epoch, end_offset, leader, position = _decode_partition_tags(body, end)
        return FetchResponsePartition(
            topic, topic_id, index, error_code, high, stable, start, aborted, replica, end_offset,
            leader, records, epoch,
        ), position  # fmt: skip

    def _decode_aborted_transactions(
        self, body: memoryview, position: int
    ) -> tuple[list[tuple[int, int]], int]:
        count, position = varints.read_varint(body, position)
        self.aborted_left -= count - 1
        if self.aborted_left < 0:
            raise ValueError(f"more than {ABORTED_TRANSACTIONS_MAX} aborted transactions")
        aborted: list[tuple[int, int]] = []
        for _ in range(count - 1):
            producer_id, first_offset, tags = _ABORTED.unpack_from(body, position)
            aborted.append((producer_id, first_offset))
            position += _ABORTED.size
            if tags:
                position = varints.skip_tagged_fields(body, position - 1)
        return aborted, position


def _decode_partition_tags(
    body: memoryview, position: int
) -> tuple[int, int, tuple[int, int] | None, int]:
    """Decode a partition's tagged fields. Returns (diverging epoch, diverging end offset, current
    leader, next position)."""
    fields, position = varints.read_tagged_fields(body, position)
    epoch, end_offset, leader = -1, -1, None
    if _TAG_DIVERGING in fields:
        epoch, end_offset = _DIVERGING.unpack_from(fields[_TAG_DIVERGING])
    if _TAG_LEADER in fields:
        leader = _LEADER.unpack_from(fields[_TAG_LEADER])
    return epoch, end_offset, leader, position


SESSION_NOT_FOUND = 70
NO_SESSION_ID = 0
INITIAL_SESSION_EPOCH = 0
"""Session epoch of a full Fetch request. A full request closes the session with the given id, if
any, and opens a new session."""
_MAX_SESSION_EPOCH = 2**31 - 1


class FetchSessionRequest(NamedTuple):
    """Session fields and partition lists of a Fetch request within a fetch session."""

    session_id: int
    session_epoch: int
    partitions: list[FetchRequestPartition]
    forgotten: list[FetchRequestPartition]


@dataclass(slots=True)
class FetchSession:
    """The fetch session with one broker: the partitions to fetch, and the partitions that the
    broker knows.

    A partition remains in the session until `remove_partition` is called; call it to stop or to
    pause fetching the partition.

    Invariant: `_changed` contains every key that has different values in `_wanted` and `_known`.
    """

    _wanted: dict[Hashable, FetchRequestPartition] = field(default_factory=dict)
    _known: dict[Hashable, FetchRequestPartition] = field(default_factory=dict)
    _changed: dict[Hashable, None] = field(default_factory=dict)
    _session_id: int = NO_SESSION_ID
    _epoch: int = INITIAL_SESSION_EPOCH
    _in_flight: FetchSessionRequest | None = None

    def set_partition(self, key: Hashable, partition: FetchRequestPartition) -> None:
        """Add a partition to the session or change its fetch parameters. Call whenever the fetch
        offset changes."""
        if self._wanted.get(key) != partition:
            self._wanted[key] = partition
            self._changed[key] = None

    def remove_partition(self, key: Hashable) -> None:
        """Stop fetching a partition. Does nothing if the session does not contain the partition."""
        if self._wanted.pop(key, None) is not None:
            self._changed[key] = None

    def count_partitions(self) -> int:
        """Return the number of partitions to fetch. If it is 0, no Fetch request is needed."""
        return len(self._wanted)

    def count_requested_partitions(self) -> int:
        """Return the number of partitions that a response to the newest request may contain."""
        return len(self._known)

    def get_requested_partition(self, key: Hashable) -> FetchRequestPartition | None:
        """Return the fetch parameters that were last sent to the broker for a partition; None if
        the broker's session does not contain the partition."""
        return self._known.get(key)

    def is_in_flight(self) -> bool:
        """Return whether a Fetch request of this session is in flight."""
        return self._in_flight is not None

    def start_next_request(self) -> FetchSessionRequest:
        """Build the next Fetch request of the session. Call `on_response` or `on_request_failed`
        before the next call."""
        assert self._in_flight is None, "a fetch session can have only one request in flight"
        request = (
            self._build_full_request()
            if self._epoch == INITIAL_SESSION_EPOCH
            else self._build_incremental_request()
        )
        self._changed.clear()
        self._in_flight = request
        return request

    def on_response(self, response: FetchResponse) -> None:
        """Update the session from a Fetch response, including one with a top-level error code.
        Errors of single partitions are ignored."""
        request, self._in_flight = self._in_flight, None
        assert request is not None, "response without a request"
        if response.error_code != 0:
            gone = response.error_code == SESSION_NOT_FOUND
            self._restart_session(NO_SESSION_ID if gone else request.session_id)
        elif request.session_epoch == INITIAL_SESSION_EPOCH:
            self._on_session_opened(request, response)
        elif response.session_id == NO_SESSION_ID:
            self._restart_session(NO_SESSION_ID)  # the broker closed it
        else:
            self._epoch = 1 if self._epoch == _MAX_SESSION_EPOCH else self._epoch + 1

    def on_request_failed(self) -> None:
        """Open a new session with the next request, because a request got no response and the state
        of the broker's session is unknown."""
        request, self._in_flight = self._in_flight, None
        assert request is not None, "failure without a request"
        self._restart_session(request.session_id)

    def check_invariants(self) -> None:
        if self._epoch == INITIAL_SESSION_EPOCH and self._in_flight is None:
            return  # the next request contains all partitions
        for key in {*self._wanted, *self._known}:
            same = self._wanted.get(key) == self._known.get(key)
            assert same or key in self._changed, key

    def _build_full_request(self) -> FetchSessionRequest:
        """Build a full Fetch request with all partitions, which opens a new session."""
        self._known = dict(self._wanted)
        return FetchSessionRequest(
            self._session_id, INITIAL_SESSION_EPOCH, list(self._known.values()), []
        )

    def _build_incremental_request(self) -> FetchSessionRequest:
        """Build an incremental Fetch request with only the changed partitions."""
        partitions: list[FetchRequestPartition] = []
        forgotten: list[FetchRequestPartition] = []
        for key in self._changed:
            wanted, known = self._wanted.get(key), self._known.get(key)
            if wanted == known:
                continue  # changed back, or dropped and requested again
            if wanted is None:
                forgotten.append(self._known.pop(key))
                continue
            if known is not None and known.topic_id != wanted.topic_id:
                forgotten.append(known)  # a recreated topic is another partition to the broker
            partitions.append(wanted)
            self._known[key] = wanted
        return FetchSessionRequest(self._session_id, self._epoch, partitions, forgotten)

    def _on_session_opened(self, request: FetchSessionRequest, response: FetchResponse) -> None:
        if response.session_id == NO_SESSION_ID:
            # The broker's session cache is full, or it throttles: every request must be full.
            self._restart_session(NO_SESSION_ID)
        elif len(response.partitions) != len(request.partitions):
            self._restart_session(response.session_id)
        else:
            self._session_id, self._epoch = response.session_id, 1

    def _restart_session(self, session_id: int) -> None:
        self._session_id, self._epoch = session_id, INITIAL_SESSION_EPOCH
        self._known.clear()
