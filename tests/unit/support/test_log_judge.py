"""The judge finds what it is there to find."""

from __future__ import annotations

import pytest

from tests.support import log_judge

RECORDED = {"one": [b"one-1", b"one-2", b"one-3"], "two": [b"two-1", b"two-2"]}
GOOD = [b"one-1", b"two-1", b"one-2", b"one-3", b"two-2"]


def test_an_interleaving_in_order_is_good():
    assert log_judge.verdicts(GOOD, RECORDED) == []


@pytest.mark.parametrize(
    ("held", "expected"),
    [
        ([*GOOD[:2], *GOOD[3:]], ["one: 1 lost, first b'one-2'"]),
        ([*GOOD[:-1]], ["two: 1 lost, first b'two-2'"]),
        ([*GOOD, b"one-3"], ["one: 1 twice, first b'one-3'"]),
        ([*GOOD, b"two-9"], ["two: 1 never acknowledged, first b'two-9'"]),
        ([b"one-2", b"two-1", b"one-1", b"one-3", b"two-2"], ["one: out of order"]),
        ([], ["one: 3 lost, first b'one-1'", "two: 2 lost, first b'two-1'"]),
    ],
)
def test_planted_faults_are_found(held, expected):
    assert log_judge.verdicts(held, RECORDED) == expected
