"""The vectors were written by Java's classes of Kafka 4.3."""

from __future__ import annotations

import contextlib
import itertools
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from connect_runtime.base.ids import ConnectorTaskId
from connect_runtime.group import connect_protocol, connectors_and_tasks
from connect_runtime.group.connect_protocol import (
    ConnectAssignment,
    ConnectProtocol,
    MalformedBytesError,
    WorkerMetadata,
)
from connect_runtime.group.connectors_and_tasks import ConnectorsAndTasks

URL = "http://w1:8083/"
V0, V1, V2 = ConnectProtocol.EAGER, ConnectProtocol.COMPATIBLE, ConnectProtocol.SESSIONED

STATE = WorkerMetadata(url=URL, config_offset=5)
STATE_V0 = "0000000f687474703a2f2f77313a383038332f0000000000000005"
STATE_V1 = "0001000f687474703a2f2f77313a383038332f0000000000000005ffffffff"
STATE_V2 = "0002" + STATE_V1[4:]

C1 = ConnectorsAndTasks(connectors=("c1",), tasks=(ConnectorTaskId("c1", 0),))
C2_1 = ConnectorsAndTasks(tasks=(ConnectorTaskId("c2", 1),))


def answer(**fields: object) -> ConnectAssignment:
    told = {"leader": "m1", "leader_url": URL, "config_offset": 5, **fields}
    return ConnectAssignment(**told)  # type: ignore[arg-type]


EAGER = answer(assigned=C1.union(C2_1))
EAGER_HEX = (
    "0000000000026d31000f687474703a2f2f77313a383038332f0000000000000005000000020002633100000002"
    "ffffffff00000000000263320000000100000001"
)
REVOKING = answer(assigned=C1, revoked=C2_1)
REVOKING_HEX = (
    "0001000000026d31000f687474703a2f2f77313a383038332f0000000000000005000000010002633100000002"
    "ffffffff000000000000000100026332000000010000000100000000"
)
DELAYED = answer(assigned=C1, delay_ms=300_000)
DELAYED_HEX = (
    "0002000000026d31000f687474703a2f2f77313a383038332f0000000000000005000000010002633100000002"
    "ffffffff0000000000000000000493e0"
)
MISMATCH = answer(error=connect_protocol.CONFIG_MISMATCH, config_offset=9)
MISMATCH_HEX = (
    "0002000100026d31000f687474703a2f2f77313a383038332f0000000000000009000000000000000000000000"
)
ASSIGNMENTS = [
    (EAGER, V0, EAGER_HEX),
    (REVOKING, V1, REVOKING_HEX),
    (DELAYED, V2, DELAYED_HEX),
    (MISMATCH, V2, MISMATCH_HEX),
]


@pytest.mark.parametrize(("version", "expected"), [(V0, STATE_V0), (V1, STATE_V1), (V2, STATE_V2)])
def test_metadata_without_work_is_written_as_java_writes_it(version, expected):
    assert connect_protocol.encode_metadata(STATE, version).hex() == expected
    assert connect_protocol.decode_metadata(bytes.fromhex(expected)) == STATE


def test_metadata_holds_the_whole_assignment_of_the_last_round():
    state = WorkerMetadata(url=URL, config_offset=5, allocation=DELAYED)
    written = connect_protocol.encode_metadata(state, V2)
    assert written.hex() == STATE_V2.removesuffix("ffffffff") + "0000003d" + DELAYED_HEX
    assert len(written) == 92
    assert connect_protocol.decode_metadata(written) == state
    assert state.reported_work == C1


@pytest.mark.parametrize(("assignment", "version", "expected"), ASSIGNMENTS)
def test_assignments_are_written_as_java_writes_them(assignment, version, expected):
    assert connect_protocol.encode_assignment(assignment, version).hex() == expected
    assert connect_protocol.decode_assignment(bytes.fromhex(expected)) == assignment


def test_an_assignment_knows_whether_it_failed():
    assert MISMATCH.failed
    assert not DELAYED.failed


# What a worker offers


def test_a_worker_offers_its_own_protocol_and_all_older_ones():
    assert V2.list_supported_protocols() == (V2, V1, V0)
    assert V1.list_supported_protocols() == (V1, V0)
    assert V0.list_supported_protocols() == (V0,)
    assert [each.wire_name for each in V2.list_supported_protocols()] == [
        "sessioned",
        "compatible",
        "default",
    ]
    assert ConnectProtocol.SESSIONED_WHOLE.list_supported_protocols() == (
        ConnectProtocol.SESSIONED_WHOLE,
        V2,
        V1,
        V0,
    )


@pytest.mark.parametrize("each", list(ConnectProtocol))
def test_a_protocol_is_known_by_its_name_on_the_wire(each):
    assert ConnectProtocol.from_wire_name(each.wire_name) is each
    assert ConnectProtocol.from_wire_name(each.wire_name.upper()) is each


