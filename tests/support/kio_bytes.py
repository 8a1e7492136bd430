"""kio entities for tests: random ones, and their bytes as kio writes them, as a newer broker might
(with tagged fields that nobody here knows), and as a broken one does (null where an array must be).
"""

from __future__ import annotations

import dataclasses
import datetime
import io
import random
import types
import typing
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

from kio.schema.errors import ErrorCode
from kio.serial import entity_writer
from kio.serial._implicit_defaults import get_tagged_field_default
from kio.serial._serialize import get_writer

from connect_runtime.protocol import varints

UNKNOWN_TAGS = ((4318, b"\xaa\xbb"), (70_000, b""))
"""(tag, data) of fields that no version of Kafka has."""


def written(entity: Any) -> bytes:
    buffer = io.BytesIO()
    entity_writer(type(entity))(buffer, entity)
    return buffer.getvalue()


# Random entities


def random_primitive(kafka_type: str, rng: random.Random) -> Any:
    match kafka_type:
        case "string":
            return "é" * rng.choice([0, 1, 70, 130])
        case "bytes" | "records":
            return bytes(rng.choice([0, 1, 130, 20_000]))
        case "bool":
            return rng.random() < 0.5
        case "error_code":
            return rng.choice(list(ErrorCode))
        case "uuid":
            return uuid.UUID(int=rng.getrandbits(128))
        case "float64":
            return rng.random()
        case "timedelta_i32" | "timedelta_i64":
            return datetime.timedelta(milliseconds=rng.randrange(10**6))
        case "datetime_i64":
            return datetime.datetime.fromtimestamp(rng.randrange(10**9), datetime.UTC)
    return rng.randrange(100)


def random_entity(entity_type: Any, rng: random.Random, *, full: bool = False) -> Any:
    """`full`: nothing is left out, null or empty, so that every nested type stands in it."""
    values: dict[str, object] = {}
    for field, hint, is_optional in _fields(entity_type):
        has_default = field.default is not dataclasses.MISSING
        if "tag" in field.metadata and has_default and not full and rng.random() < 0.5:
            continue
        if is_optional and not full and rng.random() < 0.3 and "tag" not in field.metadata:
            values[field.name] = None
            continue
        many = 150 if "kafka_type" in field.metadata else 2
        count = rng.choice([1, 2] if full else [0, 1, 3, many])
        is_array = typing.get_origin(hint) is tuple
        inner = typing.get_args(hint)[0] if is_array else hint
        made = [
            random_primitive(field.metadata["kafka_type"], rng)
            if "kafka_type" in field.metadata
            else random_entity(inner, rng, full=full)
            for _ in range(count if is_array else 1)
        ]
        values[field.name] = tuple(made) if is_array else made[0]
    return entity_type(**values)


def _fields(entity_type: Any) -> Iterator[tuple[dataclasses.Field[Any], Any, bool]]:
    """(field, its type if not null, whether it may be null)."""
    hints = typing.get_type_hints(entity_type)
    for field in dataclasses.fields(entity_type):
        hint = hints[field.name]
        is_optional = typing.get_origin(hint) in {types.UnionType, typing.Union}
        if is_optional:
            (hint,) = (part for part in typing.get_args(hint) if part is not type(None))
        yield field, hint, is_optional


# Bytes that kio does not write


def nested_types(entity_type: Any) -> list[Any]:
    """The entity's type and those of all entities in it that have tagged fields."""
    found = [entity_type] if entity_type.__flexible__ else []
    for field, hint, _ in _fields(entity_type):
        if "kafka_type" not in field.metadata:
            inner = typing.get_args(hint)[0] if typing.get_origin(hint) is tuple else hint
            found += [each for each in nested_types(inner) if each not in found]
    return found


def arrays(entity_type: Any) -> list[tuple[Any, str]]:
    """(type, field name) of each array at any level that may not be null."""
    found: list[tuple[Any, str]] = []
    for field, hint, is_optional in _fields(entity_type):
        is_array = typing.get_origin(hint) is tuple
        if is_array and not is_optional:
            found.append((entity_type, field.name))
        if "kafka_type" not in field.metadata:
            found += arrays(typing.get_args(hint)[0] if is_array else hint)
    return found


def written_with(
    entity: Any, *, tagged: Sequence[Any] = (), null: tuple[Any, str] | None = None
) -> bytes:
    """As `written`, with `UNKNOWN_TAGS` in every entity of the types `tagged`, and null for the
    field `null` (type, name)."""
    out = bytearray()
    flexible: bool = entity.__flexible__
    known: dict[int, bytes] = {}
    for field, hint, is_optional in _fields(type(entity)):
        value = getattr(entity, field.name)
        is_null = null == (type(entity), field.name)
        tag = field.metadata.get("tag")
        kafka_type = field.metadata.get("kafka_type")
        nullable = is_optional and tag is None

        def one(each: Any, kafka_type: str | None = kafka_type, nullable: bool = nullable) -> bytes:
            if kafka_type is None:
                return written_with(each, tagged=tagged, null=null)
            buffer = io.BytesIO()
            get_writer(kafka_type, flexible, nullable)(buffer, each)
            return buffer.getvalue()

        if typing.get_origin(hint) is tuple:
            size = -1 if is_null or value is None else len(value)
            data = (
                varints.encode_varint(size + 1)
                if flexible
                else size.to_bytes(4, "big", signed=True)
            )
            data += b"".join(one(each, nullable=False) for each in value or ()) if size > 0 else b""
        elif kafka_type is None and nullable:
            data = b"\xff" if value is None else b"\x01" + one(value)
        else:
            data = one(value)
        if tag is None:
            out += data
        elif is_null or value != _tagged_default(field):
            known[tag] = data
    if flexible:
        fields = sorted(known.items())
        if type(entity) in tagged:
            fields += UNKNOWN_TAGS
        out += varints.encode_varint(len(fields))
        for tag, data in fields:
            out += varints.encode_varint(tag) + varints.encode_varint(len(data)) + data
    return bytes(out)


def _tagged_default(field: dataclasses.Field[Any]) -> Any:
    missing = field.default is dataclasses.MISSING
    return get_tagged_field_default(field) if missing else field.default
