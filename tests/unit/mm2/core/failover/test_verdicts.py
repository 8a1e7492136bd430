"""How findings weigh."""

from __future__ import annotations

import pytest

from mm2.core.failover import verdicts

Weight, Verdict = verdicts.Weight, verdicts.Verdict


def finding(weight, group=""):
    return verdicts.Finding(weight=weight, code="lag", text="…", group=group)


@pytest.mark.parametrize(
    ("weights", "verdict"),
    [
        ([], Verdict.GO),
        ([Weight.NOTE], Verdict.GO),
        ([Weight.NOTE, Weight.COSTS], Verdict.GO_AT_A_COST),
        ([Weight.FORBIDS, Weight.COSTS], Verdict.NO_GO),
    ],
)
def test_the_gravest_decides(weights, verdict):
    assert verdicts.verdict(map(finding, weights)) is verdict


@pytest.mark.parametrize(
    ("accepted", "weight"),
    [
        ((), Weight.FORBIDS),
        (("lag",), Weight.COSTS),
        (("lag:billing",), Weight.COSTS),
        (("lag:other",), Weight.FORBIDS),
        (("ends",), Weight.FORBIDS),
    ],
)
def test_what_is_accepted_costs(accepted, weight):
    assert verdicts.weighed(finding(Weight.FORBIDS, "billing"), accepted).weight is weight


def test_a_note_stays_a_note():
    assert verdicts.weighed(finding(Weight.NOTE), ["lag"]).weight is Weight.NOTE
