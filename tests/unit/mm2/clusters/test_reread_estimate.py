"""How many records are read again, in words that claim no more than is known."""

from __future__ import annotations

from typing import Any

import pytest

from mm2.clusters import reread_estimate
from mm2.clusters.cluster_pair_snapshot import PositionBasis

CHECKPOINT = {"basis": "checkpoint", "checkpointed_ms": 1_000}


def group(again_max: int | None = 0, **given: Any) -> dict[str, Any]:
    usual: dict[str, Any] = {
        "basis": "committed",
        "checkpointed_ms": None,
        "state": "empty",
        "blocking_state": None,
        "read_error": "",
        "partitions": [{}],
    }
    found = {**usual, "reread_max": again_max, "reread_known_max": again_max}
    return {**found, **given}


NOWHERE = {"basis": "checkpoint", "partitions": [], "read_error": "its coordinator is away"}


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        ([], "at most 0 records"),
        ([group(3), group(4)], "at most 7 records"),
        ([group(3), group(None)], "unknown"),
        ([group(3), group(4, blocking_state="active")], "at most 3 records"),
        (
            [group(3), group(900, **CHECKPOINT)],
            "unknown, at most 903 records (1 group at its last checkpoint, 149 s old)",
        ),
        (
            [group(None, **CHECKPOINT), group(1, **CHECKPOINT | {"checkpointed_ms": 100_000})],
            "unknown (2 groups at checkpoints up to 149 s old)",
        ),
        (
            [group(9, **CHECKPOINT | {"checkpointed_ms": None})],
            "unknown, at most 9 records (1 group at its last known offsets)",
        ),
        (
            [group(3), group(None, **CHECKPOINT, reread_known_max=900)],
            "unknown, at most 903 records (1 group at its last checkpoint, 149 s old), plus all "
            "records of any topic that it may have started to read since then",
        ),
        ([group(None, **NOWHERE)], "unknown (1 group without a checkpoint)"),
        (
            [group(5, **CHECKPOINT), group(None, **NOWHERE)],
            "unknown (1 group at its last checkpoint, 149 s old, 1 group without a checkpoint)",
        ),
        (
            [group(3, state="active"), group(4)],
            "at most 7 records, plus what 1 group still consumes from now on",
        ),
    ],
)
def test_what_is_read_again(groups, words):
    assert (
        reread_estimate.describe_rereads(groups, at_ms=150_000, planned=False, all_known=True)
        == words
    )


def test_a_planned_move_waits_until_nobody_consumes():
    active = [group(state="active")]
    words = reread_estimate.describe_rereads(active, at_ms=0, planned=True, all_known=True)
    assert words == "at most 0 records"


@pytest.mark.parametrize(
    ("groups", "bound", "words"),
    [
        ([], None, "unknown"),
        ([group(3, blocking_state="active")], None, "unknown"),
        ([group(3)], 3, "at most 3 records"),
    ],
)
def test_where_not_all_groups_are_known_none_that_moves_is_no_bound(groups, bound, words):
    assert reread_estimate.compute_reread_bound(groups, all_known=False) == bound
    assert (
        reread_estimate.describe_rereads(groups, at_ms=0, planned=False, all_known=False) == words
    )


@pytest.mark.parametrize(
    ("groups", "code", "silent", "all_known"),
    [
        ([], "lag", "", True),
        ([group(3, unread="away")], "lag", "", True),
        ([group(None, **NOWHERE)], "lag", "", False),
        ([group()], "groups-unlisted", "", False),
        ([group()], "lag", "it burns", False),
    ],
)
def test_whether_all_groups_are_known(groups, code, silent, all_known):
    assert (
        reread_estimate.are_all_groups_known(groups, [{"code": code}], origin_error=silent)
        is all_known
    )


@pytest.mark.parametrize(
    ("ms", "said"),
    [
        (-5, "0 s"),
        (149_900, "149 s"),
        (599_999, "599 s"),
        (600_000, "10 min"),
        (7_199_999, "119 min"),
        (7_200_000, "2.0 h"),
        (200_000_000, "2.3 d"),
    ],
)
def test_ages(ms, said):
    assert reread_estimate.format_age(ms) == said


@pytest.mark.parametrize(
    ("origin", "written_ms", "said"),
    [
        (PositionBasis.COMMITTED, None, "committed"),
        (PositionBasis.CHECKPOINTED, 1_000, "checkpoint, 149 s old"),
        (PositionBasis.CHECKPOINTED, None, "checkpoint"),
        (PositionBasis.COMMITTED_AT_START, None, "committed at the start"),
    ],
)
def test_the_basis_of_a_position(origin, written_ms, said):
    assert reread_estimate.describe_position_basis(origin, written_ms, at_ms=150_000) == said
