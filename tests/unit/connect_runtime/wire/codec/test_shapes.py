"""Random entities of every response type that kio knows, and damage done to them."""

from __future__ import annotations

import random
import tracemalloc

import kio.index
import pytest
from kio.schema.index import api_key_map, schema_name_map
from kio.static.constants import EntityType

from connect_runtime.wire.codec import failures, frames, shapes, varints
from tests.support import kio_bytes

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
        assert shapes.readable(entity_type, memoryview(body)) == body
        with pytest.raises(ValueError, match="bytes left over"):
            shapes.readable(entity_type, memoryview(body + b"\x00"))
        for end in rng.sample(range(len(body)), min(10, len(body))):
            with pytest.raises((IndexError, ValueError)):
                shapes.readable(entity_type, memoryview(body[:end]))


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
            frames.decode_response(entity_type, memoryview(damaged))
        except failures.TruncatedResponse:
            continue


def test_an_array_that_claims_more_items_than_there_are_bytes_is_refused_at_once():
    entity_type = kio.index.load_response_schema(3, 12)
    hostile = bytes(4) + b"\xff\xff\xff\xff\x0f" + bytes(50)
    with pytest.raises(IndexError, match="bytes claimed at 9, 50 left"):
        shapes.readable(entity_type, memoryview(hostile))


def _metadata_with_tags(tags: bytes) -> bytes:
    """Metadata v12 without brokers and topics."""
    return b"\0\0\0\0" + b"\x01" + b"\0" + b"\0\0\0\0" + b"\x01" + tags


def test_a_section_of_very_many_tagged_fields_is_refused_in_body_and_header():
    count = 100_000
    entity_type = kio.index.load_response_schema(3, 12)
    tags = varints.encode(count) + b"\x64\x00" * count
    tracemalloc.start()
    try:
        with pytest.raises(failures.TruncatedResponse, match="100000 tagged fields"):
            frames.decode_response(entity_type, memoryview(_metadata_with_tags(tags)))
        with pytest.raises(failures.TruncatedResponse, match="bad header: 100000 tagged fields"):
            frames.response_body(memoryview(b"\0\0\0\1" + tags), 3, 12)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_unknown_tagged_fields_side_by_side_are_one_edit():
    entity_type = kio.index.load_response_schema(3, 12)
    tags = varints.encode(200) + b"\x64\x00" * 200
    body = memoryview(_metadata_with_tags(tags))
    edits: list[shapes.Edit] = []
    assert shapes._entity(entity_type)(body, 0, edits) == len(body)
    assert len(edits) == 1
    assert shapes.readable(entity_type, body) == _metadata_with_tags(b"\x00")
