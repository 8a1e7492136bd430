from __future__ import annotations

import datetime
import math
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect_runtime.api import logical_types, schema
from connect_runtime.api.errors import DataError
from connect_runtime.api.schema_builder import SchemaBuilder
from connect_runtime.api.structs import Struct
from connect_runtime.plugins import jackson_json
from connect_runtime.plugins.connect_data_to_json import JsonWriter
from connect_runtime.plugins.json_to_connect_data import JsonReader

Builder = SchemaBuilder
PAIR = (
    Builder.struct()
    .field("field1", schema.BOOLEAN_SCHEMA)
    .field("field2", schema.OPTIONAL_STRING_SCHEMA)
    .build()
)
INTS = Builder.map(schema.INT32_SCHEMA, schema.INT32_SCHEMA).build()


@pytest.mark.parametrize(
    ("node", "builder"),
    [
        ({"type": "boolean"}, Builder.boolean()),
        ({"type": "float", "optional": True}, Builder.float32().optional()),
        ({"type": "int8", "optional": "yes"}, Builder.int8()),
        (
            {
                "type": "boolean",
                "name": "bool",
                "version": 2,
                "doc": "the documentation",
                "parameters": {"foo": "bar"},
                "default": True,
            },
            Builder.boolean()
            .name("bool")
            .version(2)
            .doc("the documentation")
            .parameter("foo", "bar")
            .default(True),
        ),
        ({"type": "array", "items": {"type": "int32"}}, Builder.array(schema.INT32_SCHEMA)),
        (
            {"type": "map", "keys": {"type": "string"}, "values": {"type": "int32"}},
            Builder.map(schema.STRING_SCHEMA, schema.INT32_SCHEMA),
        ),
        (
            {"type": "struct", "fields": [{"field": "a", "type": "string", "optional": True}]},
            Builder.struct().field("a", schema.OPTIONAL_STRING_SCHEMA),
        ),
    ],
)
def test_schemas(node, builder):
    assert JsonReader().parse_schema(node) == builder.build()


@pytest.mark.parametrize(
    "node",
    [
        {},
        "int32",
        {"type": 5},
        {"type": "int128"},
        {"type": "array"},
        {"type": "array", "items": None},
        {"type": "map", "keys": {"type": "string"}},
        {"type": "map", "values": {"type": "string"}},
        {"type": "struct"},
        {"type": "struct", "fields": [{"type": "string"}]},
        {"type": "struct", "fields": ["a"]},
        {"type": "struct", "fields": [{"field": "a", "type": "x"}]},
        {"type": "string", "parameters": {"a": 1}},
        {"type": "string", "default": 5},
        {"type": "string", "default": None},
    ],
)
def test_what_is_no_schema(node):
    with pytest.raises(DataError):
        JsonReader().parse_schema(node)


