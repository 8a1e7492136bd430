"""What a record becomes is bounded by its size, whatever its schema and its defaults are."""

from __future__ import annotations

import json
import random
import time
from typing import Any

import pytest

from connect_runtime.api import schema
from connect_runtime.api.errors import DataError
from connect_runtime.api.schema import Schema, SchemaAndValue, SchemaType
from connect_runtime.api.schema_builder import SchemaBuilder
from connect_runtime.api.structs import Struct
from connect_runtime.plugins import header_converter, java_value_formatting, schema_expansion_limit
from connect_runtime.plugins.json_converter import JsonConverter
from connect_runtime.plugins.schema_expansion_limit import MAX_ADDED_BYTES, MAX_ADDED_VALUES

DECIMAL = "org.apache.kafka.connect.data.Decimal"


def made(**configs: str) -> JsonConverter:
    one = JsonConverter()
    one.configure({"converter.type": "value"} | configs)
    return one


def envelope(described: Any, payload: Any) -> bytes:
    document = {"schema": described, "payload": payload}
    return json.dumps(document, separators=(",", ":")).encode()


def array(items: Any, **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, **more}


def struct(*fields: dict[str, Any], **more: Any) -> dict[str, Any]:
    named = [{"field": f"f{i}", **each} for i, each in enumerate(fields)]
    return {"type": "struct", "fields": named, **more}


def in_structs(described: Any, payload: Any, levels: int) -> bytes:
    for _ in range(levels):
        described, payload = struct(described), {"f0": payload}
    return envelope(described, payload)


OPTIONAL = {"type": "int8", "optional": True}
WIDE = struct(*[OPTIONAL] * 500)
TOO_MANY = r"add more than [\d,]+ values"
TOO_LONG = r"add more than [\d,]+ bytes"


@pytest.mark.parametrize(
    ("described", "payload", "why"),
    [
        (array(WIDE), [{}] * 10_000, TOO_MANY),
        (array(WIDE), [{"unknown": 1}] * 10_000, TOO_MANY),
        (array(WIDE | {"default": {}}), [None] * 10_000, TOO_MANY),
        (array(struct(WIDE | {"default": {}})), [{}] * 10_000, TOO_MANY),
        (array({"type": "string", "default": "x" * 50_000}), [None] * 10_000, TOO_LONG),
        (array({"type": "bytes", "default": "AAAA" * 10_000}), [None] * 10_000, TOO_LONG),
        (
            array({"type": "bytes", "name": DECIMAL, "default": int("9" * 4_000)}),
            [None] * 10_000,
            TOO_LONG,
        ),
        (array(struct({"type": "string", "default": "x" * 50_000})), [{}] * 10_000, TOO_LONG),
        (array(struct(OPTIONAL | {"field": "n" * 10_000})), [{}] * 10_000, TOO_LONG),
        (
            array({"type": "string", "default": "x" * 50_000}, default=[None] * 1_000),
            None,
            TOO_LONG,
        ),
        (
            {
                "type": "map",
                "keys": {"type": "string"},
                "values": {"type": "string", "default": "x" * 50_000},
            },
            {str(each): None for each in range(1_000)},
            TOO_LONG,
        ),
    ],
)
@pytest.mark.parametrize("default_for_null", ["true", "false"])
def test_schemas_add_a_bounded_amount_of_data(described, payload, why, default_for_null):
    reader = made(**{"replace.null.with.default": default_for_null})
    start_s = time.thread_time()
    with pytest.raises(DataError) as error:
        made().encode(reader.decode(envelope(described, payload)))
    if default_for_null == "true":
        assert error.match(why)
    assert time.thread_time() - start_s < 2.0


def test_a_sparse_record_is_read_if_its_size_explains_it():
    sparse = array(struct(*[OPTIONAL] * 200))
    payload = [{f"f{number}": number % 100 for number in range(20)}] * 1_000
    found = made().decode(envelope(sparse, payload)).value
    assert len(found) == 1_000
    assert found[0].get_without_default("f19") == 19
    assert found[0].get_without_default("f20") is None


def test_long_field_names_do_not_limit_sparse_records():
    columns = [OPTIONAL | {"field": f"customer_attribute_{number:02d}"} for number in range(60)]
    payload = [{each["field"]: 1 for each in columns[:2]}] * 7_000
    record = envelope(array(struct(*columns)), payload)
    assert 7_000 * 58 * len(str(columns[0]["field"])) > MAX_ADDED_BYTES
    assert len(made().decode(record).value) == 7_000


def test_the_error_also_explains_what_to_do_about_absent_fields():
    with pytest.raises(DataError, match="fewer optional fields or shorter field names"):
        made().decode(envelope(array(WIDE), [{}] * 10_000))


@pytest.mark.parametrize("levels", [1, 45])
def test_values_are_not_visited_again_for_every_struct_around_them(levels):
    payload = in_structs(array({"type": "int8"}), [1] * 300_000, levels)
    start_s = time.thread_time()
    made().decode(payload)
    assert time.thread_time() - start_s < 4.0


