"""Byte format of the metadata and assignments that members of a Connect group exchange.

Big-endian Kafka primitives. STRING: i16 length, UTF-8. BYTES: i32 length, -1 for null. ARRAY: i32
count, -1 for null. A member sends metadata, and its leader returns an assignment (Java:
ConnectProtocol, IncrementalCooperativeConnectProtocol, KIP-415, KIP-507):

    metadata    version i16, url STRING, config offset i64
                since V1: allocation BYTES, a whole assignment or null
    assignment  version i16, error i16, leader STRING, leader url STRING, config offset i64,
                assigned ARRAY of {connector STRING, tasks ARRAY of i32}
                since V1: revoked, an ARRAY of the same form, delay i32 (ms)

Task number -1 is the connector itself. V2 has the layout of V1 and means that internal requests are
signed. `sessioned-whole`, which does not exist in Java, has the layout of V2. Missing fields at the
end are read as null or 0, and unknown bytes at the end are ignored, so that every version can read
every other.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from connect_runtime.base.ids import ConnectorTaskId
from connect_runtime.group import connectors_and_tasks
from connect_runtime.group.connectors_and_tasks import ConnectorsAndTasks

NO_ERROR = 0
CONFIG_MISMATCH = 1
"""Assignment error code: the leader has read less of the config topic than a member. Members read
the topic to its end and rejoin."""

_CONNECTOR_ENTRY = -1
_I16 = struct.Struct(">h")
_I32 = struct.Struct(">i")
_I64 = struct.Struct(">q")
_MAX_STRING_BYTES = 0x7FFF
MAX_BYTES = 4 * 1024 * 1024
"""Maximum size of a member's metadata or assignment. Every client with READ permission on the group
can join, and without a limit the leader could spend all its time and memory on decoding
metadata."""
MAX_ITEMS = 100_000
"""Maximum number of connectors and tasks in a member's metadata or assignment."""

MAX_WORK_BYTES = 450_000
"""Maximum encoded size of all configured work that a group is assigned. The broker stores the
metadata of all members, which lists their current work, and all assignments, which list the work to
run and the work to stop, as one record of at most 1 MB (`message.max.bytes`). About half of it is
available for each of the two, because a rebalance normally stops little of the work."""
MAX_WORK_ITEMS = MAX_ITEMS // 2
"""Maximum number of configured connectors and tasks that a group is assigned. An assignment may
list as many to start and as many to stop."""


class MalformedBytesError(ValueError):
    """Raised if metadata or an assignment is malformed. The message states the problem and its
    position."""


class ConnectProtocol(enum.Enum):
    """A sub-protocol of the group, with its wire name and version.

    In every generation, the broker selects a sub-protocol that all group members support. The enum
    values are in order of increasing preference. The setting `connect.protocol` accepts `eager`,
    `compatible` and `sessioned`.
    """

    EAGER = ("default", 0)
    COMPATIBLE = ("compatible", 1)
    SESSIONED = ("sessioned", 2)
    SESSIONED_WHOLE = ("sessioned-whole", 2)
    """Not in Java: every member signs entire requests to other workers (`SignedUserRequest`), not
    only the body. Java workers do not support this protocol, so a group with a Java worker uses
    SESSIONED."""

    @property
    def wire_name(self) -> str:
        """Protocol name in JoinGroup requests."""
        return self.value[0]

    @property
    def version(self) -> int:
        """Version number in metadata and assignments."""
        return self.value[1]

    @property
    def signs_requests(self) -> bool:
        """True if internal requests between workers are signed (KIP-507)."""
        return self in (ConnectProtocol.SESSIONED, ConnectProtocol.SESSIONED_WHOLE)

    @classmethod
    def from_wire_name(cls, name: str) -> ConnectProtocol:
        """Return the protocol with this wire name. Raises ValueError for an unknown name."""
        for each in cls:
            if each.wire_name == name.lower():
                return each
        raise ValueError(
            f"the group's protocol is {name!r}, but a Connect worker supports only "
            f"{[each.wire_name for each in cls]}; check whether other clients use the group.id"
        )

    def list_supported_protocols(self) -> tuple[ConnectProtocol, ...]:
        """Return the protocols that a worker with this `connect.protocol` setting supports, in
        order of preference."""
        oldest_first = list(ConnectProtocol)
        return tuple(reversed(oldest_first[: oldest_first.index(self) + 1]))


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectAssignment:
    """Assignment that the leader sends to a member. In a member's metadata, the same structure
    lists all of the member's connectors and tasks."""

    error: int = NO_ERROR
    leader: str
    """Member id of the leader; "" if there is no assignment."""
    leader_url: str
    config_offset: int
    """Offset in the config topic on which the assignment is based."""
    assigned: ConnectorsAndTasks = connectors_and_tasks.NO_WORK
    revoked: ConnectorsAndTasks = connectors_and_tasks.NO_WORK
    delay_ms: int = 0
    """Delay after which the member rejoins; 0 if no rebalance is scheduled."""

    @property
    def failed(self) -> bool:
        """True if the leader returned an error instead of an assignment."""
        return self.error != NO_ERROR