def test_a_protocol_of_other_groups_is_refused():
    with pytest.raises(ValueError, match=r"'range'.*'default', 'compatible', 'sessioned'"):
        ConnectProtocol.from_wire_name("range")


# Versions that meet


@pytest.mark.parametrize("version", list(ConnectProtocol))
def test_every_version_of_metadata_and_assignments_is_read(version):
    """As the peer's test of compatible protocols: urls, offsets and work survive every pair."""
    state = WorkerMetadata(url="leaderUrl:8083", config_offset=1)
    assert (
        connect_protocol.decode_metadata(connect_protocol.encode_metadata(state, version)) == state
    )
    for held in (
        ConnectorsAndTasks(connectors=("c1", "c3"), tasks=(ConnectorTaskId("c2", 0),)),
        ConnectorsAndTasks(
            connectors=("c2",),
            tasks=(ConnectorTaskId("c1", 0), ConnectorTaskId("c3", 0)),
        ),
    ):
        told = answer(config_offset=1, assigned=held)
        found = connect_protocol.decode_assignment(
            connect_protocol.encode_assignment(told, version)
        )
        assert set(found.assigned.items) == set(held.items)
        assert (found.leader, found.leader_url, found.config_offset) == ("m1", URL, 1)
        assert found.revoked == connectors_and_tasks.NO_WORK
        assert found.delay_ms == 0


def test_a_version_nobody_knows_yet_is_read_as_the_newest_one():
    assert connect_protocol.decode_assignment(bytes.fromhex("0063" + DELAYED_HEX[4:])) == DELAYED
    assert connect_protocol.decode_metadata(bytes.fromhex("7fff" + STATE_V2[4:])) == STATE


def test_what_follows_the_known_fields_is_left_alone():
    assert connect_protocol.decode_assignment(bytes.fromhex(DELAYED_HEX + "cafe")) == DELAYED
    assert connect_protocol.decode_metadata(bytes.fromhex(STATE_V2 + "cafe")) == STATE


def test_missing_fields_at_the_end_mean_nothing_and_no_delay():
    whole = bytes.fromhex(REVOKING_HEX)
    without_delay, without_revoked = whole[:-4], whole[:-20]
    assert connect_protocol.decode_assignment(without_delay) == REVOKING
    assert connect_protocol.decode_assignment(without_revoked) == answer(assigned=C1)


def test_null_arrays_are_empty():
    head = bytes.fromhex(MISMATCH_HEX)[:-12]
    nulls = b"\xff" * 8 + bytes(4)
    assert connect_protocol.decode_assignment(head + nulls) == MISMATCH


def test_no_bytes_are_an_assignment_that_nobody_made():
    """The broker hands them to members that the leader left out; a Java worker dies of them."""
    assert connect_protocol.decode_assignment(b"") is connect_protocol.EMPTY_ASSIGNMENT
    assert not connect_protocol.EMPTY_ASSIGNMENT.failed
    assert not connect_protocol.EMPTY_ASSIGNMENT.assigned


def test_an_empty_allocation_is_none():
    empty = bytes.fromhex(STATE_V1[:-8] + "00000000")
    assert connect_protocol.decode_metadata(empty) == STATE


def test_what_is_named_twice_counts_once():
    twice = answer(assigned=ConnectorsAndTasks(connectors=("c", "c"), tasks=C2_1.tasks * 2))
    found = connect_protocol.decode_assignment(connect_protocol.encode_assignment(twice, V1))
    assert found.assigned == ConnectorsAndTasks(connectors=("c",), tasks=C2_1.tasks)


# What is refused


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ("", "version claims 2 bytes, but 0 are left"),
        ("00", "version claims 2 bytes, but 1 are left"),
        ("ffff" + STATE_V0[4:], "at byte 2: version -1"),
        ("0001ffff", "url claims -1 bytes"),
        ("00010002c328" + "00" * 8, "url is not UTF-8"),
        (STATE_V0[:-2], "config offset claims 8 bytes, but 7 are left"),
        (STATE_V1[:-8] + "00000009" + "00" * 8, "allocation claims 9 bytes, but 8 are left"),
        (STATE_V1[:-8] + "0000000200ff", "error claims 2 bytes, but 0 are left"),
    ],
)
def test_metadata_that_cannot_be_read_says_where_and_why(data, said):
    with pytest.raises(MalformedBytesError, match=said):
        connect_protocol.decode_metadata(bytes.fromhex(data))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ("ffff" + DELAYED_HEX[4:], "version -1"),
        (DELAYED_HEX[:-2], "delay claims 4 bytes, but 3 are left"),
        (DELAYED_HEX[:86], "count of tasks of c1"),
        (MISMATCH_HEX[:-24] + "7fffffff", "length of connector among assigned"),
        (MISMATCH_HEX[:-24] + "00000001" + "0001637fffffff", "tasks of c claims 8589934588"),
        (MISMATCH_HEX[:-24] + "00000001" + "000163fffffffe", "tasks of c claims -8"),
    ],
)
def test_an_assignment_that_cannot_be_read_says_where_and_why(data, said):
    with pytest.raises(MalformedBytesError, match=said):
        connect_protocol.decode_assignment(bytes.fromhex(data))