def test_a_long_name_is_not_copied_for_every_element():
    described = struct(array({"type": "int8"}) | {"field": "n" * 500_000})
    payload = {"n" * 500_000: [1] * 100_000}
    start_s = time.thread_time()
    found = made().decode(envelope(described | {"default": payload}, None))
    assert made().encode(found)
    assert time.thread_time() - start_s < 4.0


def test_equal_schemas_with_nested_defaults_are_compared_at_once():
    def nested(unknown: int) -> bytes:
        described: dict[str, Any] = {"type": "int8", "default": 1}
        for _ in range(45):
            described = struct(described, default={})
        return envelope(described | {"unknown": unknown}, {})

    reader, writer = made(), made()
    first, second = (reader.decode(nested(each)) for each in (1, 2))
    assert first.schema is not second.schema
    start_s = time.thread_time()
    assert first == second
    assert writer.encode(first) == writer.encode(second)
    assert writer.cached_schemas == (1, 0)
    assert time.thread_time() - start_s < 1.0


def test_map_keys_with_equal_hashes_are_refused():
    keys = {"type": "bytes", "name": DECIMAL, "parameters": {"scale": "0"}}
    described = {"type": "map", "keys": keys, "values": {"type": "int8"}}
    equal = [[(2**61 - 1) * each + 5, 1] for each in range(5_000)]
    with pytest.raises(DataError, match="same hash"):
        made().decode(envelope(described, equal))
    different = [[each, 1] for each in range(5_000)]
    assert len(made().decode(envelope(described, different)).value) == 5_000
    assert len(made().decode(envelope(described, [[7, 1]] * 5_000)).value) == 1


