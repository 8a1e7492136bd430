from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect_runtime.core.state import java_map_order


@pytest.mark.parametrize(
    ("text", "hashed"),
    [("", 0), ("a", 97), ("topic", 110546223), ("Aa", 2112), ("BB", 2112), ("😀", 1772899)],
)
def test_strings_hash_as_in_java(text, hashed):
    assert java_map_order.string_hash(text) == hashed


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
    assert java_map_order.ordered_keys(reversed(order)) == order
    assert list(java_map_order.ordered(dict.fromkeys(sorted(order), 1))) == order


def test_keys_of_one_bucket_keep_the_order_they_came_in():
    assert java_map_order.ordered_keys(["BB", "Aa"]) == ["BB", "Aa"]
    assert java_map_order.ordered_keys(["Aa", "BB"]) == ["Aa", "BB"]


def test_the_table_grows_beyond_twelve_keys():
    """`q` is in bucket 1 of 16 as `a` is, and in bucket 17 of 32."""
    twelve = [chr(code) for code in range(ord("a"), ord("m"))]
    assert java_map_order.ordered_keys(["q", *twelve[1:]])[0] == "q"
    assert java_map_order.ordered_keys(["q", *twelve])[-1] == "q"


@given(st.dictionaries(st.text(max_size=4), st.integers(), max_size=30))
def test_ordering_loses_nothing_and_again_changes_nothing(mapping):
    once = java_map_order.ordered(mapping)
    assert once == mapping
    assert list(java_map_order.ordered(once)) == list(once)
