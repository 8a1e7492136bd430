from __future__ import annotations

import json
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect_runtime.api.errors import DataError
from connect_runtime.plugins import jackson_json
from connect_runtime.plugins.jackson_json import LruCache


def test_what_was_longest_not_used_goes_first():
    held: LruCache[str, int] = LruCache(2)
    held.put("a", 1)
    held.put("b", 2)
    assert held.get("a") == 1
    held.put("c", 3)
    assert held.get("b") is None
    assert (held.get("a"), held.get("c"), len(held)) == (1, 3, 2)


def test_entries_have_a_total_size():
    held: LruCache[str, int] = LruCache(9, size_limit=10)
    held.put("a", 1, size=4)
    held.put("b", 2, size=4)
    held.put("a", 3, size=5)
    assert (held.get("a"), held.get("b")) == (3, 2)
    held.put("c", 4, size=4)
    assert (held.get("a"), held.get("b"), held.get("c"), len(held)) == (None, 2, 4, 2)
    held.put("d", 5, size=11)
    assert held.get("d") is None
    assert len(held) == 2


def test_it_may_hold_nothing():
    held: LruCache[str, int] = LruCache(0)
    held.put("a", 1)
    assert held.get("a") is None
    assert len(held) == 0


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("", '""'),
        ('say "hi"\\ / ', '"say \\"hi\\"\\\\ / "'),
        ("\b\t\n\f\r", '"\\b\\t\\n\\f\\r"'),
        ("\x00\x1f\x7f", '"\\u0000\\u001F\x7f"'),
        ("caf\u00e9 \u20ac", '"caf\u00e9 \u20ac"'),
        ("\U0001f600", '"\\uD83D\\uDE00"'),
        ("\u2028", '"\u2028"'),
    ],
)
def test_texts_are_escaped_as_by_jackson(text, quoted):
    assert jackson_json.quote_text(text) == jackson_json.quote_field_name(text) == quoted


def test_only_payloads_of_bounded_size_are_parsed():
    most = jackson_json.MAX_PAYLOAD_BYTES
    assert jackson_json.parse_payload(b"1".ljust(most)) == 1
    with pytest.raises(DataError, match="67,108,865 bytes, but JSON may have at most 67,108,864"):
        jackson_json.parse_payload(b"1".ljust(most + 1))


@given(st.text())
def test_every_text_is_read_back(text):
    assert json.loads(jackson_json.quote_text(text)) == text


@pytest.mark.parametrize(
    ("payload", "node"),
    [
        (b"null", None),
        (b" true ", True),
        (b"12", 12),
        (b"-0", 0),
        (b"12.50", Decimal("12.50")),
        (b"1e2", Decimal("1E+2")),
        (b'{"a":[1,"x"],"a":2}', {"a": 2}),
        (b"0012", 12),
        (b'{"a": -007, "b": "0012", "c": 00.5}', {"a": -7, "b": "0012", "c": Decimal("0.5")}),
        (b"{} and more", {}),
        (b'"x"y', "x"),
        (b"1 2", 1),
        (b"\xef\xbb\xbf[]", []),
        ('"\u00e9"'.encode("utf-16-le"), "\u00e9"),
    ],
)
def test_what_is_read(payload, node):
    found = jackson_json.parse_payload(payload)
    assert found == node
    assert type(found) is type(node)


@pytest.mark.parametrize("payload", [b"", b"  \n"])
def test_nothing_is_not_null(payload):
    assert jackson_json.parse_payload(payload) is jackson_json.MISSING_JSON


@pytest.mark.parametrize(
    "payload",
    [
        b"{",
        b"nope",
        b"NaN",
        b"-Infinity",
        b"2024-01-02",
        b"trueish",
        b"{'a': 1}",
        b'{"a": 1,}',
        b'"\x01"',
        b"\xff\xfe\xfa",
        b'"\xc3"',
        b"[" * 100_000,
        b"1" * 10_000,
        b"1e99999999999999999999999",
    ],
)
def test_what_is_refused_without_showing_the_data(payload):
    with pytest.raises(DataError, match="not valid JSON") as caught:
        jackson_json.parse_payload(payload)
    assert "2024" not in str(caught.value)
    assert caught.value.__suppress_context__
