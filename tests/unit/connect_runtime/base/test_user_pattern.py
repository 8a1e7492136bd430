from __future__ import annotations

import random
import re
import time

import pytest

from connect_runtime.base import user_pattern

ATOMS = ["a", "b", ".", "-", r"\.", r"\d", r"\w", r"\W", r"\s", r"\b", r"\B", "^", "$", r"\Z"]
ATOMS += ["[ab]", "[^a]", "[a-c.]", r"[\w-]", "[a-]", "(?<=a)", "(?<!b)", "(?<=[ab].)"]
WRAPPED = ["(%s)", "(?:%s)", "(?:%s)", "(?=%s)", "(?!%s)", "(?>%s)", "(?i:%s)"]
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


def test_without_backtracking_the_same_names_match():
    """Forced for expressions that `re` could match as well."""
    chance = random.Random(11)
    compared = 0
    while compared < 15_000:
        text = expression(chance, 3)
        try:
            backtracking = re.compile(text, re.ASCII)
        except re.error:
            continue
        program = user_pattern._program(text)
        if program is None:
            continue
        for _ in range(8):
            name = "".join(chance.choices("abA.-1 \n", weights=[4, 4, 1, 2, 1, 1, 0.3, 0.3], k=5))
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
    compiled = user_pattern.compile_pattern(pattern)
    assert compiled.steps(249) > user_pattern.STEPS_MAX or pattern.startswith(("(?:", "((?>"))
    start_s = time.thread_time()
    assert compiled.fullmatch(matching)
    assert not compiled.fullmatch(other)
    assert time.thread_time() - start_s < 2


@pytest.mark.parametrize(
    "pattern",
    [".*", "orders.*", r"mm2.*\.internal", "__.*", "a|b|c", "(?!mm2).*", r"(a|b)\..*", "(.).*\\1"],
)
def test_usual_expressions_are_left_to_re(pattern):
    assert user_pattern.compile_pattern(pattern).steps(249) <= user_pattern.STEPS_MAX


@pytest.mark.parametrize("pattern", ["(a+)+\\1b", "(?:a?){5000}b", "((a{500}){500}){500}"])
def test_what_cannot_be_bounded_is_refused(pattern):
    start_s = time.thread_time()
    with pytest.raises(user_pattern.PatternError, match="may take more than 2,000,000 steps"):
        user_pattern.compile_pattern(pattern)
    assert time.thread_time() - start_s < 2


def test_a_name_that_would_take_too_long_is_an_error_that_names_everything():
    compiled = user_pattern.compile_pattern("(?:(?!(a+)+b)a)*")
    with pytest.raises(user_pattern.MatchLimitError) as caught:
        compiled.fullmatch("a" * 200 + "\x1b", key="topics")
    told = str(caught.value)
    assert told.startswith("topics: matching the regular expression '(?:(?!(a+)+b)a)*' against")
    assert f"'{'a' * 80}…' of 201 characters" in told


def test_a_group_with_a_very_long_name_is_matched_too():
    name = "a" * 32_000
    assert user_pattern.compile_pattern("console-consumer-.*|.*").fullmatch(name)
    start_s = time.thread_time()
    assert not user_pattern.compile_pattern(".*b.*c.*").fullmatch(name)
    assert user_pattern.compile_pattern("(a+)+").fullmatch(name)
    assert time.thread_time() - start_s < 3


def test_a_literal_matches_one_name():
    assert user_pattern.literal("a.b").fullmatch("a.b")
    assert not user_pattern.literal("a.b").fullmatch("axb")


def test_a_count_of_more_digits_than_python_reads_is_no_expression():
    with pytest.raises(user_pattern.PatternError, match="not a regular expression"):
        user_pattern.compile_pattern(f"a{{{'9' * 5000}}}")
