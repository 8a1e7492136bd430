from __future__ import annotations

import struct

import kio.index
import pytest
from kio.schema.errors import ErrorCode
from kio.schema.request_header.v1.header import RequestHeader as HeaderV1
from kio.schema.request_header.v2.header import RequestHeader as HeaderV2

from connect_runtime.wire.codec import failures, frames, messages, versions
from tests.support import kio_bytes


@pytest.mark.parametrize(("version", "header_type"), [(8, HeaderV1), (9, HeaderV2)])
def test_requests_carry_size_header_and_entity(version, header_type):
    entity = messages.metadata(["t"]).entity(version)
    header = header_type(
        request_api_key=3, request_api_version=version, correlation_id=77, client_id="mm2-ä"
    )
    after_size = kio_bytes.written(header) + kio_bytes.written(entity)
    body = frames.encode_body(entity)
    before = frames.request_header(3, version, 77, client_id="mm2-ä".encode(), body_size=len(body))
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
    assert frames.has_tags(versions.API_KEYS[api], version) == tagged


def test_the_response_body_starts_after_the_header_tags():
    body = memoryview(bytearray(struct.pack(">i", 9) + b"\x01\x00\x02xyBODY"))
    assert frames.correlation_id(body) == 9
    assert bytes(frames.response_body(body, 1, 12)) == b"BODY"
    plain = memoryview(bytearray(struct.pack(">i", 9) + b"\x00BODY"))
    assert bytes(frames.response_body(plain, 1, 12)) == b"BODY"
    assert bytes(frames.response_body(plain, 1, 11)) == b"\x00BODY"
    assert not frames.response_body(plain, 1, 12).readonly


@pytest.mark.parametrize("frame", [b"\x00\x00\x00\x09", b"\x00\x00\x00\x09\x01\x00\x09x"])
def test_a_cut_header_is_a_truncated_response(frame):
    with pytest.raises(failures.TruncatedResponse, match="fetch response, version 12: bad header"):
        frames.response_body(memoryview(frame), 1, 12)


def test_responses_decode_and_what_is_left_over_or_missing_is_an_error():
    response_type = kio.index.load_response_schema(22, 3)
    body = struct.pack(">ihqhB", 5, 51, 1000, 3, 0)
    entity = frames.decode_response(response_type, memoryview(bytearray(body)))
    assert (entity.error_code, entity.producer_id) == (ErrorCode.concurrent_transactions, 1000)
    for wrong in (body[:-1], body + b"\x00", b"", struct.pack(">ihqhB", 5, 999, 1000, 3, 0)):
        with pytest.raises(
            failures.TruncatedResponse, match="init_producer_id response, version 3"
        ):
            frames.decode_response(response_type, memoryview(wrong))