@pytest.mark.parametrize(
    ("described", "node", "value"),
    [
        (schema.INT8_SCHEMA, 12, 12),
        (schema.INT32_SCHEMA, Decimal("12.0"), 12),
        (schema.INT64_SCHEMA, Decimal("1E+2"), 100),
        (schema.FLOAT32_SCHEMA, Decimal("12.34"), 12.34000015258789),
        (schema.FLOAT64_SCHEMA, 12, 12.0),
        (schema.FLOAT64_SCHEMA, "-Infinity", -math.inf),
        (schema.FLOAT64_SCHEMA, -(10**400), -math.inf),
        (schema.BYTES_SCHEMA, "dGVzdC1zdHJpbmc=", b"test-string"),
        (schema.STRING_SCHEMA, "foo", "foo"),
        (Builder.array(schema.INT32_SCHEMA).build(), [1, 2], [1, 2]),
        (Builder.map(schema.STRING_SCHEMA, schema.INT8_SCHEMA).build(), {"a": 1}, {"a": 1}),
        (INTS, [[1, 12], [2, 15]], {1: 12, 2: 15}),
        (
            Builder.map(Builder.array(schema.INT8_SCHEMA), schema.INT8_SCHEMA).build(),
            [[[1, 2], 3]],
            {(1, 2): 3},
        ),
        (PAIR, {"field1": True}, Struct(PAIR, {"field1": True})),
        (schema.OPTIONAL_STRING_SCHEMA, None, None),
        (Builder.string().default("d").build(), None, "d"),
        (logical_types.decimal_schema(2), "AJw=", Decimal("1.56")),
        (logical_types.decimal_schema(2), Decimal("1.5600"), Decimal("1.5600")),
        (logical_types.decimal_schema(2), 5, Decimal(5)),
        (logical_types.DATE_SCHEMA, 10000, datetime.date(1997, 5, 19)),
        (logical_types.TIME_SCHEMA, 14400000, datetime.time(4)),
        (
            logical_types.TIMESTAMP_SCHEMA,
            42,
            datetime.datetime(1970, 1, 1, microsecond=42000, tzinfo=datetime.UTC),
        ),
        (None, None, None),
        (None, 12, 12),
        (None, Decimal("12.24"), 12.24),
        (None, Decimal("1E+400"), math.inf),
        (None, [1, "2", {"a": True}], [1, "2", {"a": True}]),
    ],
)
def test_values(described, node, value):
    found = JsonReader().parse_value(described, node)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("described", "node"),
    [
        (schema.INT8_SCHEMA, 300),
        (schema.INT32_SCHEMA, "12"),
        (schema.INT32_SCHEMA, True),
        (schema.INT32_SCHEMA, Decimal("1.5")),
        (schema.INT64_SCHEMA, Decimal("1E+999999")),
        (schema.FLOAT64_SCHEMA, "12"),
        (schema.FLOAT64_SCHEMA, False),
        (schema.BOOLEAN_SCHEMA, 1),
        (schema.STRING_SCHEMA, 1),
        (schema.STRING_SCHEMA, None),
        (schema.BYTES_SCHEMA, "not base64!"),
        (schema.BYTES_SCHEMA, 1),
        (Builder.array(schema.INT8_SCHEMA).build(), {"a": 1}),
        (Builder.map(schema.STRING_SCHEMA, schema.INT8_SCHEMA).build(), [["a", 1]]),
        (INTS, {"1": 12}),
        (INTS, [1]),
        (INTS, [[1, 2, 3]]),
        (Builder.map(INTS, schema.INT8_SCHEMA).build(), [[[[1, 2]], 3]]),
        (PAIR, [True]),
        (PAIR, {"field2": "x"}),
        (logical_types.decimal_schema(2), True),
        (logical_types.decimal_schema(2), "@"),
        (logical_types.decimal_schema(2), ""),
        (logical_types.DATE_SCHEMA, "1997-05-19"),
        (logical_types.DATE_SCHEMA, 2**31),
        (logical_types.TIME_SCHEMA, Decimal("1.0")),
        (logical_types.TIMESTAMP_SCHEMA, 2**63),
        (None, 2**63),
    ],
)
def test_data_that_does_not_fit_its_schema_is_never_made_to(described, node):
    with pytest.raises(DataError):
        JsonReader().parse_value(described, node)


def test_null_may_stay_null_where_there_is_a_default():
    reader = JsonReader(default_for_null=False)
    assert reader.parse_value(Builder.string().optional().default("d").build(), None) is None
    with pytest.raises(DataError, match="Invalid null value for required STRING field"):
        reader.parse_value(Builder.string().default("d").build(), None)


def test_a_struct_default_can_be_used():
    node = {
        "type": "struct",
        "fields": [{"field": "a", "type": "int8"}],
        "default": {"a": 5},
    }
    reader = JsonReader()
    inner = reader.parse_schema(node)
    assert inner is not None
    outer = Builder.struct().field("inner", inner).build()
    struct = reader.parse_value(outer, {})
    assert struct["inner"]["a"] == 5
    struct.validate()
    assert JsonWriter().format_value(outer, struct) == '{"inner":{"a":5}}'


