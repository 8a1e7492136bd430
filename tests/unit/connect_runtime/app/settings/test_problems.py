from __future__ import annotations

import pytest

from connect_runtime.app.settings import problems


def test_a_problem_is_one_line_that_editors_understand():
    problem = problems.Problem(
        line=12,
        key="flows[0].tasks.max",
        text="is not allowed",
        given="x",
        allowed="a number",
        nearest="tasks.min",
    )
    assert problem.describe("c.yaml") == (
        "c.yaml:12: flows[0].tasks.max: is not allowed; given: 'x'; allowed: a number; "
        "did you mean 'tasks.min'?"
    )


def test_the_file_as_a_whole_has_neither_line_nor_key():
    problem = problems.Problem(line=0, key="", text="cannot be read")
    assert problem.describe("c.yaml") == "c.yaml: cannot be read"


def test_backslashes_are_shown_once_and_control_characters_escaped():
    shown = problems.Problem(line=1, key="a", text="x", given=r"\p{L}").describe("f")
    assert r"given: '\p{L}'" in shown
    shown = problems.Problem(line=1, key="a", text="x", given="a\x1b[2J").describe("f")
    assert "\x1b" not in shown
    shown = problems.Problem(line=1, key="a", text="x", given=problems.HIDDEN).describe("f")
    assert "given: [hidden]" in shown


def test_the_error_tells_all_problems_in_the_order_of_the_file():
    error = problems.SettingsError(
        "c.yaml",
        [
            problems.Problem(line=9, key="b", text="is wrong"),
            problems.Problem(line=2, key="a", text="is wrong"),
        ],
    )
    assert str(error).splitlines() == [
        "c.yaml:2: a: is wrong",
        "c.yaml:9: b: is wrong",
        "2 problems in c.yaml",
    ]
    with (
        pytest.raises(problems.SettingsError) as raised,
        problems.consequence("nothing was started"),
    ):
        raise error
    assert str(raised.value).endswith("\n2 problems in c.yaml: nothing was started")
    assert "1 problem in" in str(problems.SettingsError("c.yaml", error.problems[:1]))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("topics.exlude", "topics.exclude"),
        ("Topics", "topics"),
        ("bananas", None),
        ("", None),
    ],
)
def test_the_nearest_known_name(name, expected):
    assert problems.nearest(name, ["topics", "topics.exclude", "groups"]) == expected
