"""Random entities of every response type that kio knows, and damage done to them."""

from __future__ import annotations

import random
import struct
import tracemalloc

import kio.index
import pytest
from kio.schema.errors import ErrorCode
from kio.schema.index import api_key_map, schema_name_map
from kio.schema.request_header.v1.header import RequestHeader as HeaderV1
from kio.schema.request_header.v2.header import RequestHeader as HeaderV2
from kio.static.constants import EntityType

from connect_runtime.protocol import api_versions, request_builders, request_framing, varints
from connect_runtime.protocol.request_errors import MalformedResponseError
from connect_runtime.protocol.request_framing import ResponseBodyReplacement
from tests.support import kio_bytes


@pytest.mark.parametrize(("version", "header_type"), [(8, HeaderV1), (9, HeaderV2)])
def test_requests_carry_size_header_and_entity(version, header_type):
    entity = request_builders.build_metadata_request(["t"]).build_request_message(version)
    header = header_type(
        request_api_key=3, request_api_version=version, correlation_id=77, client_id="mm2-ä"
    )
    after_size = kio_bytes.written(header) + kio_bytes.written(entity)
    body = request_framing.encode_request_body(entity)
    before = request_framing.encode_request_header(
        3, version, 77, client_id="mm2-ä".encode(), body_size=len(body)
    )
    assert before + body == struct.pack(">i", len(after_size)) + after_size


@pytest.mark.parametrize(
    ("api", "version", "tagged"),
    [
        ("fetch", 11, (False, False)),
        ("fetch", 12, (True, True)),
        ("produce", 8, (False, False)),
        ("produce", 9, (True, True)),
        ("api_versions", 3, (True, False)),  # its answer must be readable before versions agree
    ],
)
def test_which_headers_have_tagged_fields(api, version, tagged):
    assert request_framing.has_tagged_header_fields(api_versions.API_KEYS[api], version) == tagged


def test_the_response_body_starts_after_the_header_tags():
    body = memoryview(bytearray(struct.pack(">i", 9) + b"\x01\x00\x02xyBODY"))
    assert request_framing.read_correlation_id(body) == 9
    assert bytes(request_framing.strip_response_header(body, 1, 12)) == b"BODY"
    plain = memoryview(bytearray(struct.pack(">i", 9) + b"\x00BODY"))
    assert bytes(request_framing.strip_response_header(plain, 1, 12)) == b"BODY"
    assert bytes(request_framing.strip_response_header(plain, 1, 11)) == b"\x00BODY"
    assert not request_framing.strip_response_header(plain, 1, 12).readonly


@pytest.mark.parametrize("frame", [b"\x00\x00\x00\x09", b"\x00\x00\x00\x09\x01\x00\x09x"])
def test_a_cut_header_is_a_truncated_response(frame):
    with pytest.raises(MalformedResponseError, match="fetch response, version 12: bad header"):
        request_framing.strip_response_header(memoryview(frame), 1, 12)


def test_responses_decode_and_what_is_left_over_or_missing_is_an_error():
    response_type = kio.index.load_response_schema(22, 3)
    body = struct.pack(">ihqhB", 5, 51, 1000, 3, 0)
    entity = request_framing.decode_response(response_type, memoryview(bytearray(body)))
    assert (entity.error_code, entity.producer_id) == (ErrorCode.concurrent_transactions, 1000)
    for wrong in (body[:-1], body + b"\x00", b"", struct.pack(">ihqhB", 5, 999, 1000, 3, 0)):
        with pytest.raises(MalformedResponseError, match="init_producer_id response, version 3"):
            request_framing.decode_response(response_type, memoryview(wrong))


RESPONSES = [
    (key, version)
    for key, name in api_key_map.items()
    for version, kinds in schema_name_map[name].items()
    if EntityType.response in kinds
]


