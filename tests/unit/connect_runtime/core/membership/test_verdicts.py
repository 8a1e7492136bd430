from __future__ import annotations

import pytest

from connect_runtime.core.membership import verdicts

FINE, AGAIN, LATER, MOVED, MEMBER_GONE, GENERATION_GONE, ID_GIVEN, FATAL = verdicts.Verdict
TABLE = [
    # code: find, join, sync, heartbeat
    (0, FINE, FINE, FINE, FINE),
    (-1, LATER, FATAL, FATAL, LATER),
    (14, LATER, LATER, LATER, LATER),
    (15, LATER, MOVED, MOVED, MOVED),
    (16, LATER, MOVED, MOVED, MOVED),
    (22, FATAL, FATAL, GENERATION_GONE, GENERATION_GONE),
    (23, FATAL, FATAL, FATAL, LATER),
    (24, FATAL, FATAL, FATAL, LATER),
    (25, FATAL, MEMBER_GONE, MEMBER_GONE, MEMBER_GONE),
    (26, FATAL, FATAL, FATAL, LATER),
    (27, FATAL, AGAIN, AGAIN, AGAIN),
    (30, FATAL, FATAL, FATAL, FATAL),
    (79, FATAL, ID_GIVEN, FATAL, LATER),
    (81, FATAL, FATAL, FATAL, LATER),
    (82, FATAL, FATAL, FATAL, FATAL),
]


@pytest.mark.parametrize(("code", "find", "join", "sync", "heartbeat"), TABLE)
def test_codes_mean_what_they_mean_to_java(code, find, join, sync, heartbeat):
    assert verdicts.of_find(code) is find
    assert verdicts.of_join(code) is join
    assert verdicts.of_sync(code) is sync
    assert verdicts.of_heartbeat(code) is heartbeat


def test_an_error_names_what_was_done_the_code_and_the_remedy():
    error = verdicts.MembershipError("group g: joining the group", error_code=81)
    assert error.error_code == 81
    assert str(error) == (
        "group g: joining the group: GROUP_MAX_SIZE_REACHED (81); "
        "the group has as many members as the broker's group.max.size allows"
    )