EMPTY_ASSIGNMENT = ConnectAssignment(leader="", leader_url="", config_offset=-1)
"""The assignment that empty bytes encode: the leader left the member out, so the member's work
does not change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerMetadata:
    """Metadata that a member reports when it joins."""

    url: str
    config_offset: int
    allocation: ConnectAssignment | None = None
    """All work of the member; None before its first assignment."""

    @property
    def reported_work(self) -> ConnectorsAndTasks:
        """All connectors and tasks that the member reports."""
        return connectors_and_tasks.NO_WORK if self.allocation is None else self.allocation.assigned


# Writing


def encode_metadata(state: WorkerMetadata, protocol: ConnectProtocol) -> bytes:
    """Encode a member's metadata."""
    head = [_I16.pack(protocol.version), _encode_string(state.url), _I64.pack(state.config_offset)]
    if protocol is ConnectProtocol.EAGER:
        return b"".join(head)
    if state.allocation is None:
        return b"".join([*head, _I32.pack(-1)])
    allocation = encode_assignment(state.allocation, protocol)
    return b"".join([*head, _I32.pack(len(allocation)), allocation])


def encode_assignment(assignment: ConnectAssignment, protocol: ConnectProtocol) -> bytes:
    """Encode an assignment."""
    parts = [
        _I16.pack(protocol.version),
        _I16.pack(assignment.error),
        _encode_string(assignment.leader),
        _encode_string(assignment.leader_url),
        _I64.pack(assignment.config_offset),
        _encode_assignment_entries(assignment.assigned),
    ]
    if protocol is not ConnectProtocol.EAGER:
        parts += [_encode_assignment_entries(assignment.revoked), _I32.pack(assignment.delay_ms)]
    return b"".join(parts)


def _encode_string(text: str) -> bytes:
    encoded = text.encode()
    if len(encoded) > _MAX_STRING_BYTES:
        raise ValueError(
            f"{text[:40]!r}… has {len(encoded)} bytes; allowed: at most {_MAX_STRING_BYTES}"
        )
    return _I16.pack(len(encoded)) + encoded


def _encode_assignment_entries(content: ConnectorsAndTasks) -> bytes:
    """Encode one entry per connector name: first the connectors in `content`, then the connectors
    that have only tasks in `content`."""
    numbers: dict[str, list[int]] = {name: [_CONNECTOR_ENTRY] for name in content.connectors}
    for task in content.tasks:
        numbers.setdefault(task.connector, []).append(task.task)
    parts = [_I32.pack(len(numbers))]
    for name, tasks in numbers.items():
        parts += [_encode_string(name), struct.pack(f">{len(tasks) + 1}i", len(tasks), *tasks)]
    return b"".join(parts)


def compute_largest_encoded_size(connector: str, tasks: int, members: int) -> int:
    """Return the maximum size of a connector and its tasks in the assignments of `members` members.

    Each member that runs the connector or one of its tasks has an entry with the connector's name.
    """
    entries = min(1 + tasks, members)
    size_of_entry = _I16.size + len(connector.encode()) + _I32.size
    return entries * size_of_entry + (1 + tasks) * _I32.size


def find_unassignable_connectors(
    task_counts: Mapping[str, int], members: int, *, running: Collection[str] = ()
) -> frozenset[str]:
    """Return the connectors to leave out of the assignments, because all connectors together would
    exceed `MAX_WORK_BYTES` or `MAX_WORK_ITEMS`.

    Connectors that are not `running` are left out first, so that a new connector does not stop
    others. Among them, the largest are left out, so that as many as possible run.
    """
    sizes = {
        name: compute_largest_encoded_size(name, tasks, members)
        for name, tasks in task_counts.items()
    }
    size, items = sum(sizes.values()), sum(task_counts.values()) + len(task_counts)
    left_out: set[str] = set()
    for name in sorted(sizes, key=lambda each: (each in running, -sizes[each], each)):
        if size <= MAX_WORK_BYTES and items <= MAX_WORK_ITEMS:
            break
        left_out.add(name)
        size -= sizes[name]
        items -= 1 + task_counts[name]
    return frozenset(left_out)


# Reading


