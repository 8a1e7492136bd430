from __future__ import annotations

from connect_runtime.core.membership import standing


def test_states_in_the_group_and_in_a_round_are_states_at_work():
    assert standing.IN_GROUP < standing.AT_WORK
    assert standing.IN_ROUND < standing.AT_WORK
    assert standing.State.UNJOINED in standing.AT_WORK
    assert standing.State.CLOSED not in standing.AT_WORK


def test_a_new_member_is_of_no_generation():
    assert standing.Generation() == standing.Generation(number=-1, member_id="", protocol="")


def test_every_state_is_described():
    assert standing.__doc__ is not None
    for state in standing.State:
        assert f"\n    {state.name} " in standing.__doc__