@pytest.mark.parametrize(("api_key", "version"), RESPONSES)
def test_what_kio_writes_has_the_shape_and_every_truncation_has_not(api_key, version):
    rng = random.Random(api_key * 100 + version)
    entity_type = kio.index.load_response_schema(api_key, version)
    for _ in range(2):
        body = kio_bytes.written(kio_bytes.random_entity(entity_type, rng))
        assert request_framing.check_response_shape(entity_type, memoryview(body)) == body
        with pytest.raises(ValueError, match="unexpected bytes at the end"):
            request_framing.check_response_shape(entity_type, memoryview(body + b"\x00"))
        for end in rng.sample(range(len(body)), min(10, len(body))):
            with pytest.raises((IndexError, ValueError)):
                request_framing.check_response_shape(entity_type, memoryview(body[:end]))


@pytest.mark.parametrize("version", range(7, 14))
def test_damaged_metadata_never_reaches_the_allocation_that_would_end_the_process(version):
    """Without the check, some of these abort the interpreter inside kio's native reader."""
    rng = random.Random(version)
    entity_type = kio.index.load_response_schema(3, version)
    body = kio_bytes.written(kio_bytes.random_entity(entity_type, rng))
    for _ in range(1500):
        damaged = bytearray(body)
        for _ in range(rng.choice([1, 2, 8])):
            damaged[rng.randrange(len(damaged))] = rng.choice([0, 1, 127, 255, rng.randrange(256)])
        try:
            request_framing.decode_response(entity_type, memoryview(damaged))
        except MalformedResponseError:
            continue


def test_an_array_that_claims_more_items_than_there_are_bytes_is_refused_at_once():
    entity_type = kio.index.load_response_schema(3, 12)
    hostile = bytes(4) + b"\xff\xff\xff\xff\x0f" + bytes(50)
    with pytest.raises(IndexError, match="bytes claimed at 9, 50 left"):
        request_framing.check_response_shape(entity_type, memoryview(hostile))


def _metadata_with_tags(tags: bytes) -> bytes:
    """Metadata v12 without brokers and topics."""
    return b"\0\0\0\0" + b"\x01" + b"\0" + b"\0\0\0\0" + b"\x01" + tags


@pytest.mark.parametrize(
    ("api_key", "version", "allowed"),
    [
        (60, 0, 8 << 20),
        (16, 4, 32 << 20),
        (32, 4, 32 << 20),
        (3, 12, 32 << 20),
        (9, 7, 32 << 20),
        (15, 5, 32 << 20),
    ],
)
def test_a_response_that_would_take_much_memory_as_entities_is_refused(api_key, version, allowed):
    response = kio.index.load_response_schema(api_key, version)
    problem = f"the response has {allowed + 1} bytes, but at most {allowed} are accepted"
    with pytest.raises(MalformedResponseError, match=problem):
        request_framing.decode_response(response, memoryview(bytes(allowed + 1)))


def test_a_section_of_very_many_tagged_fields_is_refused_in_body_and_header():
    count = 100_000
    entity_type = kio.index.load_response_schema(3, 12)
    tags = varints.encode_varint(count) + b"\x64\x00" * count
    tracemalloc.start()
    try:
        with pytest.raises(MalformedResponseError, match="100000 tagged fields"):
            request_framing.decode_response(entity_type, memoryview(_metadata_with_tags(tags)))
        with pytest.raises(MalformedResponseError, match="bad header: 100000 tagged fields"):
            request_framing.strip_response_header(memoryview(b"\0\0\0\1" + tags), 3, 12)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_unknown_tagged_fields_side_by_side_are_one_edit():
    entity_type = kio.index.load_response_schema(3, 12)
    tags = varints.encode_varint(200) + b"\x64\x00" * 200
    body = memoryview(_metadata_with_tags(tags))
    edits: list[ResponseBodyReplacement] = []
    assert request_framing._make_entity_validator(entity_type)(body, 0, edits) == len(body)
    assert len(edits) == 1
    assert request_framing.check_response_shape(entity_type, body) == _metadata_with_tags(b"\x00")
