from __future__ import annotations

import time

import pytest

from connect_runtime.config import yaml_parser
from connect_runtime.config.yaml_parser import YamlList, YamlNode, YamlScalar, YamlSection


def problems(text: str) -> list[tuple[int, str]]:
    return [(problem.line, problem.text) for problem in yaml_parser.parse_yaml(text).problems]


def section(text: str) -> YamlSection:
    document = yaml_parser.parse_yaml(text)
    assert not document.problems
    assert isinstance(document.root, YamlSection)
    return document.root


def plain(node: YamlNode) -> object:
    if isinstance(node, YamlScalar):
        return node.text
    if isinstance(node, YamlList):
        return [plain(item) for item in node.items]
    return {entry.key: plain(entry.value) for entry in node.entries}


def test_every_scalar_is_text_as_written():
    text = "a: 1.10\nb: no\nc: 2026-01-31T08:00:00Z\nd: 0x10\ne: [true, 1_000]\n1: x\n"
    assert plain(section(text)) == {
        "a": "1.10",
        "b": "no",
        "c": "2026-01-31T08:00:00Z",
        "d": "0x10",
        "e": ["true", "1_000"],
        "1": "x",
    }


def test_nothing_is_told_from_an_empty_text():
    text = "a:\nb: ~\nc: null\nd: ''\ne: 'null'\nf: []\ng: {}\n"
    found = plain(section(text))
    assert found == {"a": None, "b": None, "c": None, "d": "", "e": "null", "f": [], "g": {}}


def test_keys_and_values_know_their_lines():
    root = section("# first\na: 1\nb:\n  c: 2\n  d:\n  - 3\n  - 4\n")
    assert [entry.line for entry in root.entries] == [2, 3]
    b = root.get_entry("b")
    assert b is not None
    assert isinstance(b.value, YamlSection)
    d = b.value.get_entry("d")
    assert d is not None
    assert d.line == 5
    assert isinstance(d.value, YamlList)
    assert [item.line for item in d.value.items] == [6, 7]
    assert root.get_entry("x") is None


def test_duplicate_keys_are_told_with_both_lines_and_the_first_one_counts():
    document = yaml_parser.parse_yaml("a: 1\nb:\n  c: 1\n  c: 2\na: 3\n")
    assert [(problem.line, problem.text) for problem in document.problems] == [
        (4, "duplicate key 'c', first defined on line 3"),
        (5, "duplicate key 'a', first defined on line 1"),
    ]
    assert document.root is not None
    assert plain(document.root) == {"a": "1", "b": {"c": "1"}}


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("a: [1\nb: 2\n", 2, "is not valid YAML"),
        ("a: 1\n\tb: 2\n", 2, "is not valid YAML"),
        ("a: @x\n", 1, "is not valid YAML"),
        ("a: *nowhere\n", 1, "undefined alias"),
        ("a: 1\n---\nb: 2\n", 3, "a second YAML document"),
        ("a: \x01\n", 1, "YAML does not allow"),
        ("<<: {a: 1}\n", 1, "plain text"),
        ("? [a]\n: 1\n", 1, "plain text"),
        ("a: &x\n  b: *x\n", 2, "recursive"),
        ("[" * 5000, 1, "deeper than 50 levels"),
    ],
)
def test_what_is_not_plain_configuration_is_a_problem(text, line, words):
    ((found_line, found),) = problems(text)
    assert words in found
    if words != "recursive":
        assert found_line == line


def test_aliases_may_repeat_but_not_explode():
    assert plain(section("a: &x [1, 2]\nb: *x\n")) == {"a": ["1", "2"], "b": ["1", "2"]}
    bomb = "a: &a [x, x, x, x, x, x, x, x, x]\n"
    for name, before in zip("bcdefghi", "abcdefgh", strict=True):
        bomb += f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n"
    ((_, text),) = problems(bomb)
    assert "recursive" in text


def test_an_empty_file_has_no_root_and_no_problem():
    for text in ("", "# only a comment\n", "---\n"):
        document = yaml_parser.parse_yaml(text)
        assert document.problems == ()
        root = document.root
        assert root is None or (isinstance(root, YamlScalar) and root.text is None)


@pytest.mark.parametrize(
    ("value", "sign"),
    [
        ("'hunter2", ""),
        ("*hunter2", "*"),
        ("!hunter2!x", "!"),
        ("!hunter2 x", "!"),
        ("&hunter2 a\nother: &hunter2 b", "&"),
    ],
)
def test_problems_do_not_quote_the_file(value, sign):
    ((_, text),) = problems(f"password: {value}\n")
    assert "hunter2" not in text
    assert f"begins with {sign}" in text or not sign


def test_values_are_not_in_the_repr():
    assert "hunter2" not in repr(yaml_parser.parse_yaml("password: hunter2\n"))


def test_rendered_text_reads_back():
    tree = {"b": "x: y", "a": ["1", "no", "é"], "c": {"d": ""}}
    assert plain(section(yaml_parser.format_yaml(tree))) == tree


@pytest.mark.parametrize("depth", [51, 330, 490, 5_000])
def test_nesting_that_no_configuration_needs_is_a_problem(depth):
    found = yaml_parser.parse_yaml("a: b\nc: " + "[" * depth + "]" * depth)
    (problem,) = found.problems
    assert (found.root, problem.line) == (None, 2)
    assert problem.text == "is nested deeper than 50 levels"
    assert yaml_parser.parse_yaml("a: " + "[" * 48 + "]" * 48).problems == ()


@pytest.mark.parametrize("text", ["? " + "[" * 100_000 + ": b", "- " * 50_000, "{a: " * 50_000])
def test_deep_nesting_is_given_up_before_it_costs_time(text):
    started_s = time.process_time()
    assert yaml_parser.parse_yaml(text).root is None
    assert time.process_time() - started_s < 1.0
