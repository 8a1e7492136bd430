from __future__ import annotations

import itertools
import json
import struct
from collections import deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connect_runtime.base.errors import FatalError
from mm2.copier import (
    control_channel_messages,
    control_channel_wire_format,
    copy_loop,
    driver_client,
    progress_reports,
)
from mm2.copier.control_channel_wire_format import (
    ControlFrameDecoder,
    ControlFrameError,
    CopyHello,
    TlsAddress,
    UnixAddress,
)
from mm2.copier.progress_reports import PartitionProgressReport
from mm2.formats import offset_map_records
from mm2.replication.recovery_instructions import FlowStateRecord
from mm2.replication.replication_latency import LatencySnapshot
from tests.fakes import copy_plane
from tests.support import examples

PIN = bytes(range(32))


@pytest.mark.parametrize(
    ("address", "text"),
    [
        (UnixAddress(path="/tmp/a b/c.sock"), "unix:/tmp/a b/c.sock"),
        (
            TlsAddress(host="node-1", port=9443, fingerprint=PIN),
            f"tls://node-1:9443#sha256={PIN.hex()}",
        ),
        (
            TlsAddress(host="fd00::1", port=9443, fingerprint=PIN),
            f"tls://[fd00::1]:9443#sha256={PIN.hex()}",
        ),
    ],
)
def test_an_address_is_one_line_of_text(address, text):
    assert str(address) == text
    assert control_channel_wire_format.parse_address(text) == address


@pytest.mark.parametrize(
    "text",
    [
        "",
        "tcp://h:1",
        "tls://h:1",
        f"tls://h#sha256={PIN.hex()}",
        f"tls://:1#sha256={PIN.hex()}",
        f"tls://h:x#sha256={PIN.hex()}",
        "tls://h:1#sha256=00ff",
        "tls://h:1#sha256=zz",
    ],
)
def test_another_text_is_refused(text):
    with pytest.raises(FatalError, match="is not a control channel address"):
        control_channel_wire_format.parse_address(text)


def frame_of(*messages):
    return control_channel_wire_format.take_frame(
        deque(control_channel_wire_format.encode_message(m) for m in messages)
    )


def raw_frame(body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + body


def test_a_frame_is_a_length_and_a_json_array():
    frame = frame_of({"type": "gauge", "n": 1}, {"type": "stop"})
    assert frame == b'\x00\x00\x00\x28[{"type":"gauge","n":1},{"type":"stop"}]'


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
messages = st.dictionaries(st.text(min_size=1), json_values, max_size=4).map(
    lambda fields: {**fields, "type": "t"}
)


@settings(max_examples=examples.of(200), deadline=None)
@given(st.lists(messages, min_size=1, max_size=6), st.lists(st.integers(0, 400), max_size=6))
def test_messages_survive_any_cutting_of_the_stream(sent, cuts):
    pending = deque(control_channel_wire_format.encode_message(m) for m in sent)
    stream = b""
    while pending:
        stream += control_channel_wire_format.take_frame(pending)
    borders = sorted({0, len(stream), *(c for c in cuts if c < len(stream))})
    decoder = ControlFrameDecoder()
    received = []
    for start, end in itertools.pairwise(borders):
        received += decoder.decode_messages(stream[start:end])
    assert received == sent


def test_byte_by_byte():
    stream = frame_of({"type": "a"}) + frame_of({"type": "b"}, {"type": "c"})
    decoder = ControlFrameDecoder()
    received = [
        m["type"] for i in range(len(stream)) for m in decoder.decode_messages(stream[i : i + 1])
    ]
    assert received == ["a", "b", "c"]


def test_small_messages_share_a_frame_and_large_ones_do_not():
    pending = deque(
        control_channel_wire_format.encode_message({"type": "x", "pad": "p" * 1000})
        for _ in range(200)
    )
    frames = []
    while pending:
        frames.append(control_channel_wire_format.take_frame(pending))
    assert 3 <= len(frames) <= 5
    assert all(len(frame) <= control_channel_wire_format.FRAME_FILL_BYTES + 200 for frame in frames)
    large = deque(
        control_channel_wire_format.encode_message({"type": "x", "pad": "p" * 100_000})
        for _ in range(2)
    )
    assert len(control_channel_wire_format.take_frame(large)) > 100_000
    assert len(large) == 1


def test_a_frame_beyond_the_bound_is_refused_before_it_arrives():
    decoder = ControlFrameDecoder(max_frame_bytes=10)
    with pytest.raises(ControlFrameError, match="announces 11 bytes; the maximum is 10"):
        decoder.decode_messages(struct.pack(">I", 11))


def test_the_bound_can_grow_once_the_peer_is_known():
    decoder = ControlFrameDecoder(max_frame_bytes=4)
    decoder.set_max_frame_bytes(control_channel_wire_format.MAX_FRAME_BYTES)
    assert decoder.decode_messages(frame_of({"type": "a"})) == [{"type": "a"}]


@pytest.mark.parametrize("value", [b"[]", b"{}", b'{"a":1}', b'[""]', b"1.5"])
def test_a_frame_of_too_many_values_is_not_parsed(value, monkeypatch):
    decoder = ControlFrameDecoder(max_values=control_channel_wire_format.MAX_COPY_FRAME_VALUES)
    monkeypatch.setattr(json, "loads", lambda *_, **__: pytest.fail("it was parsed"))
    many = b",".join([value] * (control_channel_wire_format.MAX_COPY_FRAME_VALUES + 1))
    with pytest.raises(ControlFrameError, match="more than 500,000 JSON values"):
        decoder.decode_messages(raw_frame(b'[{"type":"a","x":[' + many + b"]}]"))


def test_the_largest_messages_of_copy_processes_are_accepted():
    item = FlowStateRecord(key=b"k" * 100, value=b"v")
    segment = FlowStateRecord(
        key=b"k" * 100, value=b"," * offset_map_records.SEGMENT_VALUE_BYTES_MAX
    )
    gauge = PartitionProgressReport(
        **{
            **copy_plane.PLAIN,
            "index": 1,
            "phase": "copying",
            "copied_to": 2**40,
            "reason": "a reason" * 20,
        }
    )
    sent = [
        control_channel_messages.encode_flow_state_records(
            1, [item] * driver_client.MAX_UNSTORED_ITEMS
        ),
        control_channel_messages.encode_flow_state_records(1, [segment] * 10),
        control_channel_messages.encode_reverse_flow_producers_request(
            1, range(2**40, 2**40 + 400_000)
        ),
        progress_reports.encode_progress_reports(
            [gauge] * copy_loop.REPORTS_PER_MESSAGE,
            connection_errors={},
            latency=LatencySnapshot(),
            now_s=1.0,
        ),
    ]
    decoder = ControlFrameDecoder(max_values=control_channel_wire_format.MAX_COPY_FRAME_VALUES)
    for message in sent:
        (found,) = decoder.decode_messages(frame_of(message))
        assert found["type"] == message["type"]


def test_an_http_request_is_refused_by_its_first_bytes():
    with pytest.raises(ControlFrameError, match="does not use this protocol"):
        ControlFrameDecoder().decode_messages(b"GET / HTTP/1.1\r\n\r\n")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"[1]",
        b"[{}]",
        b'[{"type":1}]',
        b'{"type":"a"}',
        b"[" * 100_000,
        b'[{"type":"a","n":NaN}]',
        b'[{"type":"a","n":-Infinity}]',
        b'[{"type":"\xff"}]',
        b'[{"type":"a","n":' + b"9" * 5000 + b"}]",
    ],
)
def test_other_bodies_are_refused(body):
    with pytest.raises(ControlFrameError):
        ControlFrameDecoder().decode_messages(raw_frame(body))


