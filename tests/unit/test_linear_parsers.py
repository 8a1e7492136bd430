"""Parsers that replaced slow expressions return exactly what the expressions did."""

from __future__ import annotations

import functools
import random
import re
import time

import pytest

from connect_runtime.adapters.config import value_providers
from connect_runtime.api import config_types, errors
from connect_runtime.base import placeholders
from connect_runtime.builtin import text_parsing
from connect_runtime.builtin.converters import json_text
from connect_runtime.core.herder import task_configs
from connect_runtime.kafka_client import library_log, translate_errors
from connect_runtime.rest import basic_auth
from mm2.core.configs import java_classes
from mm2.pipeline.spark import failures

JAVA_PLACEHOLDER = re.compile(r"\$\{([^}]*?):(([^}]*?):)?([^}]*?)\}")
"""ConfigTransformer.DEFAULT_PATTERN of Kafka 4.3."""


def same(alphabet: str | list[str]):
    """Runs a test on many short random texts of these pieces."""

    def decorate(test):
        @functools.wraps(test)
        def run():
            random_texts = random.Random(7)
            for _ in range(4000):
                length = random_texts.randrange(15)
                test("".join(random_texts.choices(alphabet, k=length)))

        del run.__wrapped__
        return run

    return decorate


@same(["$", "{", "}", ":", "${", "a", "\n"])
def test_placeholders_are_those_that_java_finds(text):
    found = [(each[1], each[3], each[4], each.span()) for each in JAVA_PLACEHOLDER.finditer(text)]
    ours = [
        (each.provider, each.path, each.key, (each.start, each.end))
        for each in placeholders.find(text)
    ]
    assert ours == found
    assert placeholders.replace(text, lambda _: "<$1>") == JAVA_PLACEHOLDER.sub("<$1>", text)
    assert bool(task_configs.referring({"k": text})) == bool(JAVA_PLACEHOLDER.search(text))
    assert value_providers.named(text) == [each[0] for each in found]


@same(", \t\n\x0b\x0cab")
def test_lists_are_split_as_java_splits_them(text):
    trimmed = text.strip(config_types.JAVA_BLANKS)
    expected = re.split(r"\s*,\s*", trimmed, flags=re.ASCII) if trimmed else []
    assert config_types.parse("k", text, config_types.Type.LIST) == expected


@same(["+", "-", "0", "7", ".", "e", "E", "d", "F", "NaN", "Infinity"])
def test_doubles_are_read_as_before(text):
    known = re.fullmatch(
        r"[+-]?(NaN|Infinity|([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?)[dDfF]?", text
    )
    try:
        found = config_types.parse("k", text, config_types.Type.DOUBLE)
    except errors.ConfigError:
        found = None
    assert (found is not None) == (known is not None)


@same("+-07.eE ")
def test_numbers_in_headers_are_read_as_before(text):
    known = re.fullmatch(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,9})?", text)
    assert (text_parsing.number(text) is not None) == (known is not None)


@same(['"', "\\", "0", "1", ".", "-", "[", "]", ",", "n", "\n", " ", "{", "}", ":", "e"])
def test_json_with_leading_zeros_is_read_as_before(text):
    before = re.compile(r'"(?:[^"\\]|\\.)*"|(?<![0-9.eE+\-])(-?)0+(?=[0-9])')
    repaired = before.sub(json_text._without_zeros, text)
    try:
        expected = json_text.parse(repaired.encode())
    except errors.DataError:
        expected = errors.DataError
    try:
        found = json_text.parse(text.encode())
    except errors.DataError:
        found = errors.DataError
    assert found == expected


@same(["KafkaConnect", " ", "{", "}", ";", "x", "\n"])
def test_the_entry_of_a_jaas_file_is_found_as_before(text):
    before = re.search(r"\bKafkaConnect\s*\{(?P<entry>[^}]*)\}\s*;", text)
    assert basic_auth._section(text) == (before["entry"] if before else None)


@same(["a", "B", "_", ".", ":", "1", "-", "é"])
def test_names_of_classes_are_told_from_others_as_before(text):
    before = re.fullmatch(r"\w+(\.\w+)*[.:]\w+(\.\w+)*", text)
    assert java_classes.is_python(text) == (before is not None)


@same(
    ["Traceback (most recent call last):\n", "\n", " ", "\t", "\n\tat ", "SQLSTATE", "E: x", "\r"]
)
def test_sparks_reasons_are_read_as_before(text):
    before = re.search(
        r"Traceback \(most recent call last\):\n"
        r"(.*?)(?:\n\s*\n|\n\tat |\n?\s*SQLSTATE|\Z)",
        text,
        re.DOTALL,
    )
    if before:
        assert failures.of_job(text) == before[1].rstrip().rpartition("\n")[2].strip()


@pytest.mark.parametrize("ending", ["", ", 30 identical error(s) suppressed"])
def test_what_librdkafka_adds_to_its_messages_is_left_out(ending):
    detail = f"(after 12ms in state CONNECT{ending})"
    said = translate_errors._without_local_detail(f"Connect to x:9 failed: refused {detail}")
    assert said == "Connect to x:9 failed: refused"
    assert "12ms" not in library_log._DURATION.sub("", f"x: 7 {detail} and 12ms")
    assert translate_errors._without_local_detail("no detail (really)") == "no detail (really)"


LONG = 64_000


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (lambda text: task_configs.referring({"k": text}), "${a:" * LONG),
        (value_providers.named, "${a:" * LONG),
        (value_providers.named, "${a:" + ":" * LONG),
        (value_providers.named, "${" * LONG),
        (lambda text: value_providers.rewrite(text, lambda *_: ""), "${a:b}${" * LONG),
        (
            lambda text: config_types.parse("k", text, config_types.Type.LIST),
            "a" + " " * LONG + "b",
        ),
        (text_parsing.parse, "9" * LONG + "x"),
        (text_parsing.parse, "[" + "9" * LONG + "x]"),
        (text_parsing.parse, "[" * LONG),
        (text_parsing.parse, "," * LONG),
        (text_parsing.parse, '{"":' * LONG),
        (java_classes.is_python, "w." * LONG),
        (failures.of_job, "Traceback (most recent call last):\n" + " \n" * LONG),
    ],
)
def test_long_texts_cost_little(read, text):
    start_s = time.thread_time()
    read(text)
    assert time.thread_time() - start_s < 1.0


@pytest.mark.parametrize("text", ["9" * LONG + "x", "9" * LONG + "e", "." + "9" * LONG + "-"])
def test_a_long_number_that_is_none_is_refused_at_once(text):
    start_s = time.thread_time()
    with pytest.raises(errors.ConfigError, match="Not a number of type DOUBLE"):
        config_types.parse("k", text, config_types.Type.DOUBLE)
    assert time.thread_time() - start_s < 1.0


@pytest.mark.parametrize(
    "text", ['"' + '\\"' * LONG, "[" + "0" * LONG + "x", "[" + '"' * LONG, '["\\\n' + '"' * LONG]
)
def test_long_json_that_is_none_is_refused_at_once(text):
    start_s = time.thread_time()
    with pytest.raises(errors.DataError):
        json_text.parse(text.encode())
    assert time.thread_time() - start_s < 1.0
