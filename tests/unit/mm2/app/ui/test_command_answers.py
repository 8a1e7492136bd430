from __future__ import annotations

import pytest

from mm2.app.failover import show
from mm2.app.ui import command_answers, tones
from mm2.core.failover import orders, plan, verdicts

WANTED = orders.Wanted(origin="east", destination="west", kind=orders.Kind.EMERGENCY)


def receipt(number, **fields):
    given = {
        "flow": "east->west",
        "topic": "orders",
        "partition": 0,
        "kind": "source-gone",
        "source": [3, 9],
        "target": None,
        "at_ms": number,
        "detail": "they were deleted",
        "id": f"id{number}",
    }
    return given | fields


def finding(number, weight=verdicts.Weight.COSTS):
    return verdicts.Finding(weight=weight, code=f"c{number}", text=f"t{number}", group="g")


def planned(*findings):
    made = plan.Plan(
        wanted=WANTED, at_ms=7, flow="east->west", mirrored=(), groups=(), findings=findings
    )
    return command_answers.plan(show.as_json(made, [], {"bootstrap.servers": "w:1"}))


def test_receipts_are_told_newest_first_and_counted_by_kind():
    found = command_answers.receipts(
        {"version": 1, "receipts": [receipt(1), receipt(3, kind="poison"), receipt(2)]}
    )
    assert [each["at_ms"] for each in found["receipts"]] == [3, 2, 1]
    assert (found["receipt_count"], found["kinds"]) == (3, {"poison": 1, "source-gone": 2})
    assert found["receipts"][1] == {
        "id": "id2",
        "at_ms": 2,
        "topic": "orders",
        "partition": 0,
        "kind": "source-gone",
        "source": [3, 9],
        "target": None,
        "detail": "they were deleted",
    }


def test_what_operators_did_is_apart_from_losses_and_duplicates():
    done = [receipt(number, kind="operator-action") for number in range(2)]
    found = command_answers.receipts({"version": 1, "receipts": [*done, receipt(5)]})
    assert (found["receipt_count"], found["kinds"]) == (1, {"source-gone": 1})
    assert [each["at_ms"] for each in found["receipts"]] == [5]
    assert [each["at_ms"] for each in found["actions"]] == [1, 0]


def test_only_the_newest_receipts_are_shown_and_all_are_counted():
    many = [receipt(number) for number in range(command_answers.RECEIPTS_MAX + 20)]
    found = command_answers.receipts({"version": 1, "receipts": many})
    assert len(found["receipts"]) == command_answers.RECEIPTS_MAX
    assert found["receipt_count"] == command_answers.RECEIPTS_MAX + 20
    assert found["receipts"][-1]["at_ms"] == 20


@pytest.mark.parametrize(
    ("weights", "verdict", "tone"),
    [
        ([], "GO", "good"),
        ([verdicts.Weight.NOTE], "GO", "good"),
        ([verdicts.Weight.NOTE, verdicts.Weight.COSTS], "GO, AT A COST", "wait"),
        ([verdicts.Weight.COSTS, verdicts.Weight.FORBIDS], "NO-GO", "bad"),
    ],
)
def test_a_plan_is_told_as_the_command_says_it(weights, verdict, tone):
    found = planned(*(finding(number, weight) for number, weight in enumerate(weights)))
    assert (found["verdict"], found["tone"], found["plan_ms"]) == (verdict, tone, 7)
    assert (found["group_count"], found["lag_records"], found["read_again"]) == (
        0,
        0,
        "at most 0 records",
    )


def test_what_forbids_comes_first_and_only_so_much_is_told():
    costs = [finding(number) for number in range(40)]
    found = planned(*costs, finding(99, verdicts.Weight.FORBIDS))
    assert found["findings"][0] == {"weight": "no-go", "tone": "bad", "code": "c99", "text": "t99"}
    assert len(found["findings"]) == command_answers.FINDINGS_MAX
    assert found["findings_hidden"] == 41 - command_answers.FINDINGS_MAX


def test_what_clients_need_to_get_in_is_not_told_on():
    assert "w:1" not in str(planned())


@pytest.mark.parametrize("weight", list(verdicts.Weight))
def test_every_weight_has_a_tone_and_no_finding_looks_well(weight):
    (told,) = planned(finding(0, weight))["findings"]
    assert told["tone"] in {each.value for each in tones.Tone} - {"good"}


@pytest.mark.parametrize("read", [command_answers.receipts, command_answers.plan])
def test_another_release_is_not_guessed_at(read):
    with pytest.raises(command_answers.OtherVersionError, match="of version 2"):
        read({"version": 2})
