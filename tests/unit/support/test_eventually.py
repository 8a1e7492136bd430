from __future__ import annotations

import pytest

from tests.support.eventually import eventually


def test_the_first_truthy_answer_comes_back():
    answers = iter([0, None, "yes"])

    assert eventually(lambda: next(answers), 5, interval_s=0.001) == "yes"


def test_a_failed_assertion_means_not_yet():
    seen = []

    def third_time():
        seen.append(1)
        assert len(seen) == 3, "too early"
        return True

    assert eventually(third_time, 5, interval_s=0.001)


def test_giving_up_names_what_was_awaited_and_what_was_seen():
    with pytest.raises(AssertionError, match=r"not within 0\.01 s: lag is gone \(last answer 0\)"):
        eventually(lambda: 0, 0.01, "lag is gone")

    def nothing_came() -> bool:
        raise AssertionError("nothing came")

    with pytest.raises(AssertionError, match=r"7 left \(last: nothing came"):
        eventually(nothing_came, 0.01, lambda: "7 left")


def test_another_error_ends_the_wait_at_once():
    with pytest.raises(ZeroDivisionError):
        eventually(lambda: 1 / 0, 60)