SCALARS = st.one_of(
    st.tuples(st.just(schema.INT64_SCHEMA), st.integers(-(2**63), 2**63 - 1)),
    st.tuples(st.just(schema.FLOAT64_SCHEMA), st.floats(allow_nan=False)),
    st.tuples(st.just(schema.FLOAT32_SCHEMA), st.floats(width=32, allow_nan=False)),
    st.tuples(st.just(schema.OPTIONAL_STRING_SCHEMA), st.none() | st.text()),
    st.tuples(st.just(schema.BYTES_SCHEMA), st.binary()),
    st.tuples(st.just(schema.BOOLEAN_SCHEMA), st.booleans()),
    st.tuples(
        st.just(logical_types.TIME_SCHEMA), st.times().map(lambda t: t.replace(microsecond=0))
    ),
    st.tuples(st.just(logical_types.DATE_SCHEMA), st.dates()),
)


def _struct(fields):
    builder = Builder.struct().name("generated")
    for number, (described, _) in enumerate(fields):
        builder.field(f"f{number}", described)
    built = builder.build()
    values = {f"f{number}": value for number, (_, value) in enumerate(fields)}
    return built, Struct(built, values)


DATA = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4).map(_struct),
        inner.map(lambda one: (Builder.array(one[0]).build(), [one[1], one[1]])),
        inner.map(lambda one: (Builder.map(schema.STRING_SCHEMA, one[0]).build(), {"k": one[1]})),
    ),
    max_leaves=8,
)


@given(DATA)
def test_what_was_written_is_read_back(data):
    described, value = data
    writer, reader = JsonWriter(), JsonReader()
    node = jackson_json.parse_payload(writer.format_schema(described).encode())
    assert reader.parse_schema(node) == described
    payload = jackson_json.parse_payload(writer.format_value(described, value).encode())
    assert reader.parse_value(described, payload) == value


def nested(depth, **innermost):
    node = {"type": "string", **innermost}
    for _ in range(depth - 1):
        node = {"type": "array", "items": node}
    return node


def test_schemas_have_at_most_50_levels():
    assert JsonReader().parse_schema(nested(50)) is not None
    with pytest.raises(DataError, match="more than 50 levels"):
        JsonReader().parse_schema(nested(51))


def nested_defaults(depth, nulls):
    """Each level's default takes the level below that many times."""
    node = {"type": "int32", "default": 1}
    for _ in range(depth):
        node = {"type": "array", "items": node, "default": [None] * nulls}
    return node


@pytest.mark.parametrize(("depth", "nulls"), [(40, 2), (4, 300), (18, 3)])
def test_nested_defaults_stand_for_a_bounded_number_of_values(depth, nulls):
    with pytest.raises(DataError, match="more than 100,000 values"):
        JsonReader().parse_schema(nested_defaults(depth, nulls))


def test_a_record_takes_a_bounded_number_of_values_from_defaults():
    reader = JsonReader()
    items = reader.parse_schema(nested_defaults(2, 100))
    assert items is not None
    described = Builder.array(items).build()
    assert len(reader.parse_root_value(described, [None] * 5)) == 5
    with pytest.raises(DataError, match="more than 100,000 values"):
        reader.parse_root_value(described, [None] * 1_000)
    scalars = Builder.array(Builder.int32().default(1).build()).build()
    assert reader.parse_root_value(scalars, [None] * 200_000) == [1] * 200_000


def test_only_whole_schemas_of_bounded_size_are_cached():
    """A key for every level would cost the depth times the size."""
    reader = JsonReader()
    assert reader.parse_schema(nested(3)) is reader.parse_schema(nested(3))
    assert len(reader.schemas) == 1
    wide = nested(3, doc="x" * 70_000)
    assert reader.parse_schema(wide) is reader.parse_schema(wide)
    assert len(reader.schemas) == 2
    large = nested(3, doc="x" * 16_000_000)
    assert reader.parse_schema(large) == reader.parse_schema(large)
    assert len(reader.schemas) == 2
