from __future__ import annotations

import pathlib
from typing import Any

import pytest

from connect_runtime.config import config_errors, yaml_parser
from connect_runtime.config.config_providers import ConfigTransformer
from connect_runtime.config.yaml_parser import YamlSection
from mm2.config import config_value_types, yaml_section_reader
from mm2.config.config_value_types import PatternListType
from mm2.config.yaml_section_reader import ConfigOption, ProblemCollector, SectionReader

SIZE = ConfigOption(name="size", kind=config_value_types.integer_type(1), default="5")
NAME = ConfigOption(name="name", kind=config_value_types.text_type(), default=None)
NAMES = ConfigOption(name="names", kind=PatternListType(), default=("a", "b"))


def section(text: str) -> YamlSection:
    root = yaml_parser.parse_yaml(text).root
    assert isinstance(root, YamlSection)
    return root


@pytest.fixture
def collector() -> ProblemCollector:
    providers = ConfigTransformer(
        environment={"SECRET": "hunter2", "SIZE": "7"}, folder=pathlib.Path("/nowhere")
    )
    return ProblemCollector(pathlib.Path("/nowhere"), providers)


def texts(collector: ProblemCollector) -> list[tuple[int, str, str]]:
    return [(item.line, item.key, item.text) for item in collector.problems]


def test_values_come_from_the_section_then_the_defaults_then_the_option(collector):
    defaults = section("size: 6\nname: n\n")
    found = SectionReader(collector, section("size: 7\n"), path="f", defaults=defaults)
    assert found.get(SIZE) == 7
    assert found.get_required(NAME) == "n"
    assert found.get(NAMES).items == ("a", "b")
    assert found.effective == {"size": 7, "name": "n", "names": ["a", "b"]}
    assert not collector.problems


@pytest.mark.parametrize("text", ["names: x, y", "names: [x, y]", "names: ' x ,y '"])
def test_lists_are_yaml_lists_or_have_commas(collector, text):
    found = SectionReader(collector, section(text), path="f")
    assert found.get(NAMES).items == ("x", "y")


def test_commas_in_a_yaml_list_do_not_split(collector):
    found = SectionReader(collector, section("names: ['x{1,2}']"), path="f")
    assert found.get(NAMES).matches("xx")


@pytest.mark.parametrize("text", ["names: []", "names: ''"])
def test_an_empty_list_is_a_value(collector, text):
    assert SectionReader(collector, section(text), path="f").get(NAMES).items == ()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("size: x", "is not allowed"),
        ("size: [1]", "must be a single value, not a list"),
        ("size: {a: 1}", "must be a single value, not a section"),
        ("size:", "has no value"),
        ("size: ${env:NOPE}", "is not set"),
        ("names: {a: 1}", "must be a list, not a section"),
        ("names: [[a]]", "must be a list of strings, but contains a list"),
        ("names: ['(']", "not a regular expression"),
        ("names: [a, ~]", "has no value"),
    ],
)
def test_a_mistake_is_noted_and_the_default_goes_on(collector, text, words):
    found = SectionReader(collector, section(f"\n{text}\n"), path="f")
    assert found.get(SIZE) == 5 or text.startswith("names")
    assert found.get(NAMES).items == ("a", "b") or text.startswith("size")
    ((line, key, problem),) = texts(collector)
    assert line == 2
    assert key in ("f.size", "f.names")
    assert words in problem


def test_a_required_setting_that_is_missing_is_noted_at_its_section(collector):
    found = SectionReader(collector, section("\n\nsize: 1\n"), path="f")
    assert found.get_required(NAME) is None
    assert texts(collector) == [(3, "f", "name is missing")]


def test_an_optional_setting_may_be_missing(collector):
    found = SectionReader(collector, section("size: 1"), path="f")
    assert found.get_optional(NAME) is None
    assert SectionReader(collector, section("name: n"), path="f").get_optional(NAME) == "n"
    assert not collector.problems


def test_mistakes_in_defaults_are_left_to_their_own_reader(collector):
    defaults = section("size: x\n")
    found = SectionReader(collector, section("name: n"), path="f", defaults=defaults)
    assert found.get(SIZE) == 5
    assert not collector.problems


def test_values_from_providers_are_hidden_but_used(collector):
    found = SectionReader(
        collector,
        section("size: ${env:SIZE}\nname: ${env:SECRET}\nnames: ['${env:SECRET}']"),
        path="f",
    )
    assert found.get(SIZE) == 7
    assert found.get_required(NAME) == "hunter2"
    assert found.get(NAMES).matches("hunter2")
    assert set(found.effective.values()) == {config_errors.HIDDEN_VALUE}


def test_mistaken_secrets_are_not_shown(collector):
    found = SectionReader(
        collector, section("size: ${env:SECRET}\nnames: '${env:SECRET}('"), path="f"
    )
    found.get(SIZE)
    found.get(NAMES)
    assert len(collector.problems) == 2
    for problem in collector.problems:
        assert "hunter2" not in problem.describe("f")


def test_keys_that_nobody_read_are_told(collector):
    found = SectionReader(
        collector, section("size: 1\nsizes: 2\nold: 3\nfamily.x: 4\nbananas: 5"), path="f"
    )
    found.get(SIZE)
    found.report_unread_keys(refused={"old": "is gone"}, families={"family.": "are unwanted"})
    assert texts(collector) == [
        (2, "f.sizes", "is not a known key"),
        (3, "f.old", "is gone"),
        (4, "f.family.x", "are unwanted"),
        (5, "f.bananas", "is not a known key"),
    ]
    assert collector.problems[0].nearest == "size"
    assert collector.problems[3].nearest is None


def test_free_keys(collector):
    found = SectionReader(
        collector, section("conf:\n  a: ' 1 '\n  b: ${env:SECRET}\n  c: [1]\n"), path="f"
    )
    free = found.read_nested_section("conf")
    assert {key: (given.text, given.secret, given.line) for key, given in free.items()} == {
        "a": ("1", False, 2),
        "b": ("hunter2", True, 3),
    }
    assert [problem.key for problem in collector.problems] == ["f.conf.c"]
    assert "hunter2" not in repr(free)
    assert found.read_nested_section("nothing") == {}


def test_lines_of_settings(collector):
    found = SectionReader(
        collector, section("\nsize: 1\n"), path="f", defaults=section("\n\n\nname: n\n")
    )
    assert found.get_line("size") == 2
    assert found.get_line("name") == 4
    assert found.get_line("names") == 2


def test_warnings_are_of_keys_in_the_section_itself_and_no_problems(collector):
    found = SectionReader(
        collector, section("\nsize: 1\n"), path="f", defaults=section("name: n\n")
    )
    for name in ("size", "name", "names"):
        found.warn_if_key_set(name, "does nothing")
    assert [(each.line, each.key, each.text) for each in collector.warnings] == [
        (2, "f.size", "does nothing")
    ]
    assert collector.problems == []


@pytest.mark.parametrize(
    ("text", "expected"), [("a: {b: 1}", 1), ("a:", 0), ("a: x", None), ("a: [x]", None)]
)
def test_an_empty_entry_is_an_empty_section(collector: Any, text, expected):
    found = yaml_section_reader.convert_to_section(collector, section(text).entries[0], path="a")
    assert (None if found is None else len(found.entries)) == expected
    assert len(collector.problems) == (expected is None)
