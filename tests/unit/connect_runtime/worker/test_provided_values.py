"""Values of config providers do not appear in errors."""

from __future__ import annotations

import pytest

from connect_runtime.base.errors import ConnectError, FatalError, RetriableError
from connect_runtime.worker.provided_values import ProvidedValues


def provided(*values: tuple[str, str]) -> ProvidedValues:
    """Of a configuration with these values, as given and as resolved."""
    given = {f"k{at}": each for at, (each, _) in enumerate(values)}
    resolved = {f"k{at}": each for at, (_, each) in enumerate(values)}
    made = ProvidedValues(lambda _: resolved)
    assert made.resolve(given) == resolved
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
        ("plain", "plain", "plain text", "plain text"),
        ("${unknown:p}", "${unknown:p}", "unknown", "unknown"),
    ],
)
def test_references_are_shown_instead(given, resolved, text, shown):
    assert provided((given, resolved)).hide(text) == shown


def test_the_longest_value_is_hidden_first():
    made = provided(("${f:a}", "pass"), ("${f:b}", "password"))
    assert made.hide("password, pass") == "${f:b}, ${f:a}"


def test_what_was_resolved_before_stays_hidden():
    values = iter(["first", "second"])
    made = ProvidedValues(lambda _: {"k": next(values)})
    for _ in range(2):
        made.resolve({"k": "${f:p}"})
    assert made.hide("first second") == "${f:p} ${f:p}"


@pytest.mark.parametrize("kind", [FatalError, RetriableError])
def test_an_error_keeps_its_kind(kind):
    made = provided(("${f:p}", "HUNTER2"))
    untouched = kind("wrong")
    assert made.hide_in_error(untouched) is untouched
    hidden = made.hide_in_error(kind("wrong HUNTER2"))
    assert str(hidden) == "wrong ${f:p}"
    assert isinstance(hidden, ConnectError)
    assert isinstance(hidden, RetriableError) == (kind is RetriableError)
    assert hidden.__cause__ is None


@pytest.mark.parametrize(
    ("cause", "is_kept"), [(ValueError("wrong"), True), (ValueError("wrong HUNTER2"), False)]
)
def test_a_cause_is_kept_unless_it_contains_a_value(cause, is_kept):
    made = provided(("${f:p}", "HUNTER2"))
    error = FatalError("wrong")
    error.__cause__ = RuntimeError("between")
    error.__cause__.__context__ = cause
    assert made.hide_in_error(error) is error
    assert (error.__cause__ is not None) == is_kept
