from __future__ import annotations

from mm2.failover import failover_steps
from mm2.failover.failover_request import FailoverKind, FailoverRequest
from mm2.failover.failover_steps import FailoverStep

Step = FailoverStep


def wanted(kind, export=""):
    return FailoverRequest(origin="east", destination="west", kind=kind, export=export)


def test_an_emergency_stops_and_fences_before_positions_are_taken():
    assert failover_steps.order_steps(wanted(FailoverKind.EMERGENCY), ()) == (
        Step.RECORD,
        Step.STOP_FLOW,
        Step.FENCE,
        Step.FINAL_POSITIONS,
        Step.MOVE_GROUPS,
        Step.VERIFY,
        Step.REPORT,
    )


def test_hooks_have_their_places_in_an_emergency():
    found = failover_steps.order_steps(
        wanted(FailoverKind.EMERGENCY), ["start-producers", "stop-consumers"]
    )
    assert found[:2] == (Step.RECORD, Step.STOP_CONSUMERS)
    assert found[-2:] == (Step.START_PRODUCERS, Step.REPORT)
    assert Step.STOP_PRODUCERS not in found


def test_a_planned_move_has_all_steps_with_or_without_hooks():
    assert failover_steps.order_steps(wanted(FailoverKind.PLANNED), ()) == (
        Step.RECORD,
        Step.STOP_PRODUCERS,
        Step.STOP_CONSUMERS,
        Step.IDLE,
        Step.AGREE,
        Step.STOP_FLOW,
        Step.FENCE,
        Step.FINAL_POSITIONS,
        Step.MOVE_GROUPS,
        Step.VERIFY,
        Step.START_CONSUMERS,
        Step.START_PRODUCERS,
        Step.REPORT,
    )


def test_going_back_exports_before_anything_is_touched_where_that_is_asked():
    back = FailoverKind.BACK
    assert failover_steps.order_steps(wanted(back, "tail.jsonl"), ()) == tuple(Step)
    assert failover_steps.order_steps(wanted(back, "tail.jsonl"), ())[:2] == (
        Step.RECORD,
        Step.EXPORT,
    )
    assert Step.EXPORT not in failover_steps.order_steps(wanted(back), ())


def test_every_step_has_words():
    about = wanted(FailoverKind.BACK, "tail.jsonl")
    words = [
        failover_steps.describe_step(step, about, "east->west", same_names=False) for step in Step
    ]
    assert len(set(words)) == len(Step)
    assert words[1] == "export to tail.jsonl the records of west that are not on east"
    assert words[2] == "stop producers on east"


def test_under_one_name_producers_of_both_clusters_are_stopped():
    about = wanted(FailoverKind.PLANNED)
    assert failover_steps.describe_step(
        Step.STOP_PRODUCERS, about, "east->west", same_names=True
    ) == ("stop producers on east and on west: records written there are replicated to east")
    for step in set(Step) - {Step.STOP_PRODUCERS}:
        said = [
            failover_steps.describe_step(step, about, "east->west", same_names=one)
            for one in (False, True)
        ]
        assert said[0] == said[1]
