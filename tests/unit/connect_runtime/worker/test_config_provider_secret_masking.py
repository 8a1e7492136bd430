"""Values of config providers do not appear in errors."""

from __future__ import annotations

import time

import pytest

from connect_runtime.base.errors import ConnectError, FatalError, RetriableError
from connect_runtime.worker import config_provider_secret_masking
from connect_runtime.worker.config_provider_secret_masking import ProvidedValues


def provided(*values: tuple[str, str]) -> ProvidedValues:
    """Of a configuration with these values, as given and as resolved."""
    given = {f"k{at}": each for at, (each, _) in enumerate(values)}
    resolved = {f"k{at}": each for at, (_, each) in enumerate(values)}
    made = ProvidedValues(lambda _: resolved)
    assert made.resolve_config(given) == resolved
    return made


@pytest.mark.parametrize(
    ("given", "resolved", "text", "shown"),
    [
        ("${f:s:p}", "HUNTER2", "Invalid value HUNTER2 for x", "Invalid value ${f:s:p} for x"),
        ("${f:s:p}", "HUNTER2", "no key hunter2.type", "no key ${f:s:p}.type"),
        ("a-${f:s:p}-b", "a-HUNTER2-b", "is HUNTER2 or a-HUNTER2-b", "is ${f:s:p} or a-${f:s:p}-b"),
        ("${f:p}", "one1, two2", "no alias two2 or one1", "no alias ${f:p} or ${f:p}"),
        ("${f:p}:${f:q}", "user:word", "word of user", "${f:p}:${f:q} of ${f:p}:${f:q}"),
        ("${f:p}", 'it\'s \n"so"', repr('it\'s \n"so"'), "'${f:p}'"),
        ("${f:p}", 'ä"bc', '"\\u00e4\\"bc"', '"${f:p}"'),
        ("${f:p}", "${1}\\1", "is ${1}\\1", "is ${f:p}"),
        ("${f:HUNTER2:p}", "HUNTER2", "HUNTER2", "${f:HUNTER2:p}"),
        ("${f:p}", "abc", "abc is too short to be hidden", "abc is too short to be hidden"),
        ("${f:p}", "3000", "after 30000 ms, not 3000", "after 30000 ms, not ${f:p}"),
        ("${f:p}", "mirror", "MirrorSource of mirror", "MirrorSource of ${f:p}"),
        ("${f:p}", "LONGENOUGH", "inLONGENOUGHside", "in${f:p}side"),
        ("x${f:p}y", "xHUNTy", "is xHUNTy", "is x${f:p}y"),
        (
            "${f:jaas}",
            'a.PlainLoginModule required username="bob1" password="hunter";',
            "Missing required configuration of a.PlainLoginModule: bob1, hunter",
            "Missing required configuration of ${f:jaas}: ${f:jaas}, ${f:jaas}",
        ),
        ("aa${f:p}bb,cc", "aaHUNT7bb,cc", "no alias aaHUNT7bb", "no alias aa${f:p}bb"),
        ("aa${f:p}bb:1,c:2", "aaHUNT7bb:1,c:2", "host aaHUNT7bb", "host aa${f:p}bb"),
        ("/d/${f:p}", "/d/Ab3Kd//x9Zq", "cannot open /d/Ab3Kd/x9Zq", "cannot open /d/${f:p}"),
        ("/d/${f:p}", "/d/a/../Ab3Kd", "not /e/Ab3Kd or /d/Ab3Kd", "not /e/${f:p} or /d/${f:p}"),
        (
            "${f:p}",
            "broker-7.example:9092",
            "cannot resolve broker-7.example",
            "cannot resolve ${f:p}",
        ),
        ("${f:p}", "İKANHUNTER", "no İkanHUNTER, x", "no ${f:p}, x"),
        ("plain", "plain", "plain text", "plain text"),
        ("${unknown:p}", "${unknown:p}", "unknown", "unknown"),
    ],
)
def test_references_are_shown_instead(given, resolved, text, shown):
    assert provided((given, resolved)).hide_provided_values(text) == shown


def test_the_longest_value_is_hidden_first():
    made = provided(("${f:a}", "pass"), ("${f:b}", "password"))
    assert made.hide_provided_values("password, pass") == "${f:b}, ${f:a}"


def test_what_was_resolved_before_stays_hidden():
    values = iter(["first", "second"])
    made = ProvidedValues(lambda _: {"k": next(values)})
    for _ in range(2):
        made.resolve_config({"k": "${f:p}"})
    assert made.hide_provided_values("first second") == "${f:p} ${f:p}"


@pytest.mark.parametrize("kind", [FatalError, RetriableError])
def test_an_error_keeps_its_kind(kind):
    made = provided(("${f:p}", "HUNTER2"))
    untouched = kind("wrong")
    assert made.hide_provided_values_in_error(untouched) is untouched
    hidden = made.hide_provided_values_in_error(kind("wrong HUNTER2"))
    assert str(hidden) == "wrong ${f:p}"
    assert isinstance(hidden, ConnectError)
    assert isinstance(hidden, RetriableError) == (kind is RetriableError)
    assert hidden.__cause__ is None


def test_values_that_overlap_are_hidden_whole():
    made = provided(("${f:a}", "first-and"), ("${f:b}", "and-second"))
    assert made.hide_provided_values("it is first-and-second.") == "it is ${f:a}${f:b}."


def test_many_values_are_hidden_as_fast_as_few():
    made = provided(*((f"${{f:{at}}}", f"value-{at:06}") for at in range(15_000)))
    began_s = time.perf_counter()
    for at in range(0, 15_000, 10):
        assert made.hide_provided_values(f"wrong: value-{at:06}") == f"wrong: ${{f:{at}}}"
    assert time.perf_counter() - began_s < 5


def test_without_provided_values_every_text_is_shown():
    text = "x" * (config_provider_secret_masking.SEARCHED_TEXT_MAX + 1)
    assert provided().hide_provided_values(text) is text


@pytest.mark.parametrize(
    ("given", "resolved", "text"),
    [
        ("${f:p}", "\n".join(f"item-{at}" for at in range(25_000)), "item-7"),
        ("${f:p}", "HUNTER77", "HUNTER77" + "x" * 1_000_000),
        ("${f:p}", ",".join("a" * at + "1" for at in range(4, 2_500)), "a" * 100_000),
        (
            "".join(f"${{f:p}}{at}-" for at in range(300)),
            "".join(f"HUNTER{at}-" for at in range(300)),
            "HUNTER",
        ),
    ],
    ids=["many parts", "long text", "many comparisons", "many texts between references"],
)
def test_a_text_that_takes_too_long_to_search_is_not_shown(given, resolved, text):
    made = provided((given, resolved))
    began_s = time.perf_counter()
    assert made.hide_provided_values(text) == config_provider_secret_masking.UNSEARCHED_TEXT
    assert time.perf_counter() - began_s < 5
