from __future__ import annotations

import contextlib
import random
import re
import time
from typing import cast

import pytest

from connect_runtime.base import bounded_regex
from connect_runtime.base.bounded_regex import BoundedPattern, MatchLimitError, PatternError

ATOMS = ["a", "b", ".", "-", r"\.", r"\d", r"\w", r"\W", r"\s", r"\b", r"\B", "^", "$", r"\Z"]
ATOMS += ["[ab]", "[^a]", "[a-c.]", r"[\w-]", "[a-]", "(?<=a)", "(?<!b)", "(?<=[ab].)"]
WRAPPED = ["(%s)", "(?:%s)", "(?:%s)", "(?=%s)", "(?!%s)", "(?>%s)", "(?i:%s)"]
WRAPPED += ["(?-i:%s)", "(?s-i:%s)", "(?i-s:%s)", "(?m:%s)", "(?-ms:%s)"]
FLAGS = ["", "", "", "(?i)", "(?s)", "(?im)"]
REPEATED = ["*", "+", "?", "*?", "+?", "??", "{2}", "{1,2}", "{0,3}", "{1,}", "*+", "++", "?+"]


def expression(chance: random.Random, depth: int) -> str:
    """A random one, of everything that Java and Python share but backreferences."""
    branches = []
    for _ in range(chance.choice([1, 1, 1, 2, 3])):
        branch = ""
        for _ in range(chance.randrange(4)):
            if depth and chance.random() < 0.5:
                branch += chance.choice(WRAPPED) % expression(chance, depth - 1)
            else:
                branch += chance.choice(ATOMS)
            if chance.random() < 0.45:
                branch += chance.choice(REPEATED)
        branches.append(branch)
    return "|".join(branches)


@pytest.mark.parametrize("re_leaves", [0, bounded_regex.STEPS_MAX])
def test_without_backtracking_the_same_names_match(monkeypatch, re_leaves):
    """Forced for expressions that `re` could match as well; lookaheads with `re` and without."""
    monkeypatch.setattr(bounded_regex, "_LOOKAHEAD_STEP_RESERVE", re_leaves)
    chance = random.Random(11)
    compared = 0
    while compared < 8_000:
        text = chance.choice(FLAGS) + expression(chance, 3)
        try:
            backtracking = re.compile(text, re.ASCII)
        except re.error:
            continue
        program = bounded_regex._build_nfa(text)
        if program is None:
            continue
        for _ in range(8):
            name = "".join(
                chance.choices("abAB.-1 \n", weights=[4, 4, 1, 1, 2, 1, 1, 0.3, 0.3], k=5)
            )
            found = program.fullmatch(name)
            if found is not None:  # None: possibly too many steps inside a lookahead
                assert found == (backtracking.fullmatch(name) is not None), (text, name)
                compared += 1


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        ("(a+)+b", "a" * 248 + "b", "a" * 249),
        ("(a|aa)+", "a" * 249, "a" * 248 + "!"),
        ("(.*a){20}", "ba" * 120, "b" * 249),
        (".*a.*b.*c.*d.*e", "abcd" * 62 + "e", "abcd" * 62),
        (r"([a-z]+\.)*internal", "a." * 120 + "internal", "a." * 124),
        ("(?!.*(internal|secret)).*(a.*)*b.*", "a" * 248 + "b", "b" * 240 + "internal"),
        ("(?i)(x+x+)+Y", "X" * 248 + "y", "x" * 249),
        ("((?>a|ab)c?)*!", "acacaca!", "a" * 249),
        ("(?:(?!.*x)a)*b", "a" * 248 + "b", "a" * 248 + "x"),
        ("(?:^a*)*a*b$", "a" * 248 + "b", "a" * 249),
    ],
)
def test_expressions_that_would_take_for_ever_are_matched(pattern, matching, other):
    compiled = bounded_regex.compile_pattern(pattern)
    assert compiled.estimate_steps(249) > bounded_regex.STEPS_MAX or pattern.startswith(
        ("(?:", "((?>")
    )
    start_s = time.thread_time()
    assert compiled.fullmatch(matching)
    assert not compiled.fullmatch(other)
    assert time.thread_time() - start_s < 2


@pytest.mark.parametrize(
    "pattern",
    [".*", "orders.*", r"mm2.*\.internal", "__.*", "a|b|c", "(?!mm2).*", r"(a|b)\..*", "(.).*\\1"],
)
def test_usual_expressions_are_left_to_re(pattern):
    assert bounded_regex.compile_pattern(pattern).estimate_steps(249) <= bounded_regex.STEPS_MAX


@pytest.mark.parametrize("pattern", ["(a+)+\\1b", "(?:a?){5000}b", "((a{500}){500}){500}"])
def test_what_cannot_be_bounded_is_refused(pattern):
    start_s = time.thread_time()
    with pytest.raises(PatternError, match="may take more than 2,000,000 steps"):
        bounded_regex.compile_pattern(pattern)
    assert time.thread_time() - start_s < 2


def test_a_name_that_would_take_too_long_is_an_error_that_names_everything():
    compiled = bounded_regex.compile_pattern("(?:(?>.*a.*b)|x)*(?:a+)+")
    with pytest.raises(MatchLimitError) as caught:
        compiled.fullmatch("x" * 2_000 + "\x1b", key="topics")
    told = str(caught.value)
    assert told.startswith(
        "topics: matching the regular expression '(?:(?>.*a.*b)|x)*(?:a+)+' agai"
    )
    assert f"'{'x' * 80}…' of 2001 characters" in told