@pytest.mark.parametrize("value", [b"bytes", float("nan"), object(), {1, 2}])
def test_what_json_cannot_carry_is_refused_by_the_sender(value):
    with pytest.raises(ControlFrameError, match="type 'recovered_state'"):
        control_channel_wire_format.encode_message({"type": "recovered_state", "value": value})


def test_a_message_that_no_frame_can_hold_is_refused_by_the_sender():
    with pytest.raises(ControlFrameError, match="split it"):
        control_channel_wire_format.encode_message(
            {"type": "recovered_state", "value": "x" * control_channel_wire_format.MAX_FRAME_BYTES}
        )


def test_hello_carries_the_token_and_never_shows_it():
    greeting = CopyHello(token=bytes(range(32)), pid=7, host="node-1")
    assert (
        control_channel_wire_format.decode_hello(control_channel_wire_format.encode_hello(greeting))
        == greeting
    )
    assert "token" not in repr(greeting)


@pytest.mark.parametrize("version", [None, 0, 2, "1", True])
def test_an_unknown_version_is_refused_on_both_sides(version):
    greeting = control_channel_wire_format.encode_hello(CopyHello(token=b"t", pid=1, host="h")) | {
        "version": version
    }
    with pytest.raises(ControlFrameError, match="same release"):
        control_channel_wire_format.decode_hello(greeting)
    with pytest.raises(ControlFrameError, match="same release"):
        control_channel_wire_format.check_greeting_reply(
            control_channel_wire_format.encode_welcome() | {"version": version}
        )


@pytest.mark.parametrize(
    "change", [{"type": "gauge"}, {"token": None}, {"token": "*"}, {"pid": "1"}, {"host": None}]
)
def test_an_incomplete_hello_is_refused(change):
    greeting = (
        control_channel_wire_format.encode_hello(CopyHello(token=b"t", pid=1, host="h")) | change
    )
    with pytest.raises(ControlFrameError):
        control_channel_wire_format.decode_hello(greeting)


@pytest.mark.parametrize("change", [{"type": "x" * 4000}, {"version": ["x" * 4000]}])
def test_a_refusal_quotes_little_of_a_stranger(change):
    greeting = (
        control_channel_wire_format.encode_hello(CopyHello(token=b"t", pid=1, host="h")) | change
    )
    with pytest.raises(ControlFrameError) as raised:
        control_channel_wire_format.decode_hello(greeting)
    assert len(str(raised.value)) < 250


def test_answers():
    control_channel_wire_format.check_greeting_reply(control_channel_wire_format.encode_welcome())
    with pytest.raises(ControlFrameError, match="refused this copy process: token unknown"):
        control_channel_wire_format.check_greeting_reply(
            control_channel_wire_format.encode_refusal("token unknown")
        )
    with pytest.raises(ControlFrameError, match="'stop'"):
        control_channel_wire_format.check_greeting_reply({"type": "stop"})


def test_the_bytes_on_the_wire_are_plain_json():
    frame = frame_of({"type": "a", "text": "é\u2028", "n": 2**53 + 1})
    assert json.loads(frame[4:]) == [{"type": "a", "text": "é\u2028", "n": 2**53 + 1}]


def test_the_bytes_of_a_frame_can_be_told_apart():
    encoded = [
        control_channel_wire_format.encode_message({"type": "x", "n": n}) for n in (1, 22, 333)
    ]
    frame = control_channel_wire_format.take_frame(deque(encoded))
    assert control_channel_wire_format.count_message_bytes(frame, 3) == sum(map(len, encoded))
