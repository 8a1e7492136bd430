from __future__ import annotations

from mm2.core.failover import plan, steps

Step = steps.Step


def test_an_emergency_stops_and_fences_before_positions_are_taken():
    assert steps.order(plan.Kind.EMERGENCY, ()) == (
        Step.RECORD,
        Step.STOP_FLOW,
        Step.FENCE,
        Step.LOOK_AGAIN,
        Step.MOVE_GROUPS,
        Step.VERIFY,
        Step.REPORT,
    )


def test_hooks_have_their_places_in_an_emergency():
    found = steps.order(plan.Kind.EMERGENCY, ["start-producers", "stop-consumers"])
    assert found[:2] == (Step.RECORD, Step.STOP_CONSUMERS)
    assert found[-2:] == (Step.START_PRODUCERS, Step.REPORT)
    assert Step.STOP_PRODUCERS not in found


def test_a_planned_move_has_all_steps_with_or_without_hooks():
    assert steps.order(plan.Kind.PLANNED, ()) == tuple(Step)


def test_every_step_has_words():
    wanted = plan.Wanted(origin="east", destination="west", kind=plan.Kind.PLANNED)
    words = [steps.text(step, wanted, "east->west") for step in Step]
    assert len(set(words)) == len(Step)
    assert words[1] == "stop producers on east"
