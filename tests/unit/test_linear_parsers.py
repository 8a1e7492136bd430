"""Parsers that replaced slow expressions return exactly what the expressions did."""

from __future__ import annotations

import functools
import random
import re
import time

import pytest

from connect_runtime.api import config_types
from connect_runtime.api.config_types import Type
from connect_runtime.api.errors import ConfigError, DataError
from connect_runtime.base import config_placeholders
from connect_runtime.config import config_providers
from connect_runtime.herder import task_config_publishing
from connect_runtime.kafka import client_errors, librdkafka_logging
from connect_runtime.plugins import header_converter, jackson_json
from connect_runtime.rest import basic_auth
from mm2.config import java_class_placeholders
from mm2.copier.spark import spark_errors

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
        for each in config_placeholders.find_placeholders(text)
    ]
    assert ours == found
    assert config_placeholders.replace_placeholders(text, lambda _: "<$1>") == JAVA_PLACEHOLDER.sub(
        "<$1>", text
    )
    assert bool(task_config_publishing.find_provider_references({"k": text})) == bool(
        JAVA_PLACEHOLDER.search(text)
    )
    assert config_providers.find_provider_names(text) == [each[0] for each in found]


@same(", \t\n\x0b\x0cab")
def test_lists_are_split_as_java_splits_them(text):
    trimmed = text.strip(config_types.JAVA_BLANKS)
    expected = re.split(r"\s*,\s*", trimmed, flags=re.ASCII) if trimmed else []
    assert config_types.parse_value("k", text, Type.LIST) == expected


@same(["+", "-", "0", "7", ".", "e", "E", "d", "F", "NaN", "Infinity"])
def test_doubles_are_read_as_before(text):
    known = re.fullmatch(
        r"[+-]?(NaN|Infinity|([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?)[dDfF]?", text
    )
    try:
        found = config_types.parse_value("k", text, Type.DOUBLE)
    except ConfigError:
        found = None
    assert (found is not None) == (known is not None)


@same("+-07.eE ")
def test_numbers_in_headers_are_read_as_before(text):
    known = re.fullmatch(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,9})?", text)
    assert (header_converter.parse_number(text) is not None) == (known is not None)


@same(['"', "\\", "0", "1", ".", "-", "[", "]", ",", "n", "\n", " ", "{", "}", ":", "e"])
def test_json_with_leading_zeros_is_read_as_before(text):
    before = re.compile(r'"(?:[^"\\]|\\.)*"|(?<![0-9.eE+\-])(-?)0+(?=[0-9])')
    repaired = before.sub(jackson_json._drop_leading_zeros, text)
    try:
        expected = jackson_json.parse_payload(repaired.encode())
    except DataError:
        expected = DataError
    try:
        found = jackson_json.parse_payload(text.encode())
    except DataError:
        found = DataError
    assert found == expected


@same(["KafkaConnect", " ", "{", "}", ";", "x", "\n"])
def test_the_entry_of_a_jaas_file_is_found_as_before(text):
    before = re.search(r"\bKafkaConnect\s*\{(?P<entry>[^}]*)\}\s*;", text)
    assert basic_auth._extract_jaas_section(text) == (before["entry"] if before else None)


@same(["a", "B", "_", ".", ":", "1", "-", "é"])
def test_names_of_classes_are_told_from_others_as_before(text):
    before = re.fullmatch(r"\w+(\.\w+)*[.:]\w+(\.\w+)*", text)
    assert java_class_placeholders.is_python_class_name(text) == (before is not None)


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
        assert (
            spark_errors.explain_job_failure(text) == before[1].rstrip().rpartition("\n")[2].strip()
        )


@pytest.mark.parametrize("ending", ["", ", 30 identical error(s) suppressed"])
def test_what_librdkafka_adds_to_its_messages_is_left_out(ending):
    detail = f"(after 12ms in state CONNECT{ending})"
    said = client_errors._strip_librdkafka_suffix(f"Connect to x:9 failed: refused {detail}")
    assert said == "Connect to x:9 failed: refused"
    assert "12ms" not in librdkafka_logging._DURATION_PATTERN.sub("", f"x: 7 {detail} and 12ms")
    assert client_errors._strip_librdkafka_suffix("no detail (really)") == "no detail (really)"


LONG = 64_000


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (lambda text: task_config_publishing.find_provider_references({"k": text}), "${a:" * LONG),
        (config_providers.find_provider_names, "${a:" * LONG),
        (config_providers.find_provider_names, "${a:" + ":" * LONG),
        (config_providers.find_provider_names, "${" * LONG),
        (
            lambda text: config_providers.rewrite_placeholders(text, lambda *_: ""),
            "${a:b}${" * LONG,
        ),
        (
            lambda text: config_types.parse_value("k", text, Type.LIST),
            "a" + " " * LONG + "b",
        ),
        (header_converter.parse_value, "9" * LONG + "x"),
        (header_converter.parse_value, "[" + "9" * LONG + "x]"),
        (header_converter.parse_value, "[" * LONG),
        (header_converter.parse_value, "," * LONG),
        (header_converter.parse_value, '{"":' * LONG),
        (java_class_placeholders.is_python_class_name, "w." * LONG),
        (spark_errors.explain_job_failure, "Traceback (most recent call last):\n" + " \n" * LONG),
    ],
)
def test_long_texts_cost_little(read, text):
    start_s = time.thread_time()
    read(text)
    assert time.thread_time() - start_s < 1.0


@pytest.mark.parametrize("text", ["9" * LONG + "x", "9" * LONG + "e", "." + "9" * LONG + "-"])
def test_a_long_number_that_is_none_is_refused_at_once(text):
    start_s = time.thread_time()
    with pytest.raises(ConfigError, match="Not a number of type DOUBLE"):
        config_types.parse_value("k", text, Type.DOUBLE)
    assert time.thread_time() - start_s < 1.0


@pytest.mark.parametrize(
    "text", ['"' + '\\"' * LONG, "[" + "0" * LONG + "x", "[" + '"' * LONG, '["\\\n' + '"' * LONG]
)
def test_long_json_that_is_none_is_refused_at_once(text):
    start_s = time.thread_time()
    with pytest.raises(DataError):
        jackson_json.parse_payload(text.encode())
    assert time.thread_time() - start_s < 1.0
