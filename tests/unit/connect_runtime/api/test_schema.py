from __future__ import annotations

import pickle

import pytest

from connect_runtime.api import schema
from connect_runtime.api.errors import DataError
from connect_runtime.api.schema import SchemaType
from connect_runtime.api.schema_builder import SchemaBuilder

Builder = SchemaBuilder


def everything() -> Builder:
    return (
        Builder.struct()
        .name("com.example.Order")
        .version(3)
        .doc("An order")
        .parameter("a", "1")
        .field("id", schema.INT64_SCHEMA)
        .field("tags", Builder.array(schema.STRING_SCHEMA).optional())
        .field("counts", Builder.map(schema.STRING_SCHEMA, schema.INT32_SCHEMA))
    )


def test_two_schemas_are_equal_when_everything_is():
    assert everything().build() == everything().build()
    assert hash(everything().build()) == hash(everything().build())


@pytest.mark.parametrize(
    "other",
    [
        everything().optional(),
        everything().field("more", schema.STRING_SCHEMA),
        everything().parameter("a", "2"),
        everything().parameter("b", "1"),
        Builder.struct().name("com.example.Order"),
        Builder.struct().name("com.example.Other"),
    ],
    ids=["optional", "field", "parameter", "parameters", "bare", "name"],
)
def test_one_difference_makes_them_different(other):
    assert other.build() != everything().build()


@pytest.mark.parametrize("property_", ["name", "doc", "version", "default"])
def test_metadata_counts(property_):
    value = {"name": "x", "doc": "x", "version": 1, "default": "x"}[property_]
    changed = getattr(Builder.string(), property_)(value).build()
    assert changed != schema.STRING_SCHEMA
    assert changed.equals_ignoring_default(schema.STRING_SCHEMA) == (property_ == "default")


def test_element_schemas_count():
    strings = Builder.array(schema.STRING_SCHEMA).build()
    assert strings != Builder.array(schema.OPTIONAL_STRING_SCHEMA).build()
    one = Builder.map(schema.STRING_SCHEMA, schema.INT32_SCHEMA).build()
    assert one != Builder.map(schema.STRING_SCHEMA, schema.INT64_SCHEMA).build()
    assert one != Builder.map(schema.INT32_SCHEMA, schema.INT32_SCHEMA).build()


def test_fields_are_found_by_name_and_keep_their_order():
    built = everything().build()
    assert [each.name for each in built.fields] == ["id", "tags", "counts"]
    assert [each.index for each in built.fields] == [0, 1, 2]
    found = built.field("tags")
    assert found is not None
    assert found.schema.optional
    assert built.field("none") is None
    assert Builder.struct().build().fields == ()


@pytest.mark.parametrize(
    ("asked", "of"),
    [
        (lambda s: s.fields, schema.STRING_SCHEMA),
        (lambda s: s.field("a"), schema.STRING_SCHEMA),
        (lambda s: s.key_schema, Builder.array(schema.STRING_SCHEMA).build()),
        (lambda s: s.key_schema, schema.STRING_SCHEMA),
        (lambda s: s.value_schema, everything().build()),
    ],
)
def test_what_a_type_does_not_have_cannot_be_asked_for(asked, of):
    with pytest.raises(DataError, match="Cannot"):
        asked(of)


def test_element_schemas_are_read_back():
    built = Builder.map(schema.STRING_SCHEMA, schema.INT32_SCHEMA).build()
    assert built.key_schema is schema.STRING_SCHEMA
    assert built.value_schema is schema.INT32_SCHEMA


def test_another_process_gets_an_equal_schema():
    built = everything().build()
    assert pickle.loads(pickle.dumps(built)) == built
    string = Builder.string().default("x").build()
    assert pickle.loads(pickle.dumps(string)).default == "x"


def test_it_prints_as_in_java():
    assert repr(schema.INT8_SCHEMA) == "Schema{INT8}"
    assert repr(everything().build()) == "Schema{com.example.Order:STRUCT}"


def test_containers_are_not_primitive():
    containers = {each for each in SchemaType if not each.is_primitive}
    assert containers == {SchemaType.ARRAY, SchemaType.MAP, SchemaType.STRUCT}


def test_a_logical_type_always_gets_a_closer_look():
    assert schema.BYTES_SCHEMA.python_class is bytes
    assert Builder.bytes().name(schema.DECIMAL_NAME).build().python_class is None
    assert Builder.string().name("com.example.Colour").build().python_class is str
    assert schema.INT8_SCHEMA.python_class is None