@pytest.mark.parametrize(
    "pattern",
    [
        r"^(?!.*-(test|dev)-.*$).*",
        r"(?!.*\.internal$)(?!.*-(test|dev)-.*).*",
        r"^((?!-test-).)*$",
        r"(?=.*x)(?:(?!(-+)+test)(?=.*x).)*",
    ],
)
@pytest.mark.parametrize("length", [300, 513, 2_048, 8_000])
def test_lookaheads_are_followed_through_long_names(pattern, length):
    compiled = bounded_regex.compile_pattern(pattern)
    start_s = time.thread_time()
    assert compiled.fullmatch("x" * length)
    assert not compiled.fullmatch("x" * length + "-test-")
    assert time.thread_time() - start_s < 4


def test_nested_lookaheads_of_exponential_cost_are_followed():
    compiled = bounded_regex.compile_pattern("(?:(?!(a+)+b)a)*")
    assert compiled.fullmatch("a" * 300)
    assert not compiled.fullmatch("a" * 300 + "b")
    compiled = bounded_regex.compile_pattern("(?=(?!(a+)+b)(?:a|aa)*$).*")
    assert compiled.fullmatch("a" * 300)
    assert not compiled.fullmatch("a" * 300 + "b")


@pytest.mark.parametrize(
    "pattern",
    [
        "(){30000000}",
        "(?:a{0}){20000000}",
        "(?:(?:){5000}){5000}",
        "(?:(?:){0,20000000}x?)*y",
        f"(?:a{'()' * 8_000}){{900}}(x+x+)+",
    ],
)
def test_compiling_is_bounded(pattern):
    start_s = time.thread_time()
    with contextlib.suppress(PatternError):
        bounded_regex.compile_pattern(pattern)
    assert time.thread_time() - start_s < 2


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("(?i)(?-i:a)(x+)+y", "Axy"),
        ("(?i)(?-i:a)(x+)+y", "aXy"),
        ("(?s)(?-s:.)(x+)+y", "\nxy"),
        ("(?i)(?=(?-i:a))(x|a)(x+)+y", "AXy"),
    ],
)
def test_flags_that_are_switched_off_hold_without_re_as_well(pattern, name):
    compiled = bounded_regex.compile_pattern(pattern)
    assert compiled.estimate_steps(len(name)) > bounded_regex.STEPS_MAX
    assert compiled.fullmatch(name) == bool(re.fullmatch(pattern, name, re.ASCII))


def test_an_expression_has_a_longest_length():
    bounded_regex.compile_pattern("a" * 16_384)
    with pytest.raises(
        PatternError, match=r"has 16,385 characters, but at most 16,384 are allowed"
    ):
        bounded_regex.compile_pattern("a" * 16_385)
    assert bounded_regex.compile_literal("." * 32_000).fullmatch("." * 32_000)


def test_large_classes_cost_more_steps():
    small = bounded_regex.compile_pattern("[a-z0-9._-]*x").estimate_steps(249)
    items = "".join(chr(0x10000 + 2 * each) for each in range(4_000))
    assert bounded_regex.compile_pattern(f"[{items}]*x").estimate_steps(249) > 100 * small
    assert small == bounded_regex.compile_pattern("[a-z]*x").estimate_steps(249)


@pytest.mark.parametrize("pattern", ["(?:(?>(a+)+b)?a)*", "(?>(x+x+)+y)*+a", "(?<=a)(?:(a+)++b)*"])
def test_what_could_match_no_name_in_bounded_time_is_refused_at_once(pattern):
    with pytest.raises(PatternError, match="may take more than"):
        bounded_regex.compile_pattern(pattern)


def test_a_defect_of_re_is_an_error_of_that_name():
    class Defective:
        def fullmatch(self, name):
            raise SystemError("The span of capturing group is wrong")

    parsed = bounded_regex.compile_pattern("a")._parsed
    compiled = BoundedPattern("a", cast("re.Pattern[str]", Defective()), parsed)
    with pytest.raises(MatchLimitError, match="against the name 'a'"):
        compiled.fullmatch("a")
    assert bounded_regex.compile_pattern("(a)(?:(b)|c)+")._compiled.groups == 0
    assert bounded_regex.compile_pattern("(a)\\1").fullmatch("aa")


def test_a_group_with_a_very_long_name_is_matched_too():
    name = "a" * 32_000
    assert bounded_regex.compile_pattern("console-consumer-.*|.*").fullmatch(name)
    start_s = time.thread_time()
    assert not bounded_regex.compile_pattern(".*b.*c.*").fullmatch(name)
    assert bounded_regex.compile_pattern("(a+)+").fullmatch(name)
    assert time.thread_time() - start_s < 3


def test_a_literal_matches_one_name():
    assert bounded_regex.compile_literal("a.b").fullmatch("a.b")
    assert not bounded_regex.compile_literal("a.b").fullmatch("axb")


def test_a_count_of_more_digits_than_python_reads_is_no_expression():
    with pytest.raises(PatternError, match="not a regular expression"):
        bounded_regex.compile_pattern(f"a{{{'9' * 5000}}}")


WIDE = "[a-\uffff]"


@pytest.mark.parametrize(
    "pattern", ["(?i)" + WIDE * 3200, f"(?i)(?={WIDE * 1000}|(?>x{WIDE})*).*", WIDE * 3200]
)
def test_many_wide_classes_are_refused_at_once(pattern):
    begun_s = time.process_time()
    with pytest.raises(PatternError, match="character classes cover more than 2,000,000"):
        bounded_regex.compile_pattern(pattern)
    assert time.process_time() - begun_s < 1


def test_some_wide_classes_are_fine():
    assert bounded_regex.compile_pattern("(?i)" + WIDE * 30).fullmatch("x" * 30)
