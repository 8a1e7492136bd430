"""Encodes and decodes the frames, headers and kio entities (Python classes of Kafka messages) of
requests and responses.

  Request: size i32 | api_key i16 | version i16 | correlation_id i32 | client_id (i16 length) | tags
  Response: size i32 | correlation_id i32 | tags            (tags: flexible versions only, KIP-482)

A response body is validated against the structure of its entity before it is decoded. kio's native
reader allocates whatever a length field claims, and an excessive length would kill the process
without an exception. The validation also rejects null for non-nullable arrays. It removes unknown
tagged fields, which brokers may add to any version and for which kio raises KeyError.
"""

from __future__ import annotations

import dataclasses
import functools
import io
import struct
import types
import typing
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import kio.index
from kio.serial import entity_reader, entity_writer

from connect_runtime.protocol import api_versions, varints
from connect_runtime.protocol.request_errors import MalformedResponseError


class ResponseBodyReplacement(NamedTuple):
    """An edit of a response body: the bytes from `start` to `end` are replaced with `data`."""

    start: int
    end: int
    data: bytes

    @property
    def removed_byte_count(self) -> int:
        """Number of bytes by which the edit shortens the response body."""
        return self.end - self.start - len(self.data)


FieldValidator: TypeAlias = Callable[[memoryview, int, list[ResponseBodyReplacement]], int]
"""A function of (body, position, edits) that validates a value and returns the position after the
value. Raises IndexError or ValueError if the value is malformed. Appends the edits that remove
unknown tagged fields, ordered by position."""

_FIXED_SIZES = {
    "int8": 1, "uint8": 1, "bool": 1, "int16": 2, "uint16": 2, "error_code": 2, "int32": 4,
    "uint32": 4, "timedelta_i32": 4, "int64": 8, "uint64": 8, "float64": 8, "timedelta_i64": 8,
    "datetime_i64": 8, "uuid": 16,
}  # fmt: skip
DECODED_RESPONSE_BYTES_MAX = 8 * 1024 * 1024
"""Maximum size of a response that kio decodes to entities. The entities need about 15 times the
memory of the response. kio decodes about 1 MB of small entities per second and blocks all other
threads in the meantime. Fetch responses have their own codec, to which this limit does not
apply."""
LARGE_DECODED_RESPONSE_BYTES_MAX = 32 * 1024 * 1024
"""Maximum size of a decoded response whose size grows with the partitions, groups, group members,
topic configs or ACLs of a whole cluster."""
_LARGE_RESPONSE_API_KEYS = frozenset(
    api_versions.API_KEYS[name]
    for name in (
        "consumer_group_describe",
        "describe_acls",
        "describe_configs",
        "describe_groups",
        "list_groups",
        "metadata",
        "offset_fetch",
    )
)

_I16 = struct.Struct(">h")
_I32 = struct.Struct(">i")


def check_response_shape(entity_type: Any, body: memoryview) -> memoryview:
    """Validate that the response `body` contains exactly one valid entity. Return the bytes for kio
    to decode.

    Returns `body` itself unless unknown tagged fields had to be removed. Raises IndexError or
    ValueError if a length is invalid.
    """
    data, end = validate_entity_bytes(entity_type, body, 0)
    if end != len(body):
        raise ValueError(f"{len(body) - end} unexpected bytes at the end")
    return data


def validate_entity_bytes(
    entity_type: Any, body: memoryview, position: int
) -> tuple[memoryview, int]:
    """Validate the entity that starts at `position`. Return (the bytes for kio to decode, next
    position).

    Raises IndexError or ValueError if a length is invalid.
    """
    edits: list[ResponseBodyReplacement] = []
    end = _make_entity_validator(entity_type)(body, position, edits)
    if not edits:
        return body[position:end], end
    data = bytearray()
    for edit in edits:
        data += body[position : edit.start]
        data += edit.data
        position = edit.end
    data += body[position:end]
    return memoryview(data).toreadonly(), end


def _skip_bytes(body: memoryview, position: int, size: int) -> int:
    end = position + size
    if end > len(body):
        raise IndexError(f"{size} bytes claimed at {position}, {len(body) - position} left")
    return end


def _make_fixed_validator(size: int) -> FieldValidator:
    return lambda body, position, edits: _skip_bytes(body, position, size)


def _read_compact_length(body: memoryview, position: int) -> tuple[int, int]:
    """Read the length of a compact string or array. Returns (length, next position); the length is
    -1 for null."""
    claimed, position = varints.read_varint(body, position)
    return claimed - 1, position


def _make_legacy_length_reader(
    width: struct.Struct,
) -> Callable[[memoryview, int], tuple[int, int]]:
    def read_length(body: memoryview, position: int) -> tuple[int, int]:
        end = _skip_bytes(body, position, width.size)
        (claimed,) = width.unpack_from(body, position)
        return max(-1, claimed), end

    return read_length