def decode_metadata(data: bytes, *, max_items: int = MAX_ITEMS) -> WorkerMetadata:
    """Decode a member's metadata.

    Raises MalformedBytesError if the metadata is invalid, is longer than `MAX_BYTES`, or contains
    more than `max_items` connectors and tasks.
    """
    reader = _ProtocolReader(data, "a member's metadata")
    reader.read_version()
    url = reader.read_string("url")
    config_offset = reader.read_integer(_I64, "config offset")
    size = -1 if reader.is_at_end else reader.read_integer(_I32, "size of the allocation")
    if size < 0:
        return WorkerMetadata(url=url, config_offset=config_offset)
    allocation = decode_assignment(reader.read_bytes(size, "allocation"), max_items=max_items)
    held = None if allocation is EMPTY_ASSIGNMENT else allocation
    return WorkerMetadata(url=url, config_offset=config_offset, allocation=held)


def decode_assignment(data: bytes, *, max_items: int = MAX_ITEMS) -> ConnectAssignment:
    """Decode an assignment. Empty bytes decode to EMPTY_ASSIGNMENT: the broker sends them to a
    member if the leader sent no assignment for this member.

    Raises MalformedBytesError if the assignment is invalid, is longer than `MAX_BYTES`, or contains
    more than `max_items` connectors and tasks.
    """
    if not data:
        return EMPTY_ASSIGNMENT
    reader = _ProtocolReader(data, "an assignment", max_items=max_items)
    reader.read_version()
    error = reader.read_integer(_I16, "error")
    leader = reader.read_string("leader")
    leader_url = reader.read_string("leader's url")
    config_offset = reader.read_integer(_I64, "config offset")
    return ConnectAssignment(
        error=error,
        leader=leader,
        leader_url=leader_url,
        config_offset=config_offset,
        assigned=reader.read_assignment_entries("assigned"),
        revoked=reader.read_assignment_entries("revoked"),
        delay_ms=0 if reader.is_at_end else reader.read_integer(_I32, "delay"),
    )


class _ProtocolReader:
    """Reads values in sequence, and checks every length against the remaining bytes."""

    def __init__(self, data: bytes, what: str, *, max_items: int = MAX_ITEMS) -> None:
        self._data = data
        self._what = what
        self._at = 0
        self._items = 0
        self._max_items = max_items
        if len(data) > MAX_BYTES:
            raise self._create_malformed_bytes_error(f"at most {MAX_BYTES:,} bytes are allowed")

    @property
    def is_at_end(self) -> bool:
        return self._at == len(self._data)

    def read_version(self) -> None:
        """Read the version and reject a negative one. Data of a newer version is read in the format
        of the newest supported version."""
        found = self.read_integer(_I16, "version")
        if found < 0:
            raise self._create_malformed_bytes_error(f"version {found}")

    def read_integer(self, shape: struct.Struct, name: str) -> int:
        (found,) = shape.unpack(self.read_bytes(shape.size, name))
        assert isinstance(found, int)
        return found

    def read_string(self, name: str) -> str:
        size = self.read_integer(_I16, f"length of {name}")
        try:
            return self.read_bytes(size, name).decode()
        except UnicodeDecodeError as error:
            raise self._create_malformed_bytes_error(
                f"{name} is not UTF-8: {error.reason}"
            ) from error

    def read_assignment_entries(self, name: str) -> ConnectorsAndTasks:
        """Read an ARRAY of assignment entries. Return no entries if the array is null or no
        bytes are left."""
        connectors: list[str] = []
        tasks: list[ConnectorTaskId] = []
        count = 0 if self.is_at_end else self.read_integer(_I32, f"count of {name}")
        for _ in range(count):  # each entry has at least six bytes, which bounds a wrong count
            connector = self.read_string(f"connector among {name}")
            for number in self._read_task_numbers(connector):
                if number == _CONNECTOR_ENTRY:
                    connectors.append(connector)
                else:
                    tasks.append(ConnectorTaskId(connector, number))
        return ConnectorsAndTasks(
            connectors=tuple(dict.fromkeys(connectors)), tasks=tuple(dict.fromkeys(tasks))
        )

    def _read_task_numbers(self, connector: str) -> Iterable[int]:
        name = f"tasks of {connector}"
        count = self.read_integer(_I32, f"count of {name}")
        encoded = self.read_bytes(4 * count, name)
        self._items += max(count, 1)
        if self._items > self._max_items:
            raise self._create_malformed_bytes_error(
                f"more than {self._max_items:,} connectors and tasks"
            )
        return struct.unpack(f">{count}i", encoded)

    def read_bytes(self, size: int, name: str) -> bytes:
        left = len(self._data) - self._at
        if not 0 <= size <= left:
            raise self._create_malformed_bytes_error(
                f"{name} claims {size} bytes, but {left} are left"
            )
        self._at += size
        return self._data[self._at - size : self._at]

    def _create_malformed_bytes_error(self, problem: str) -> MalformedBytesError:
        return MalformedBytesError(
            f"cannot decode {self._what} ({len(self._data)} bytes) at byte {self._at}: {problem}"
        )
