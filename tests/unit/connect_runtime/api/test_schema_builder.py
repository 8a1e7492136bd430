from __future__ import annotations

from typing import Any

import pytest

from connect_runtime.api import schema
from connect_runtime.api.errors import DataError, SchemaBuilderError
from connect_runtime.api.schema import Schema, SchemaType
from connect_runtime.api.schema_builder import SchemaBuilder
from connect_runtime.api.structs import Struct

Builder = SchemaBuilder
NULL: Any = None


@pytest.mark.parametrize(
    ("builder", "of", "default"),
    [
        (Builder.int8, SchemaType.INT8, 12),
        (Builder.int16, SchemaType.INT16, 12),
        (Builder.int32, SchemaType.INT32, 12),
        (Builder.int64, SchemaType.INT64, 12),
        (Builder.float32, SchemaType.FLOAT32, 12.0),
        (Builder.float64, SchemaType.FLOAT64, 12.0),
        (Builder.boolean, SchemaType.BOOLEAN, True),
        (Builder.string, SchemaType.STRING, "a string"),
        (Builder.bytes, SchemaType.BYTES, b"a byte array"),
    ],
)
def test_each_type_takes_its_default_and_no_other(builder, of, default):
    assert builder().build() == Schema(type=of)
    built = builder().name("n").version(2).optional().default(default).doc("doc").build()
    assert (built.type, built.optional, built.default) == (of, True, default)
    assert (built.name, built.version, built.doc) == ("n", 2, "doc")
    wrong = 1 if of is SchemaType.STRING else "invalid"
    with pytest.raises(SchemaBuilderError, match="Invalid default value"):
        builder().default(wrong)


def test_a_property_is_said_once():
    builder = Builder.string().name("testing").version(123).doc("d").optional().default("x")
    builder.name("testing").optional().default("x")
    for again in (
        lambda: builder.name("other"),
        lambda: builder.version(456),
        lambda: builder.doc("other"),
        lambda: builder.default("y"),
        builder.required,
    ):
        with pytest.raises(SchemaBuilderError, match="already been set"):
            again()


def test_null_is_a_default_only_of_what_is_optional():
    assert Builder.string().optional().default(None).build().default is None
    with pytest.raises(SchemaBuilderError):
        Builder.string().default(None)


def test_parameters_add_up_and_are_never_empty():
    assert Builder.string().parameters({}).build().parameters is None
    built = Builder.string().parameter("a", "1").parameters({"b": "2", "a": "3"}).build()
    assert built.parameters == {"a": "3", "b": "2"}


def test_later_calls_do_not_change_what_was_built():
    builder = Builder.struct().parameter("a", "1").field("one", schema.STRING_SCHEMA)
    built = builder.build()
    builder.parameter("b", "2").field("two", schema.STRING_SCHEMA)
    assert built.parameters == {"a": "1"}
    assert [each.name for each in built.fields] == ["one"]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Builder.string().field("a", schema.STRING_SCHEMA),
        lambda: Builder.struct().field("", schema.STRING_SCHEMA),
        lambda: Builder.struct().field("a", NULL),
        lambda: Builder.struct().field("a", schema.STRING_SCHEMA).field("a", schema.INT8_SCHEMA),
        lambda: Builder.array(NULL),
        lambda: Builder.map(NULL, schema.STRING_SCHEMA),
        lambda: Builder.map(schema.STRING_SCHEMA, NULL),
    ],
)
def test_what_is_refused(wrong):
    with pytest.raises(SchemaBuilderError):
        wrong()


def test_a_struct_may_have_a_default_and_it_fits():
    builder = Builder.struct().field("a", schema.INT32_SCHEMA)
    default = Struct(builder.build(), {"a": 7})
    built = builder.default(default).build()
    outer = Builder.struct().field("inner", built).build()
    struct = Struct(outer)
    assert struct.get("inner") == default
    struct.put("inner", default)
    struct.put("inner", Struct(built, {"a": 8}))
    with pytest.raises(DataError, match="do not match"):
        struct.put("inner", Struct(Builder.struct().field("b", built).build()))
