"""Framing: size, request and response headers, and the kio entities between them.

Request:  size i32 | api_key i16 | version i16 | correlation_id i32 | client_id (i16 length) | tags
Response: size i32 | correlation_id i32 | tags            (tags: flexible versions only, KIP-482)
"""

from __future__ import annotations

import functools
import io
import struct
from typing import Any

import kio.index
from kio.serial import entity_reader, entity_writer

from connect_runtime.wire.codec import failures, shapes, varints, versions

_HEADER = struct.Struct(">ihhih")
_CORRELATION_ID = struct.Struct(">i")
_HEADER_AFTER_SIZE = _HEADER.size - 4
_REQUEST_HEADER_WITH_TAGS = 2
_RESPONSE_HEADER_WITH_TAGS = 1


def request_header(
    api_key: int, version: int, correlation_id: int, *, client_id: bytes, body_size: int
) -> bytes:
    """The size field and the header for a body of `body_size` bytes that follows."""
    tags = b"\x00" if has_tags(api_key, version)[0] else b""
    size = _HEADER_AFTER_SIZE + len(client_id) + len(tags) + body_size
    fixed = _HEADER.pack(size, api_key, version, correlation_id, len(client_id))
    return fixed + client_id + tags


def encode_body(entity: Any) -> bytes:
    """A kio request entity without header."""
    with io.BytesIO() as buffer:
        entity_writer(type(entity))(buffer, entity)
        return buffer.getvalue()


def correlation_id(frame: memoryview) -> int:
    """The correlation id of a response frame (without its size field)."""
    (value,) = _CORRELATION_ID.unpack_from(frame)
    return int(value)


def response_body(frame: memoryview, api_key: int, version: int) -> memoryview:
    """What follows the response header; raises TruncatedResponse."""
    if not has_tags(api_key, version)[1]:
        return frame[4:]
    if len(frame) > 4 and frame[4] == 0:
        return frame[5:]
    try:
        position = varints.skip_tags(frame, 4)
    except (IndexError, ValueError) as error:
        name = versions.API_NAMES.get(api_key, f"API {api_key}")
        raise failures.TruncatedResponse(name, version, f"bad header: {error}") from error
    return frame[position:]


def decode_response(entity_type: type[Any], body: memoryview) -> Any:
    """Read one kio response entity that must fill `body`. Tagged fields that kio does not know are
    skipped (KIP-482).

    Raises TruncatedResponse for every body that does not decode, whatever the decoder raised: the
    bytes come from the network, and one bad answer must not end a copy process.
    """
    name = versions.API_NAMES.get(entity_type.__api_key__, entity_type.__name__)
    version = entity_type.__version__
    try:
        data = shapes.readable(entity_type, body)
        entity, _ = entity_reader(entity_type)(data.toreadonly(), 0)
    except Exception as error:
        raise failures.TruncatedResponse(name, version, f"does not decode: {error}") from error
    return entity


@functools.cache
def has_tags(api_key: int, version: int) -> tuple[bool, bool]:
    """Whether (request header, response header) end in tagged fields for this API and version."""
    request = kio.index.load_request_schema(api_key, version)
    response = kio.index.load_response_schema(api_key, version)
    return (
        request.__header_schema__.__version__ >= _REQUEST_HEADER_WITH_TAGS,
        response.__header_schema__.__version__ >= _RESPONSE_HEADER_WITH_TAGS,
    )
