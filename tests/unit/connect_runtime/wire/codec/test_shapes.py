"""Random entities of every response type that kio knows, and damage done to them."""

from __future__ import annotations

import dataclasses
import datetime
import random
import types
import typing
import uuid

import kio.index
import pytest
from kio.schema.errors import ErrorCode
from kio.schema.index import api_key_map, schema_name_map
from kio.static.constants import EntityType

from connect_runtime.wire.codec import failures, frames, shapes
from tests.support import kio_bytes

RESPONSES = [
    (key, version)
    for key, name in api_key_map.items()
    for version, kinds in schema_name_map[name].items()
    if EntityType.response in kinds
]


def random_primitive(kafka_type: str, rng: random.Random):
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


def random_entity(entity_type, rng: random.Random):
    hints = typing.get_type_hints(entity_type)
    values: dict[str, object] = {}
    for field in dataclasses.fields(entity_type):
        has_default = field.default is not dataclasses.MISSING
        if "tag" in field.metadata and has_default and rng.random() < 0.5:
            continue
        hint = hints[field.name]
        if typing.get_origin(hint) in {types.UnionType, typing.Union}:
            is_uuid = field.metadata.get("kafka_type") == "uuid"
            if rng.random() < 0.3 and "tag" not in field.metadata:
                values[field.name] = None
                continue
            assert is_uuid or type(None) in typing.get_args(hint)
            (hint,) = (part for part in typing.get_args(hint) if part is not type(None))
        count = rng.choice([0, 1, 3, 150 if "kafka_type" in field.metadata else 2])
        is_array = typing.get_origin(hint) is tuple
        inner = typing.get_args(hint)[0] if is_array else hint
        made = [
            random_primitive(field.metadata["kafka_type"], rng)
            if "kafka_type" in field.metadata
            else random_entity(inner, rng)
            for _ in range(count if is_array else 1)
        ]
        values[field.name] = tuple(made) if is_array else made[0]
    return entity_type(**values)


@pytest.mark.parametrize(("api_key", "version"), RESPONSES)
def test_what_kio_writes_has_the_shape_and_every_truncation_has_not(api_key, version):
    rng = random.Random(api_key * 100 + version)
    entity_type = kio.index.load_response_schema(api_key, version)
    for _ in range(2):
        body = kio_bytes.written(random_entity(entity_type, rng))
        shapes.check(entity_type, memoryview(body))
        with pytest.raises(ValueError, match="bytes left over"):
            shapes.check(entity_type, memoryview(body + b"\x00"))
        for end in rng.sample(range(len(body)), min(10, len(body))):
            with pytest.raises((IndexError, ValueError)):
                shapes.check(entity_type, memoryview(body[:end]))


@pytest.mark.parametrize("version", range(7, 14))
def test_damaged_metadata_never_reaches_the_allocation_that_would_end_the_process(version):
    """Without the check, some of these abort the interpreter inside kio's native reader."""
    rng = random.Random(version)
    entity_type = kio.index.load_response_schema(3, version)
    body = kio_bytes.written(random_entity(entity_type, rng))
    for _ in range(1500):
        damaged = bytearray(body)
        for _ in range(rng.choice([1, 2, 8])):
            damaged[rng.randrange(len(damaged))] = rng.choice([0, 1, 127, 255, rng.randrange(256)])
        try:
            frames.decode_response(entity_type, memoryview(damaged))
        except failures.TruncatedResponse:
            continue


def test_an_array_that_claims_more_items_than_there_are_bytes_is_refused_at_once():
    entity_type = kio.index.load_response_schema(3, 12)
    hostile = bytes(4) + b"\xff\xff\xff\xff\x0f" + bytes(50)
    with pytest.raises(IndexError, match="bytes claimed at 9, 50 left"):
        shapes.check(entity_type, memoryview(hostile))