def with_tasks(count: int) -> WorkerMetadata:
    tasks = tuple(ConnectorTaskId("c", number) for number in range(count))
    told = answer(assigned=ConnectorsAndTasks(tasks=tasks))
    return WorkerMetadata(url=URL, config_offset=5, allocation=told)


def test_the_number_of_connectors_and_tasks_is_limited():
    most = with_tasks(connect_protocol.MAX_ITEMS)
    assert connect_protocol.decode_metadata(connect_protocol.encode_metadata(most, V2)) == most
    more = with_tasks(connect_protocol.MAX_ITEMS + 1)
    assert more.allocation is not None
    with pytest.raises(MalformedBytesError, match="more than 100,000 connectors and tasks"):
        connect_protocol.decode_metadata(connect_protocol.encode_metadata(more, V2))
    with pytest.raises(MalformedBytesError, match="more than 100,000 connectors and tasks"):
        connect_protocol.decode_assignment(connect_protocol.encode_assignment(more.allocation, V2))
    entries = bytes.fromhex(MISMATCH_HEX[:-24]) + (200_000).to_bytes(4, "big") + bytes(6) * 200_000
    with pytest.raises(MalformedBytesError, match="more than 100,000 connectors and tasks"):
        connect_protocol.decode_assignment(entries)


def test_millions_of_tasks_are_refused_before_they_are_decoded():
    data = connect_protocol.encode_metadata(with_tasks(0), V2) + bytes(30_000_000)
    start_s = time.thread_time()
    for decode in (connect_protocol.decode_metadata, connect_protocol.decode_assignment):
        with pytest.raises(MalformedBytesError, match="at most 4,194,304 bytes are allowed"):
            decode(data)
    assert time.thread_time() - start_s < 0.5


def test_a_string_that_is_too_long_is_not_written():
    with pytest.raises(ValueError, match="32767"):
        connect_protocol.encode_metadata(WorkerMetadata(url="u" * 40_000, config_offset=1), V1)


# Anything at all

NAMES = st.text(max_size=12)
IDS = st.builds(ConnectorTaskId, NAMES, st.integers(0, 2**31 - 1))
WORK = st.builds(
    lambda connectors, tasks: ConnectorsAndTasks(connectors=tuple(connectors), tasks=tuple(tasks)),
    st.lists(NAMES, unique=True, max_size=4),
    st.lists(IDS, unique=True, max_size=6),
)
SOME = st.builds(
    ConnectAssignment,
    error=st.integers(-(2**15), 2**15 - 1),
    leader=NAMES,
    leader_url=NAMES,
    config_offset=st.integers(-(2**63), 2**63 - 1),
    assigned=WORK,
    revoked=WORK,
    delay_ms=st.integers(0, 2**31 - 1),
)


def same(one: ConnectAssignment, other: ConnectAssignment) -> bool:
    """Tasks of a connector are written together, so only sets survive."""
    return all(
        set(getattr(one, name).items) == set(getattr(other, name).items)
        if name in {"assigned", "revoked"}
        else getattr(one, name) == getattr(other, name)
        for name in ConnectAssignment.__slots__
    )


@given(SOME, st.sampled_from([V1, V2]))
def test_what_is_written_is_read(assignment, version):
    found = connect_protocol.decode_assignment(
        connect_protocol.encode_assignment(assignment, version)
    )
    assert same(found, assignment)
    state = WorkerMetadata(url="u", config_offset=3, allocation=assignment)
    read = connect_protocol.decode_metadata(connect_protocol.encode_metadata(state, version))
    assert read.allocation is not None
    assert same(read.allocation, assignment)


@given(st.binary(max_size=120))
@example(bytes.fromhex(STATE_V2))
@example(bytes.fromhex(REVOKING_HEX))
def test_no_bytes_raise_anything_but_malformed(data):
    for decode in (connect_protocol.decode_metadata, connect_protocol.decode_assignment):
        with contextlib.suppress(MalformedBytesError):
            decode(data)


@given(st.sampled_from([each for *_, each in ASSIGNMENTS]), st.data())
def test_damaged_assignments_are_read_or_refused(original, data):
    damaged = bytearray.fromhex(original)
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = connect_protocol.decode_assignment(bytes(damaged))
    except MalformedBytesError:
        return
    assert isinstance(found, ConnectAssignment)


def test_every_cut_of_every_vector_is_read_or_refused():
    states = [(each, connect_protocol.decode_metadata) for each in (STATE_V0, STATE_V1, STATE_V2)]
    answers = [(each, connect_protocol.decode_assignment) for *_, each in ASSIGNMENTS]
    refused = 0
    for text, decode in itertools.chain(states, answers):
        for size in range(len(text) // 2):
            try:
                decode(bytes.fromhex(text)[:size])
            except MalformedBytesError:
                refused += 1
    assert refused > 300
