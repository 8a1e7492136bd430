from __future__ import annotations

import datetime
from typing import Any

import pytest

from connect_runtime.api import errors, headers, logical, schema, schema_builder, structs


def some() -> headers.Headers:
    return (
        headers.Headers()
        .add_string("a", "1")
        .add_string("b", "2")
        .add_string("a", "3")
        .add_bytes("c", b"4")
    )


def keys(of):
    return [(each.key, each.value) for each in of]


def test_names_repeat_and_order_is_kept():
    assert keys(some()) == [("a", "1"), ("b", "2"), ("a", "3"), ("c", b"4")]
    assert len(some()) == 4
    last = some().last_with_name("a")
    assert last is not None
    assert last.value == "3"
    assert some().last_with_name("none") is None
    assert keys(some().all_with_name("a")) == [("a", "1"), ("a", "3")]


def test_removing_and_retaining():
    assert keys(some().remove("a")) == [("b", "2"), ("c", b"4")]
    assert keys(some().retain_latest()) == [("b", "2"), ("a", "3"), ("c", b"4")]
    twice = some().add_string("b", "5")
    assert keys(twice.retain_latest("b")) == [("a", "1"), ("a", "3"), ("c", b"4"), ("b", "5")]
    assert len(some().clear()) == 0


def test_a_change_is_made_in_place_and_none_removes():
    renamed = some().apply(lambda each: each.renamed("z"), "a")
    assert keys(renamed) == [("z", "1"), ("b", "2"), ("z", "3"), ("c", b"4")]
    assert keys(some().apply(lambda each: None if each.key == "a" else each)) == [
        ("b", "2"),
        ("c", b"4"),
    ]


def test_a_duplicate_goes_its_own_way():
    original = some()
    copy = original.duplicate()
    assert copy == original
    copy.add_string("d", "5")
    assert copy != original
    assert len(original) == 4


def test_values_must_be_of_their_schemas_class():
    one = headers.Headers()
    one.add("t", datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC), logical.TIMESTAMP_SCHEMA)
    one.add("n", None, schema.OPTIONAL_INT8_SCHEMA)
    one.add("plain", 5)
    for value, described in ((None, schema.STRING_SCHEMA), (5, schema.STRING_SCHEMA)):
        with pytest.raises(errors.DataError):
            one.add("x", value, described)
    assert len(one) == 3
    null: Any = None
    with pytest.raises(errors.DataError, match="Null header keys"):
        headers.Header(null, 1)


def test_null_text_and_bytes_are_optional():
    one = headers.Headers().add_string("a", None).add_bytes("b", None)
    assert [each.schema for each in one] == [
        schema.OPTIONAL_STRING_SCHEMA,
        schema.OPTIONAL_BYTES_SCHEMA,
    ]


def test_a_struct_brings_its_schema():
    described = schema_builder.SchemaBuilder.struct().field("a", schema.INT8_SCHEMA).build()
    assert headers.Header("s", structs.Struct(described)).schema is described
