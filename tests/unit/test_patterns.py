"""Every regular expression of the product takes linear time on text chosen to be slow."""

from __future__ import annotations

import pathlib
import re

import pytest

from tests.support import pattern_attacks

ROOT = pathlib.Path(__file__).parents[2]
USES = pattern_attacks.in_source(ROOT)
CONSTANT = [use for use in USES if use.text is not None]
COMPOSED = {
    ("mm2/status/topic_rows.py", "f'(?<![\\\\w.-]){re.escape(name)}(?!\\\\d)'"),
    ("mm2/status/status_document.py", "named"),
    ("mm2/config/clusters_section.py", "words"),
}
"""One escaped name between two assertions that look at one character each."""


@pytest.mark.parametrize("use", CONSTANT, ids=lambda use: f"{use.place} {use.name}")
def test_an_expression_takes_linear_time(use):
    assert use.text is not None
    assert pattern_attacks.slow(use.text, use.flags, use.methods) is None


def test_what_is_no_constant_is_known_or_bounded():
    """Expressions of users go through `user_pattern`, which limits the steps of each match."""
    allowed = {
        (
            "mm2/config/config_value_types.py",
            "pattern",
        ),  # its callers' constants are measured above
    }
    found = {(use.place.rpartition(":")[0], use.name) for use in USES if use.text is None}
    assert found == COMPOSED | allowed


def test_all_expressions_are_found():
    assert len(CONSTANT) > 70
    named = sum(
        path.read_text().count("re.compile(")
        for package in ("connect_runtime", "mm2")
        for path in (ROOT / package).rglob("*.py")
    )
    compiled = [use for use in USES if use.name.isupper() or use.text is None]
    assert len(compiled) >= named / 2


@pytest.mark.parametrize(
    ("planted", "method"),
    [
        (r"(a+)+b", "fullmatch"),
        (r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)", "fullmatch"),
        (r"\s*,\s*", "split"),
        (r"\$\{([^}]*?):(([^}]*?):)?([^}]*?)\}", "search"),
        (r"\$\{([^}:]*):(?:([^}]*?):)?([^}]*?)\}", "sub"),
        (r'"(?:[^"\\]|\\.)*"', "sub"),
        (r"/\*.*?\*/", "sub"),
        (r"\w+(\.\w+)*[.:]\w+(\.\w+)*", "fullmatch"),
        (r"[0-9]+x", "search"),
        (r"(\w\w?)*!", "match"),
        (r"x*x*x*y", "fullmatch"),
        (rb"(?:\r?\n)*z", "search"),
    ],
)
def test_a_slow_expression_is_seen(planted, method):
    assert pattern_attacks.slow(planted, re.DOTALL, frozenset({method})) is not None


@pytest.mark.parametrize(
    ("harmless", "method"),
    [
        (r"[0-9]++x", "match"),
        (r"(?<![0-9])[0-9]++x", "search"),
        (r"[a-z]+(_[a-z]+)*", "fullmatch"),
    ],
)
def test_a_linear_expression_passes(harmless, method):
    assert pattern_attacks.slow(harmless, 0, frozenset({method})) is None


def test_uses_are_read_with_their_flags_and_methods():
    source = (
        "import re\n"
        "_A = re.compile(r'a' 'b', re.ASCII | re.DOTALL)\n"
        "def f(x):\n    return _A.fullmatch(x) or _A.sub('', x) or re.match(rb'c', x)\n"
    )
    first, second = sorted(pattern_attacks.in_module(source, "m.py"), key=lambda use: use.place)
    assert (first.text, first.flags, first.place) == ("ab", re.ASCII | re.DOTALL, "m.py:2")
    assert first.methods == {"fullmatch", "sub"}
    assert (second.text, second.methods) == (b"c", frozenset({"match"}))
