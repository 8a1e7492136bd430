from __future__ import annotations

import pytest

from connect_runtime.adapters.config import properties_source


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
    ],
)
def test_properties_are_read_as_java_reads_them(text, expected):
    assert properties_source.parse(text) == expected


def test_a_broken_escape_is_told_by_its_line_without_its_content():
    with pytest.raises(ValueError, match="line 2") as caught:
        properties_source.parse("a=1\npassword=hunter2\\u00g0\n")
    assert "hunter2" not in str(caught.value)
