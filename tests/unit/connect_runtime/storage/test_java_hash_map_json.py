from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect_runtime.storage import java_hash_map_json
from connect_runtime.storage.java_hash_map_json import MalformedJson, UnencodableValue


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (None, "null"),
        (True, "true"),
        (0, "0"),
        (-(2**63), "-9223372036854775808"),
        ({"offset": 41}, '{"offset":41}'),
        (["mm2-source", {"cluster": "a", "partition": 0, "topic": "t"}],
         '["mm2-source",{"cluster":"a","partition":0,"topic":"t"}]'),
        ({"z": 1, "a": None}, '{"z":1,"a":null}'),
        ([], "[]"),
        ({}, "{}"),
        ((1, "x"), '[1,"x"]'),
        ("a/b", '"a/b"'),
        ('"\\\b\t\n\f\r', '"\\"\\\\\\b\\t\\n\\f\\r"'),
        ("\x00\x1f\x0b\x7f", '"\\u0000\\u001F\\u000B\x7f"'),
        ("é€\uffff\u2028", '"é€\uffff\u2028"'),
        ("x😀\U0010ffff", '"x\\uD83D\\uDE00\\uDBFF\\uDFFF"'),
        ("\ud800-", '"\\uD800-"'),
        ({"😀": 1}, '{"\\uD83D\\uDE00":1}'),
        (b"\x01\x9c", '"AZw="'),
        ({1: "one", "two": 2}, '[[1,"one"],["two",2]]'),
    ],
)  # fmt: skip
def test_values_are_written_as_java_writes_them(value, written):
    assert java_hash_map_json.encode_json(value).decode() == written


@pytest.mark.parametrize(
    ("number", "printed"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1.0, "1.0"),
        (12.24, "12.24"),
        (-1.5, "-1.5"),
        (0.001, "0.001"),
        (0.00123, "0.00123"),
        (0.0001, "1.0E-4"),
        (0.000123, "1.23E-4"),
        (9999999.0, "9999999.0"),
        (1234567.25, "1234567.25"),
        (100.0, "100.0"),
        (1e7, "1.0E7"),
        (12345678.5, "1.23456785E7"),
        (1e16, "1.0E16"),
        (1e22, "1.0E22"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (5e-324, "4.9E-324"),
        (float("nan"), '"NaN"'),
        (float("-inf"), '"-Infinity"'),
        (float("inf"), '"Infinity"'),
    ],
)
def test_doubles_print_as_in_java(number, printed):
    assert java_hash_map_json.format_java_double(number) == printed


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_printed_double_is_the_same_number(number):
    assert float(java_hash_map_json.format_java_double(number)) == number


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1, {1, 2}, object(), {"a": 1j}])
def test_what_has_no_form_is_refused(value):
    with pytest.raises(UnencodableValue, match="writing JSON"):
        java_hash_map_json.encode_json(value)


def test_what_never_ends_is_refused():
    endless: list[object] = []
    endless.append(endless)
    with pytest.raises(UnencodableValue, match="too deeply"):
        java_hash_map_json.encode_json(endless)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (None, None),
        (b"", None),
        (b"  \n", None),
        (b"null", None),
        (b"\xef\xbb\xbf{}", {}),
        (b' {"a":1} and more', {"a": 1}),
        (b'{"a":1,"a":2}', {"a": 2}),
        (b"[1,2.5,true,null,\"x\"]", [1, 2.5, True, None, "x"]),
        (b'"\\u00e9"', "é"),
    ],
)  # fmt: skip
def test_json_is_read_as_java_reads_it(data, value):
    assert java_hash_map_json.decode_json(data) == value


@pytest.mark.parametrize(
    "data",
    [b"{", b"nonsense", b"NaN", b"[1,]", b'{"a"}', b"\xff\xfe", b"\xc3(", b"[" * 200_000,
     b"9" * 5000, b"'a'", b"007", b'"a" "b"', b"true false"],
)  # fmt: skip
def test_what_is_no_json_is_malformed_and_nothing_worse(data):
    with pytest.raises(MalformedJson, match="reading JSON"):
        java_hash_map_json.decode_json(data)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=10,
)


@given(JSON)
def test_what_is_written_is_read_back_with_its_order(value):
    data = java_hash_map_json.encode_json(value)
    assert java_hash_map_json.decode_json(data) == value
    assert java_hash_map_json.encode_json(java_hash_map_json.decode_json(data)) == data
    assert json.loads(data) == value  # others read it too


@given(st.binary(max_size=40))
def test_any_bytes_are_read_or_malformed(data):
    with contextlib.suppress(MalformedJson):
        java_hash_map_json.decode_json(data)


@pytest.mark.parametrize(
    ("value", "integer", "kind"),
    [(3, 3, "a number"), (True, None, "a boolean"), (3.0, None, "a number"), (None, None, "null"),
     ("3", None, "a string"), ([], None, "an array"), ({}, None, "an object")],
)  # fmt: skip
def test_integers_are_told_from_what_only_looks_like_them(value, integer, kind):
    assert java_hash_map_json.get_integer_or_none(value) == integer
    assert java_hash_map_json.get_json_type_name(value) == kind


@pytest.mark.parametrize(
    ("text", "hashed"),
    [("", 0), ("a", 97), ("topic", 110546223), ("Aa", 2112), ("BB", 2112), ("😀", 1772899)],
)
def test_strings_hash_as_in_java(text, hashed):
    assert java_hash_map_json.hash_java_string(text) == hashed


@pytest.mark.parametrize(
    "order",
    [
        ["cluster", "partition", "topic"],
        ["partition", "topic", "group"],
        ["sourceClusterAlias", "targetClusterAlias"],
        ["kafka_partition", "kafka_topic"],
    ],
)
def test_partition_maps_of_known_connectors_come_in_the_order_java_wrote(order):
    assert java_hash_map_json.order_keys_by_java_hash_bucket(reversed(order)) == order
    assert (
        list(java_hash_map_json.order_entries_like_java_hash_map(dict.fromkeys(sorted(order), 1)))
        == order
    )


def test_keys_of_one_bucket_keep_the_order_they_came_in():
    assert java_hash_map_json.order_keys_by_java_hash_bucket(["BB", "Aa"]) == ["BB", "Aa"]
    assert java_hash_map_json.order_keys_by_java_hash_bucket(["Aa", "BB"]) == ["Aa", "BB"]


def test_the_table_grows_beyond_twelve_keys():
    """`q` is in bucket 1 of 16 as `a` is, and in bucket 17 of 32."""
    twelve = [chr(code) for code in range(ord("a"), ord("m"))]
    assert java_hash_map_json.order_keys_by_java_hash_bucket(["q", *twelve[1:]])[0] == "q"
    assert java_hash_map_json.order_keys_by_java_hash_bucket(["q", *twelve])[-1] == "q"


@given(st.dictionaries(st.text(max_size=4), st.integers(), max_size=30))
def test_ordering_loses_nothing_and_again_changes_nothing(mapping):
    once = java_hash_map_json.order_entries_like_java_hash_map(mapping)
    assert once == mapping
    assert list(java_hash_map_json.order_entries_like_java_hash_map(once)) == list(once)
