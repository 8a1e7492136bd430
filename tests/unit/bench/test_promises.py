from __future__ import annotations

import pytest

from tests.bench.promises import Expectation


@pytest.mark.parametrize(
    ("actual", "met", "line"),
    [
        (3.21, True, "- met: soon: 3.21 s"),
        (12.0, False, "- NOT met: soon: 12.0 s"),
        (None, False, "- not measured: soon"),
    ],
)
def test_a_line_says_what_came_of_it(actual, met, line):
    told = Expectation(text="soon", actual=actual, met=met, unit=" s")
    assert told.line == line