def _make_length_prefixed_validator(
    read_length: Callable[[memoryview, int], tuple[int, int]],
) -> FieldValidator:
    def validate_length_prefixed(
        body: memoryview, position: int, edits: list[ResponseBodyReplacement]
    ) -> int:
        size, position = read_length(body, position)
        return _skip_bytes(body, position, size) if size > 0 else position

    return validate_length_prefixed


def _make_array_validator(
    item: FieldValidator, item_size: int | None, *, flexible: bool, nullable: bool
) -> FieldValidator:
    read_length = _read_compact_length if flexible else _make_legacy_length_reader(_I32)

    def validate_array(
        body: memoryview, position: int, edits: list[ResponseBodyReplacement]
    ) -> int:
        at = position
        count, position = read_length(body, position)
        if count < 0:
            if not nullable:
                raise ValueError(f"null at position {at} for a non-nullable array")
            return position
        if item_size is not None:
            return _skip_bytes(body, position, count * item_size)
        _skip_bytes(body, position, count)  # every item has at least one byte
        for _ in range(count):
            position = item(body, position, edits)
        return position

    return validate_array


def _make_nullable_entity_validator(validate_entity: FieldValidator) -> FieldValidator:
    def validate_nullable_entity(
        body: memoryview, position: int, edits: list[ResponseBodyReplacement]
    ) -> int:
        marker, position = body[position], position + 1
        return validate_entity(body, position, edits) if marker == 1 else position

    return validate_nullable_entity


def _make_tagged_fields_validator(known: dict[int, FieldValidator]) -> FieldValidator:
    def validate_tagged_fields(
        body: memoryview, position: int, edits: list[ResponseBodyReplacement]
    ) -> int:
        if body[position] == 0:
            return position + 1
        start, first_edit, removed = position, len(edits), 0
        count, position = varints.read_tagged_field_count(body, position)
        after_count = position
        for _ in range(count):
            field_start = position
            tag, position = varints.read_varint(body, position)
            size_start = position
            size, position = varints.read_varint(body, position)
            end = _skip_bytes(body, position, size)
            if tag not in known:
                _remove_bytes(edits, first_edit, field_start, end)
                removed += 1
            else:
                inner_edit = len(edits)
                if known[tag](body[:end], position, edits) != end:
                    raise ValueError(
                        f"tagged field {tag} at position {position} is not {size} bytes long"
                    )
                if len(edits) > inner_edit:
                    shorter = size - sum(each.removed_byte_count for each in edits[inner_edit:])
                    edits.insert(
                        inner_edit,
                        ResponseBodyReplacement(
                            size_start, position, varints.encode_varint(shorter)
                        ),
                    )
            position = end
        if removed == count:
            edits[first_edit:] = [ResponseBodyReplacement(start, position, b"\x00")]
        elif removed:
            edits.insert(
                first_edit,
                ResponseBodyReplacement(start, after_count, varints.encode_varint(count - removed)),
            )
        return position

    return validate_tagged_fields


def _remove_bytes(
    edits: list[ResponseBodyReplacement], first_edit: int, start: int, end: int
) -> None:
    """Append an edit that removes the bytes from `start` to `end`, or extend the previous removal
    if it is adjacent.

    Edits with an index below `first_edit` belong to a different section of tagged fields and are
    not changed.
    """
    if len(edits) > first_edit and edits[-1].end == start and not edits[-1].data:
        start = edits.pop().start
    edits.append(ResponseBodyReplacement(start, end, b""))


def _make_primitive_validator(
    kafka_type: str, *, flexible: bool
) -> tuple[FieldValidator, int | None]:
    """Create the validator of a primitive Kafka type. Returns (validator, size in bytes); the size
    is None if it varies."""
    if kafka_type in _FIXED_SIZES:
        return _make_fixed_validator(_FIXED_SIZES[kafka_type]), _FIXED_SIZES[kafka_type]
    assert kafka_type in {"string", "bytes", "records"}, kafka_type
    if flexible:
        return _make_length_prefixed_validator(_read_compact_length), None
    return _make_length_prefixed_validator(
        _make_legacy_length_reader(_I16 if kafka_type == "string" else _I32)
    ), None


def _make_field_validator(
    hint: Any, kafka_type: str | None, *, flexible: bool
) -> tuple[FieldValidator, int | None]:
    """Create the validator of an entity's field from its type annotation and Kafka type. Returns
    (validator, size in bytes); the size is None if it varies."""
    optional = typing.get_origin(hint) in {types.UnionType, typing.Union}
    if optional:
        (hint,) = (part for part in typing.get_args(hint) if part is not type(None))
    is_array = typing.get_origin(hint) is tuple
    if is_array:
        hint = typing.get_args(hint)[0]
    if kafka_type is not None:
        validator, size = _make_primitive_validator(kafka_type, flexible=flexible)
    else:
        validator, size = _make_entity_validator(hint), None
    if is_array:
        return _make_array_validator(validator, size, flexible=flexible, nullable=optional), None
    if kafka_type is None and optional:
        return _make_nullable_entity_validator(validator), None
    return validator, size