def colliding_keys(bits: int) -> list[int]:
    """Numbers for which a dict with 2**bits slots tries many occupied slots."""
    size = 1 << bits
    walk, position, slot = [], {}, 0
    for number in range(size):
        walk.append(slot)
        position[slot] = number
        slot = (5 * slot + 1) % size
    keys = walk[: size // 3 + 10]
    candidate = size
    while len(keys) < size * 2 // 3 - 20:
        rest, slot = candidate, candidate % size
        while position[slot] < len(keys) and rest:
            rest >>= 5
            slot = (5 * slot + rest + 1) % size
        if position[slot] < size // 16:
            keys.append(candidate)
        candidate += 1
    return keys


@pytest.mark.parametrize(
    "keys",
    [
        {"type": "int64"},
        {"type": "double"},
        {"type": "bytes", "name": DECIMAL, "parameters": {"scale": "0"}},
        array({"type": "int64"}),
        struct({"type": "int64"}),
    ],
)
def test_maps_whose_keys_are_not_strings_have_at_most_5000_entries(keys):
    described = {"type": "map", "keys": keys, "values": {"type": "int8"}}
    wrap = {"array": lambda key: [key], "struct": lambda key: {"f0": key}}.get(keys["type"], int)
    entries = [[wrap(key), 1] for key in colliding_keys(13)]
    assert len(entries) > 5_000
    with pytest.raises(DataError, match="at most 5,000: use strings as keys"):
        made().decode(envelope(described, entries))
    allowed = envelope(described, entries[:5_000])
    start_s = time.thread_time()
    assert len(made().decode(allowed).value) == 5_000
    assert time.thread_time() - start_s < 1.0
    many = {"type": "map", "keys": {"type": "string"}, "values": {"type": "int8"}}
    assert len(made().decode(envelope(many, {str(key): 1 for key in range(6_000)})).value) == 6_000


def test_writing_defaults_of_structs_does_not_compare_parameters_for_each_value():
    class CountingText(str):
        comparisons = 0
        __hash__ = str.__hash__

        def __eq__(self, other: object) -> bool:
            CountingText.comparisons += 1
            return str.__eq__(self, other)

    builder = SchemaBuilder.struct().field("f", schema.OPTIONAL_INT8_SCHEMA)
    builder.parameter("p", CountingText("x"))
    default = Struct(builder.build())
    described = SchemaBuilder.array(
        Schema(
            type=SchemaType.STRUCT,
            default=default,
            parameters={"p": CountingText("x")},
            struct_fields=default.schema.struct_fields,
        )
    ).build()
    made().encode(SchemaAndValue(described, [None] * 1_000))
    assert 0 < CountingText.comparisons < 10


def test_the_texts_of_written_schemas_are_cached_up_to_a_total_length():
    one = made()
    for number in range(10):
        described = {"type": "int8", "doc": f"{number}" * 500_000}
        one.encode(one.decode(envelope(described, 1)))
    assert one.cached_schemas[0] < 5


def test_defaults_of_structs_in_headers_are_bounded():
    ones = array(OPTIONAL, optional=True, default=[1] * 300)
    described = array(struct(array(struct(ones), optional=True, default=[{}] * 300)))
    reader = made(**{"replace.null.with.default": "false"})
    found = reader.decode(envelope(described, [{}] * 300))
    with pytest.raises(DataError, match=TOO_MANY):
        header_converter.format_value(found.schema, found.value)


# Any schema, any payload


class Hostile:
    """Generates schemas and payloads that repeat whatever takes few bytes."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def schema(self, depth: int) -> dict[str, Any]:
        pick = self._random
        kinds = ["int8", "string", "bytes", "double", "decimal", "timestamp"]
        kind = pick.choice(kinds + ["array", "map", "struct"] * 4 * (depth > 0))
        made: dict[str, Any] = {"type": kind}
        if kind == "decimal":
            made |= {"type": "bytes", "name": DECIMAL, "parameters": {"scale": "0"}}
        elif kind == "timestamp":
            made |= {"type": "int64", "name": "org.apache.kafka.connect.data.Timestamp"}
        elif kind == "array":
            made["items"] = self.schema(depth - 1)
        elif kind == "map":
            made |= {"keys": {"type": "string"}, "values": self.schema(depth - 1)}
        elif kind == "struct":
            one = self.schema(depth - 1)
            count = pick.choice([1, 2, 50, 300]) if len(json.dumps(one)) < 200 else 1
            pad = "n" * pick.choice([0, 0, 100, 5_000 // count])
            made["fields"] = [one | {"field": f"{pad}{i}"} for i in range(count)]
        made["optional"] = pick.random() < 0.7
        if pick.random() < 0.5:
            made["default"] = self.value(made, room=500, null=False)
        return made

    def value(self, described: Any, *, room: int, null: bool = True) -> Any:
        pick = self._random
        absent = described["optional"] or "default" in described
        if null and absent and pick.random() < 0.6:
            return None
        match described["type"]:
            case "array":
                count = pick.choice([0, 1, 3, 50, 2_000])
                count = min(count, room)
                return [self.value(described["items"], room=room // (count or 1))] * count
            case "map":
                count = min(pick.choice([0, 1, 50]), room)
                one = self.value(described["values"], room=room // (count or 1))
                return {str(each): one for each in range(count)}
            case "struct":
                needed = [
                    each
                    for each in described["fields"]
                    if pick.random() < 0.1 or not (each["optional"] or "default" in each)
                ]
                return {
                    each["field"]: self.value(each, room=room // len(needed)) for each in needed
                }
            case "string":
                return "x" * pick.choice([0, 5, room])
            case "bytes" if "name" not in described:
                return "AAAA" * pick.choice([0, 5, room // 4])
            case "bytes":
                return int("9" * pick.choice([1, 1_000]))
        return pick.choice([0, 1, 100])


def count_values(value: Any, limit: int) -> int:
    pending, count = [value], 0
    while pending and count <= limit:
        one = pending.pop()
        count += 1
        if isinstance(one, list):
            pending += one
        elif isinstance(one, dict):
            pending += one.values()
        elif isinstance(one, Struct):
            pending += [one.get_without_default(each.name) for each in one.schema.fields]
    return count


def list_texts(found: SchemaAndValue, refusals: list[str]) -> list[str]:
    texts: list[str] = []
    for write in (
        lambda: (made().encode(found) or b"").decode(),
        lambda: java_value_formatting.format_value(found.value),
        lambda: header_converter.format_value(found.schema, found.value) or "",
    ):
        try:
            texts.append(write())
        except DataError as error:
            refusals.append(str(error))
    return texts


@pytest.mark.parametrize("default_for_null", ["true", "false"])
@pytest.mark.parametrize("seed", range(40))
def test_values_and_texts_are_linear_in_the_size_of_a_record(seed, default_for_null):
    hostile, refusals = Hostile(seed), []
    reader = made(**{"replace.null.with.default": default_for_null})
    for _ in range(10):
        described = hostile.schema(depth=4)
        payload = envelope(described, hostile.value(described, room=5_000))
        start_s = time.thread_time()
        try:
            found = reader.decode(payload)
        except DataError as error:
            refusals.append(str(error))
            continue
        most = 2 * len(payload) + MAX_ADDED_VALUES
        assert count_values(found.value, most) <= most
        for text in list_texts(found, refusals):
            assert len(text) <= 64 * len(payload) + 8 * MAX_ADDED_BYTES
        assert time.thread_time() - start_s < 5.0
    expected = ("add more than", "Invalid null value")
    assert all(any(text in each for text in expected) for each in refusals)


def test_what_is_counted():
    limit = schema_expansion_limit.SchemaExpansionLimit()
    limit.add_absent_field("name")
    limit.add_default_value(5)
    limit.add_default_value("text")
    assert limit.values == 1
    limit.add_default_value([1, {"key": ("x", None)}])
    assert limit.values == 8
    limit.start_record()
    assert limit.values == 0
