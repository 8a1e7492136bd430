from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from connect_runtime.config import java_properties


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=1\nb:2\nc 3\n", {"a": "1", "b": "2", "c": "3"}),
        ("  a  =  1  \n", {"a": "1  "}),
        ("a = = 1\n", {"a": "= 1"}),
        ("a\n", {"a": ""}),
        ("# comment\n! comment\n\n   \na=1", {"a": "1"}),
        ("a=1#no comment\n", {"a": "1#no comment"}),
        ("a\\=b=1\n", {"a=b": "1"}),
        ("a\\ b=1\n", {"a b": "1"}),
        ("a=one\\\n   two\n", {"a": "onetwo"}),
        ("a=one\\\n#two\n", {"a": "one#two"}),
        ("a=1\\\\\nb=2\n", {"a": "1\\", "b": "2"}),
        ("a=1\\\n", {"a": "1"}),
        ("a=x\\ty\\nz\\q\n", {"a": "x\ty\nzq"}),
        ("a=\\u00e9\\u0041\n", {"a": "éA"}),
        ("a=1\r\nb=2\rc=3\n", {"a": "1", "b": "2", "c": "3"}),
        ("a=1\na=2\n", {"a": "2"}),
        ("password=p=a:s s\n", {"password": "p=a:s s"}),
        ("", {}),
        ("\\\n#comment\na=1\n", {"a": "1"}),
        ("\\\n\na=1\n", {"a": "1"}),
        ("\\", {"": ""}),
        ("a=\\ud83d\\ude00\n", {"a": "\U0001f600"}),
        ("a=b=c:d\na.b : c\n", {"a": "b=c:d", "a.b": "c"}),
        ("a-\\>b=1\na->b.c=2\n", {"a->b": "1", "a->b.c": "2"}),
    ],
)
def test_properties_are_read_as_java_reads_them(text, expected):
    assert java_properties.parse_properties(text) == expected


def test_a_broken_escape_is_told_by_its_line_without_its_content():
    with pytest.raises(ValueError, match="line 2") as caught:
        java_properties.parse_properties("a=1\npassword=hunter2\\u00g0\n")
    assert "hunter2" not in str(caught.value)


def test_every_pair_is_kept_with_its_line():
    found = java_properties.parse_property_entries("# top\na=1\nb=one\\\n two\na=2\n")
    assert [(each.key, each.value, each.line) for each in found] == [
        ("a", "1", 2),
        ("b", "onetwo", 3),
        ("a", "2", 5),
    ]


TEXTS = st.text(
    st.sampled_from("ab=: \t\f\r\n\\#!\u00e9\U0001f600u0.") | st.characters(), max_size=12
)


@example({"a": " ", "b": "", "c d": " x "})
@given(st.dictionaries(TEXTS.filter(bool), TEXTS, max_size=5))
def test_what_is_written_reads_back(pairs):
    text = "\n".join(java_properties.format_property(key, value) for key, value in pairs.items())
    assert text.isascii()
    replaced = {
        key: value
        for key, value in pairs.items()
        if not any("\ud800" <= char <= "\udfff" for char in key + value)
    }
    assert replaced.items() <= java_properties.parse_properties(text).items()