@functools.cache
def _make_entity_validator(entity_type: Any) -> FieldValidator:
    hints = typing.get_type_hints(entity_type)
    flexible: bool = entity_type.__flexible__
    steps: list[FieldValidator] = []
    tagged: dict[int, FieldValidator] = {}
    run = 0
    for field in dataclasses.fields(entity_type):
        kafka_type = field.metadata.get("kafka_type")
        validator, size = _make_field_validator(hints[field.name], kafka_type, flexible=flexible)
        if "tag" in field.metadata:
            tagged[field.metadata["tag"]] = validator
        elif size is not None:
            run += size
        else:
            steps += [_make_fixed_validator(run), validator] if run else [validator]
            run = 0
    if run:
        steps.append(_make_fixed_validator(run))
    if flexible:
        steps.append(_make_tagged_fields_validator(tagged))

    def validate_fields(
        body: memoryview, position: int, edits: list[ResponseBodyReplacement]
    ) -> int:
        for step in steps:
            position = step(body, position, edits)
        return position

    return validate_fields


_REQUEST_HEADER = struct.Struct(">ihhih")
_CORRELATION_ID = struct.Struct(">i")
_HEADER_BYTES_AFTER_SIZE = _REQUEST_HEADER.size - 4
_REQUEST_HEADER_WITH_TAGS = 2
_RESPONSE_HEADER_WITH_TAGS = 1


def encode_request_header(
    api_key: int, version: int, correlation_id: int, *, client_id: bytes, body_size: int
) -> bytes:
    """Encode the size field and the header of a request whose body is `body_size` bytes long."""
    tags = b"\x00" if has_tagged_header_fields(api_key, version)[0] else b""
    size = _HEADER_BYTES_AFTER_SIZE + len(client_id) + len(tags) + body_size
    fixed = _REQUEST_HEADER.pack(size, api_key, version, correlation_id, len(client_id))
    return fixed + client_id + tags


def encode_request_body(entity: Any) -> bytes:
    """Encode a kio request entity as a request body (without the header)."""
    with io.BytesIO() as buffer:
        entity_writer(type(entity))(buffer, entity)
        return buffer.getvalue()


def read_correlation_id(frame: memoryview) -> int:
    """Read the correlation id of a response frame (without the size field)."""
    (value,) = _CORRELATION_ID.unpack_from(frame)
    return int(value)


def strip_response_header(frame: memoryview, api_key: int, version: int) -> memoryview:
    """Strip the header from a response frame and return the body. Raises MalformedResponseError."""
    if not has_tagged_header_fields(api_key, version)[1]:
        return frame[4:]
    if len(frame) > 4 and frame[4] == 0:
        return frame[5:]
    try:
        position = varints.skip_tagged_fields(frame, 4)
    except (IndexError, ValueError) as error:
        name = api_versions.API_NAMES.get(api_key, f"API {api_key}")
        raise MalformedResponseError(name, version, f"bad header: {error}") from error
    return frame[position:]


def check_decoded_response_size(api_key: int, body: memoryview) -> None:
    """Raise ValueError if a response is too large to be decoded to entities."""
    allowed = (
        LARGE_DECODED_RESPONSE_BYTES_MAX
        if api_key in _LARGE_RESPONSE_API_KEYS
        else DECODED_RESPONSE_BYTES_MAX
    )
    if body.nbytes > allowed:
        raise ValueError(
            f"the response has {body.nbytes} bytes, but at most {allowed} are accepted"
        )


def decode_response(entity_type: type[Any], body: memoryview) -> Any:
    """Decode the kio response entity in `body`, ignoring tagged fields that kio does not know
    (KIP-482).

    Raises MalformedResponseError for every body that cannot be decoded, regardless of the exception
    that the decoder raises. The bytes come from the network, and a malformed response must not
    crash the process.
    """
    name = api_versions.API_NAMES.get(entity_type.__api_key__, entity_type.__name__)
    version = entity_type.__version__
    try:
        check_decoded_response_size(entity_type.__api_key__, body)
        data = check_response_shape(entity_type, body)
        entity, _ = entity_reader(entity_type)(data.toreadonly(), 0)
    except Exception as error:
        raise MalformedResponseError(name, version, f"cannot be decoded: {error}") from error
    return entity


@functools.cache
def has_tagged_header_fields(api_key: int, version: int) -> tuple[bool, bool]:
    """Return whether the headers of an API version have tagged fields, as (request header, response
    header)."""
    request = kio.index.load_request_schema(api_key, version)
    response = kio.index.load_response_schema(api_key, version)
    return (
        request.__header_schema__.__version__ >= _REQUEST_HEADER_WITH_TAGS,
        response.__header_schema__.__version__ >= _RESPONSE_HEADER_WITH_TAGS,
    )
